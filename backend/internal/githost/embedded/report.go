package embedded

import "gitbind.dev/gitbridge/brief"

// maxSideBand is the most that one packet of side-band-64k carries.
const maxSideBand = 65515

// maxReason bounds the reason against a ref, in bytes.
const maxReason = 1000

// okPush is the answer to a push that was taken.
func okPush(req *pushRequest) []byte {
	return pushReport(req, "ok", "", nil)
}

// refusedPush is the answer to a push that git never sees: in the protocol's
// own form, so that stock git shows the words and exits non-zero, and so that a
// program reads a final no. words are for people; reasons are one line for each
// ref, in the order of the commands.
func refusedPush(req *pushRequest, words string, reasons []string) []byte {
	return pushReport(req, "ok", words, reasons)
}

// fullPush is the answer to a push that there is no room for. It is no final no:
// the host could not unpack.
func fullPush(req *pushRequest, words string) []byte {
	reasons := make([]string, len(req.Commands))
	for i := range reasons {
		reasons[i] = "unpacker error"
	}
	return pushReport(req, words, words, reasons)
}

// pushReport is an answer with a reason against each ref; nil is that all are set.
func pushReport(req *pushRequest, unpack, words string, reasons []string) []byte {
	var report []byte
	if req.ReportStatus {
		report = appendPkt(report, "unpack "+unpack+"\n")
		for i, c := range req.Commands {
			line := "ok " + c.Ref
			if reasons != nil {
				line = "ng " + c.Ref + " " + brief.CutBytes(brief.OneLine(reasons[i]), maxReason)
			}
			report = appendPkt(report, line+"\n")
		}
		report = append(report, flushPkt...)
	}
	if !req.SideBand {
		return report
	}
	var out []byte
	if words != "" {
		out = appendBand(out, 2, []byte(words+"\n"))
	}
	out = appendBand(out, 1, report)
	return append(out, flushPkt...)
}

// appendBand appends data on one band of side-band-64k.
func appendBand(out []byte, band byte, data []byte) []byte {
	for len(data) > 0 {
		n := min(len(data), maxSideBand)
		out = appendPkt(out, string(band)+string(data[:n]))
		data = data[n:]
	}
	return out
}
