package embedded

import (
	"errors"
	"fmt"
	"io"
)

// maxPkt is the largest pkt-line with its four digits of length.
const maxPkt = 65520

// errPktLine says that bytes are not in Git's pkt-line format.
var errPktLine = errors.New("malformed pkt-line")

// readPkt reads one pkt-line. A flush packet gives nil and no error; the
// delimiters of protocol v2 have no place where this is used, and are refused.
func readPkt(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := pktLength(head)
	if err != nil || n == 0 {
		return nil, err
	}
	payload := make([]byte, n-len(head))
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, fmt.Errorf("%w: ends within a line", errPktLine)
	}
	return payload, nil
}

func pktLength(head [4]byte) (int, error) {
	n := 0
	for _, c := range head {
		d := hexDigit(c)
		if d < 0 {
			return 0, fmt.Errorf("%w: length %q", errPktLine, head[:])
		}
		n = n<<4 | d
	}
	if n != 0 && n < len(head) || n > maxPkt {
		return 0, fmt.Errorf("%w: length %d", errPktLine, n)
	}
	return n, nil
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// appendPkt appends s as one pkt-line. s is at most maxPkt-4 bytes long.
func appendPkt(b []byte, s string) []byte {
	return append(fmt.Appendf(b, "%04x", len(s)+4), s...)
}

const flushPkt = "0000"
