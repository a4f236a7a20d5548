package guard

import (
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
)

// Verdict is all that is said of a head of main, of a state of the branch status, or of
// one removal. The zero value lets it pass.
type Verdict struct {
	// Reason is why it is held; "" when it is not.
	Reason contract.Reason
	// Message is Reason in words for people. The agents fill it in.
	Message string
	// Commit is the head of main that was judged. An approval names it.
	Commit string
	// Unsigned is the commit for which a head is held as MainUnsigned.
	Unsigned string
	// Together is how many removals are held as one, this one among them.
	Together int
	// MovedTo is the file that the claim seems to be in now.
	MovedTo string
	// Approved says that a person has approved it. It is not counted against others.
	Approved bool
	// ByKonnector says that the konnector removed the file, because somebody deleted
	// the object: no file has moved.
	ByKonnector bool
	// Passing are the removals that go together with this one, and count from now on.
	// They belong into the checkpoint before any of them is carried out.
	Passing []breaker.Removal
	// Holding are the claims whose removals are held from now on together with this
	// one: too many once, they do not pass by themselves later.
	Holding []contract.Key
}

// IsHeld reports whether nothing may be done.
func (v Verdict) IsHeld() bool { return v.Reason != "" }
