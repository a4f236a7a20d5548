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

// object is a commit or a tree.
type object struct {
	Type plumbing.ObjectType
	Data []byte
}

// objectSource finds objects that the repository has already: the base of a
// thin pack's deltas. ok is false for an object that is neither commit nor
// tree, or is not there.
type objectSource interface {
	object(h plumbing.Hash) (o object, ok bool, err error)
}

// readPush takes the commits and trees out of a received pack. Of files it takes the
// size alone: no rule looks into one. A delta without a base is one on a file, or git
// itself refuses it.
// Charge is told of the memory that it takes, with what git will take for the same.
func readPush(r io.Reader, source objectSource, charge func(int64) error) (map[plumbing.Hash]object, error) {
	wanted := func(t plumbing.ObjectType) bool { return t == plumbing.CommitObject || t == plumbing.TreeObject }
	p, err := pack.Read(r, pack.Options{
		Limits: packLimits,
		Charge: charge,
		Keep:   func(t plumbing.ObjectType, _ int64) bool { return wanted(t) },
		Base: func(h plumbing.Hash) (pack.Object, bool, error) {
			o, ok, err := source.object(h)
			return pack.Object{Type: o.Type, Size: int64(len(o.Data)), Data: o.Data}, ok, err
		},
	})
	if err != nil {
		return nil, err
	}
	if err := charge(min(p.Unpacked, gitMemory)); err != nil {
		return nil, err
	}
	objects := map[plumbing.Hash]object{}
	for name, o := range p.Objects {
		if wanted(o.Type) {
			objects[name] = object{o.Type, o.Data}
		}
	}
	return objects, nil
}
