package guard

import "gitbind.dev/gitbridge/contract"

// Reasons why a state of the branch status is not the one that was known.
const (
	// StatusMissing: it has no epoch, or there is no such branch.
	StatusMissing contract.Reason = "StatusMissing"
	// StatusReplaced: it has another epoch.
	StatusReplaced contract.Reason = "StatusReplaced"
	// StatusBehind: it is older than what was known.
	StatusBehind contract.Reason = "StatusBehind"
)

// Observed names a state of the branch status. Without an epoch it is none.
type Observed struct {
	Epoch    string
	Sequence int64
}

// JudgeStatus decides whether a state of status continues one that was known. An older
// one comes from a backup, another epoch from another control plane or another
// repository: what either says of a service need not be so.
func JudgeStatus(known, now Observed) Verdict {
	switch {
	case known.Epoch == "":
		return Verdict{}
	case now.Epoch == "":
		return Verdict{Reason: StatusMissing}
	case now.Epoch != known.Epoch:
		return Verdict{Reason: StatusReplaced}
	case now.Sequence < known.Sequence:
		return Verdict{Reason: StatusBehind}
	}
	return Verdict{}
}
