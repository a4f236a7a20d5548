package embedded

import (
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/limits"
	"gitbind.dev/gitbridge/store/pack"
)

// packLimits bound what one push may bring.
var packLimits = pack.Limits{
	Objects: 200_000, Object: 32 << 20, Total: 512 << 20, Kept: 128 << 20,
	Commit: limits.Commit, Commits: limits.Commits,
}

const (
	// pushMemory is how many bytes all pushes that are in work may take; one of them may
	// take its own limits beyond that.
	pushMemory = 192 << 20
	// gitMemory is about what git takes at most for a push within packLimits.
	gitMemory = 96 << 20
)

// object is one of the repository or of a push; files are without their content.
type object = pack.Object

// objectSource finds objects that the repository has already: the base of a
// thin pack's deltas. ok is false for an object that is neither commit nor
// tree, or is not there.
type objectSource interface {
	object(h plumbing.Hash) (o object, ok bool, err error)
}

// judged tells whether rules look into objects of a type.
func judged(t plumbing.ObjectType) bool {
	return t == plumbing.CommitObject || t == plumbing.TreeObject
}

// readPush reads a received pack: its commits and trees, and of files the size alone, as
// no rule looks into one. A delta without a base is one on a file, or git itself refuses
// it.
// Charge is told of the memory that it takes, with what git will take for the same.
func readPush(r io.Reader, source objectSource, charge func(int64) error) (*pack.Pack, error) {
	p, err := pack.Read(r, pack.Options{
		Limits: packLimits,
		Charge: charge,
		Keep:   func(t plumbing.ObjectType, _ int64) bool { return judged(t) },
		Base:   source.object,
	})
	if err != nil {
		return nil, err
	}
	if err := charge(min(p.Unpacked, gitMemory)); err != nil {
		return nil, err
	}
	return p, nil
}
