package guard

import "gitbind.dev/gitbridge/contract"

// Reasons why a head of main is not accepted.
const (
	// MainMissing: there is no branch main.
	MainMissing contract.Reason = "MainMissing"
	// MainRewritten: the head does not descend from the accepted commit.
	MainRewritten contract.Reason = "MainRewritten"
	// MainEmptied: there is no file left on main.
	MainEmptied contract.Reason = "MainEmptied"
	// MainUnsigned: a commit of main has no signature of somebody who counts.
	MainUnsigned contract.Reason = "MainUnsigned"
	// StatusLost: the branch status is not the one that was written, so that it is not
	// known what was done before.
	StatusLost contract.Reason = "StatusLost"
)

// Main is what is known of a head of main.
type Main struct {
	// Head is "" when there is no branch. Accepted is the last commit that was
	// accepted, "" for first contact, and Descends says that Head is that commit or a
	// descendant of it.
	Head, Accepted string
	Descends       bool
	// Empty says that there is no file at Head.
	Empty bool
	// Unsigned is a commit on the way to Head that has no signature of somebody who counts;
	// "" where all have, or none is asked for.
	Unsigned string
	// StatusLost says that the branch status is not the one that was written.
	StatusLost bool
	// Writer says that the agent that asks commits to main itself. It begins with a
	// repository that is empty, and may be the one who removed the last file.
	Writer bool
	// Approval is the head that a person takes as it is, "" for none.
	Approval string
}

// Judge decides whether the head is accepted.
func (m Main) Judge() Verdict {
	v := Verdict{Reason: m.reason(), Commit: m.Head, Unsigned: m.Unsigned}
	if v.IsHeld() && m.Approval != "" && m.Approval == m.Head {
		v.Reason, v.Approved = "", true
	}
	return v
}

func (m Main) reason() contract.Reason {
	first := m.Accepted == ""
	switch {
	case m.Head == "" && (!first || !m.Writer):
		return MainMissing
	case !first && !m.Descends:
		return MainRewritten
	case !first && m.Empty && !m.Writer:
		return MainEmptied
	case m.Unsigned != "":
		return MainUnsigned
	case m.StatusLost:
		return StatusLost
	}
	return ""
}
