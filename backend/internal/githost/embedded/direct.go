package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/pack"
)

// maxPlain bounds the commits and folders of a push that the host takes itself, and each
// folder that they are compared with, in bytes: taken apart, they have takenApart times of
// that. It bounds all that a push with deltas brings, too, and what they are on.
const (
	maxPlain   = 4 << 20
	takenApart = 8
)

// takeDirectly does a push as git would, with no process that writes, if it is of the kind
// that agents make, and people: one branch goes on from its head, by a pack of plain objects
// with all that belongs to them. Stored is how many bytes it takes. ok is false where it is of
// another kind, or where something went wrong: then nothing was done that git would mind, and
// git is to do it.
func (h *Host) takeDirectly(ctx context.Context, repo *repository, c *check, req *pushRequest, received []byte) (answer []byte, stored int64, ok bool) {
	p, ok := c.direct(req, received)
	if !ok {
		return nil, 0, false
	}
	// Without deltas it may be much larger than it came.
	stored = int64(len(p.data))
	if err := h.room(ctx, repo, c.caller.Role, &pushRequest{}, stored); err != nil {
		return nil, 0, false
	}
	cmd := req.Commands[0]
	moved, err := p.push(repo.dir, cmd)
	if moved {
		return stalePush(req, cmd.Ref), 0, true
	}
	if err != nil {
		if !errors.Is(err, errTaken) {
			h.cfg.Log.WarnContext(ctx, "Push handed over to git", "cluster", repo.id, "ref", cmd.Ref, "error", err)
		}
		return nil, 0, false
	}
	h.recent.put(repo, cmd, p, c)
	return okPush(req), stored, true
}

// served counts a request.
func (h *Host) served(service string, direct bool) {
	by := "git"
	if direct {
		by = "host"
	}
	if h.cfg.Served != nil {
		h.cfg.Served(service, by)
	}
}

// direct gives the pack of a push that needs no git.
func (c *check) direct(req *pushRequest, received []byte) (p packFile, ok bool) {
	if len(req.Commands) != 1 || req.Shallow || c.pack.Size != int64(len(received)) || c.read() > maxPlain {
		return p, false
	}
	cmd := req.Commands[0]
	if cmd.create() || cmd.remove() {
		return p, false
	}
	if c.divided() {
		if received, ok = c.undivide(received); !ok {
			return p, false
		}
	}
	if !c.plain() {
		return p, false
	}
	if ok, err := c.isConnected(cmd); !ok || err != nil {
		return p, false
	}
	p = packFile{received, c.pack.Entries}
	return p, !p.collides()
}

// takeApart reads a folder, and claims the memory for its entries.
func (c *check) takeApart(folder object) ([]treeEntry, error) {
	if err := c.charge(takenApart * int64(len(folder.Data))); err != nil {
		return nil, err
	}
	return parseTree(folder.Data)
}

// read is how many bytes of commits and folders a push brings.
func (c *check) read() (size int64) {
	for _, o := range c.pack.Objects {
		size += int64(len(o.Data))
	}
	return size
}

// divided tells whether a pack has deltas, or an object twice.
func (c *check) divided() bool {
	return c.pack.Deltas > 0 || len(c.pack.Entries) != len(c.pack.Objects)
}

// undivide makes a pack of which each object is whole of one with deltas, which is what
// people's git sends: deltas on what the repository has, too. Agents are sent the pack as it
// is stored, and may not have that. ok is false where that would take much memory, or where an
// object is there twice.
func (c *check) undivide(received []byte) (data []byte, ok bool) {
	if c.pack.Unpacked > maxPlain || c.pack.Bases > maxPlain {
		return nil, false
	}
	whole, err := pack.Read(bytes.NewReader(received), pack.Options{
		Limits: packLimits,
		Charge: c.charge,
		Base: func(name plumbing.Hash) (object, bool, error) {
			o, ok, err := c.reader.object(name)
			if ok && o.Type == plumbing.BlobObject {
				return c.reader.contents(name, o.Type, o.Size)
			}
			return o, ok, err
		},
	})
	if err != nil || whole.Lost || len(whole.Objects) != len(whole.Entries)+whole.Deltas {
		return nil, false
	}
	for name, o := range whole.Objects {
		// The rules have seen everything that they look into.
		if _, known := c.pack.Objects[name]; judged(o.Type) && !known {
			return nil, false
		}
	}
	var b bytes.Buffer
	if err := pack.Write(&b, slices.SortedFunc(maps.Values(whole.Objects), func(x, y object) int { return cmp.Compare(x.Type, y.Type) })); err != nil {
		return nil, false
	}
	written, err := pack.Read(bytes.NewReader(b.Bytes()), pack.Options{Limits: packLimits, Keep: func(plumbing.ObjectType, int64) bool { return false }})
	if err != nil {
		return nil, false
	}
	whole.Entries, whole.Deltas, whole.Size = written.Entries, 0, written.Size
	c.pack = whole
	return b.Bytes(), true
}

// largest is the size of the largest file that a push brings, in bytes.
func (c *check) largest() (size int64) {
	for _, o := range c.pack.Objects {
		if o.Type == plumbing.BlobObject {
			size = max(size, o.Size)
		}
	}
	return size
}
