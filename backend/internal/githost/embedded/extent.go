package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/limits"
)

// maxExtents is how many folders' extents are remembered, twice, over all repositories.
const maxExtents = 64 << 10

// extents remembers how much there is in folders, which never changes: a push is
// measured by the folders that it changes. Those that were not asked for in a long
// time are forgotten.
type extents struct {
	mu     sync.Mutex
	recent map[plumbing.Hash]limits.Tree
	before map[plumbing.Hash]limits.Tree
}

func (e *extents) get(folder plumbing.Hash) (limits.Tree, bool) {
	e.mu.Lock()
	x, ok := e.recent[folder]
	if !ok {
		x, ok = e.before[folder]
	}
	e.mu.Unlock()
	if ok {
		e.put(folder, x)
	}
	return x, ok
}

func (e *extents) put(folder plumbing.Hash, x limits.Tree) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.recent == nil || len(e.recent) >= maxExtents {
		e.before, e.recent = e.recent, map[plumbing.Hash]limits.Tree{}
	}
	e.recent[folder] = x
}

// extent refuses a head whose tree is more than anybody reads: a few small folders
// that hold each other many times are endless files.
func (c *check) extent(cmd command) error {
	head, err := c.commit(cmd.New)
	if err != nil {
		return err
	}
	_, err = c.measure(head.Tree, limits.Tree{})
	var words tooMuch
	if errors.As(err, &words) {
		return &ruling{cmd.Ref, fmt.Sprintf("the tree of commit %s has %s: keep in this repository what belongs to claims, and other files elsewhere", short(cmd.New.String()), words)}
	}
	return err
}

// tooMuch says what a tree has more than is allowed.
type tooMuch string

func (t tooMuch) Error() string { return string(t) }

// measure finds how much there is in a folder. Above is what the folders around it
// have, so that all that is in memory at once is bounded.
func (c *check) measure(folder plumbing.Hash, above limits.Tree) (x limits.Tree, err error) {
	if x, ok := c.repo.extents.get(folder); ok || folder == emptyTree {
		return x, nil
	}
	if err := c.ctx.Err(); err != nil {
		return x, err
	}
	data, err := c.folder(folder)
	if err != nil {
		return x, err
	}
	exceeded := func() error {
		sum := limits.Tree{Paths: above.Paths + x.Paths, Bytes: above.Bytes + x.Bytes, Depth: above.Depth + x.Depth}
		if words := sum.Exceeded(); words != "" {
			return tooMuch(words)
		}
		return nil
	}
	// Its names before what is below them.
	if err := entries(data, func(_, name []byte, _ plumbing.Hash) error {
		x.AddName(len(name))
		return exceeded()
	}); err != nil {
		return x, err
	}
	err = entries(data, func(mode, name []byte, hash plumbing.Hash) error {
		if string(bytes.TrimLeft(mode, "0")) != modeDir {
			return nil
		}
		below, err := c.measure(hash, limits.Tree{Paths: above.Paths + x.Paths, Bytes: above.Bytes + x.Bytes, Depth: above.Depth + 1})
		if err != nil {
			return err
		}
		x.AddBelow(len(name), below)
		return exceeded()
	})
	if err == nil {
		c.repo.extents.put(folder, x)
	}
	return x, err
}

// entries goes through a tree as it is stored.
func entries(data []byte, fn func(mode, name []byte, hash plumbing.Hash) error) error {
	for len(data) > 0 {
		nul := bytes.IndexByte(data, 0)
		if nul < 0 || len(data) < nul+1+len(plumbing.Hash{}) {
			return fmt.Errorf("%w: tree ends within an entry", errObject)
		}
		mode, name, ok := bytes.Cut(data[:nul], []byte(" "))
		if !ok {
			return fmt.Errorf("%w: tree entry %q", errObject, abbreviate(string(data[:nul])))
		}
		data = data[nul+1:]
		if err := fn(mode, name, plumbing.Hash(data[:len(plumbing.Hash{})])); err != nil {
			return err
		}
		data = data[len(plumbing.Hash{}):]
	}
	return nil
}

// folder is a tree as it is stored, in the push or in the repository.
func (c *check) folder(name plumbing.Hash) ([]byte, error) {
	o, ok := c.pack.Objects[name]
	if !ok {
		var err error
		if o, ok, err = c.reader.read(name); err != nil {
			return nil, err
		}
	}
	if !ok || o.Type != plumbing.TreeObject {
		return nil, fmt.Errorf("%w: no tree %s", errObject, name)
	}
	return o.Data, nil
}
