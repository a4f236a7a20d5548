package embedded

import (
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/pack"
)

// object is one of the repository or of a push; files are without their content.
type object = pack.Object

// objectSource finds objects that the repository has already: the base of a
// thin pack's deltas. ok is false for an object that is not there.
type objectSource interface {
	object(h plumbing.Hash) (o object, ok bool, err error)
}

// judged tells whether rules look into objects of a type.
func judged(t plumbing.ObjectType) bool {
	return t == plumbing.CommitObject || t == plumbing.TreeObject
}

// readPush reads a received pack: its commits and trees, and of files the size alone, as
// no rule looks into one. A delta without a base is one on a file, or git itself refuses
// it. Of a pack that is refused, it tells how much was unpacked.
// Charge is told of the memory that it takes, with what git will take for the same.
func readPush(r io.Reader, source objectSource, charge func(int64) error) (*pack.Pack, error) {
	p, err := pack.Read(r, pack.Options{
		Limits: packLimits,
		Charge: charge,
		Keep:   func(t plumbing.ObjectType, _ int64) bool { return judged(t) },
		Base:   source.object,
	})
	if err == nil {
		err = charge(min(p.Unpacked+p.Bases, gitMemory))
	}
	return p, err
}
