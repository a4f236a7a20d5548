// Package pack reads Git packs that strangers have made: of a remote that an agent
// fetches from, and of a push that the embedded host judges. It computes the names of
// all objects from their content, with a SHA-1 that detects collisions, so that what is
// found under a name is what git will find under it.
//
// It bounds what a pack may cost before it pays, deltas among it: a few bytes of them
// can ask for gigabytes. It does not look into objects, and checks no connectivity.
package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/pjbgf/sha1cd"
)

var (
	// ErrMalformed says that something is no proper pack.
	ErrMalformed = errors.New("malformed pack")
	// ErrLimit says that a pack has more than the limits allow.
	ErrLimit = errors.New("pack too large")
	// ErrManyObjects is the ErrLimit of the number of objects. It is known before any of
	// them is read.
	ErrManyObjects = fmt.Errorf("%w: too many objects", ErrLimit)
)

const (
	// maxDepth is the longest chain of deltas that git writes.
	maxDepth = 4095
	// maxDelta is how long a delta may be, in bytes, to be kept.
	maxDelta = 32 << 20
	// objectMemory is about how many bytes it takes to note an object, beside its
	// content.
	objectMemory = 256
	// charged is in which steps, in bytes, what is kept is charged.
	charged = 64 << 10
)

// Limits bound what reading a pack may cost. All sizes are in bytes of content, not of
// what is sent. 0 is no limit, but for Objects.
type Limits struct {
	// Objects is how many there may be.
	Objects int
	// Object is how large each of them may be.
	Object int64
	// Total is how large all of them together may be, those that are not kept and those
	// that are given as deltas among them.
	Total int64
	// Kept is how much may stay in memory: objects that are kept, deltas, and what is
	// noted of each object.
	Kept int64
	// Commit is how large each commit may be, and Commits all of them together.
	Commit, Commits int64
}

// Options say what to read.
type Options struct {
	Limits Limits
	// Keep says whether the content of an object of this type and size is wanted; nil
	// for all. It is asked once for each object, deltas among them.
	Keep func(plumbing.ObjectType, int64) bool
	// Base finds an object that is not in the pack, but that a delta in it refers to. ok
	// is false for one that is not there. One without its content is not wanted. Without
	// Base a pack must be complete.
	Base func(plumbing.Hash) (o Object, ok bool, err error)
	// Charge, if not nil, is told of each so many bytes of memory before they are
	// taken, and may wait. Its error ends the read.
	Charge func(bytes int64) error
}

// Object is what a pack says of an object.
type Object struct {
	Type plumbing.ObjectType
	Size int64
	// Data is its content, nil if that was not kept.
	Data []byte
}

// Pack is what came in a pack.
type Pack struct {
	// Objects are those of which the name is known.
	Objects map[plumbing.Hash]Object
	// Lost says that there are others: deltas on objects that were not kept.
	Lost bool
	// Unpacked is how many bytes all objects have together, kept or not, with the
	// deltas that some of them are given as.
	Unpacked int64
	// Bases is how many bytes the objects have that Base found, and Absent are those that
	// it did not find: they may be among the Lost.
	Bases  int64
	Absent []plumbing.Hash
	// Entries are the objects that came whole, in their order, and Deltas how many came
	// as differences.
	Entries []Entry
	Deltas  int
	// Size is how many bytes the pack has: what may follow it is none of it.
	Size int64
}

// Entry is where an object that came whole is in its pack, as an index has it.
type Entry struct {
	Name   plumbing.Hash
	Offset int64
	// CRC is that of the bytes from Offset to the next entry.
	CRC uint32
}

// delta is an object that came as the difference from another one.
type delta struct {
	offset int64
	data   []byte
	// size is that of the object.
	size int64
}

// readyDelta is a delta of which the base is known.
type readyDelta struct {
	delta
	base  Object
	depth int
}

// reader reads one pack.
type reader struct {
	Options
	Pack

	scanner *packfile.Scanner
	sum     sha1cd.CollisionResistantHash
	// names are the objects by their place, for deltas that refer to it, and nameless the
	// places of deltas on what was not kept: nobody can tell what these are.
	names    map[int64]plumbing.Hash
	nameless map[int64]bool
	// depths are how many deltas an object was made of, for those that were.
	depths map[plumbing.Hash]int
	// byName and byPlace are the deltas whose base was not seen yet, and ready those
	// whose base was.
	byName  map[plumbing.Hash][]delta
	byPlace map[int64][]delta
	ready   []readyDelta

	// crc is that of the entry that was read last.
	crc uint32

	kept, commits int64
	// owed is what is kept and not charged.
	owed int64
}

// Read reads one pack from r. Like git, it takes no notice of what may follow the
// pack's end. The error is ErrMalformed or ErrLimit for what the pack is to blame for,
// and otherwise one of r or of Base; the pack beside it tells only what was Unpacked, with
// which Bases.
func Read(r io.Reader, o Options) (*Pack, error) {
	source := &blame{r: r}
	p := &reader{
		Options: o, Pack: Pack{Objects: map[plumbing.Hash]Object{}},
		scanner: packfile.NewScanner(source), sum: sha1cd.New().(sha1cd.CollisionResistantHash),
		names: map[int64]plumbing.Hash{}, nameless: map[int64]bool{}, depths: map[plumbing.Hash]int{},
		byName: map[plumbing.Hash][]delta{}, byPlace: map[int64][]delta{},
	}
	if err := p.read(); err != nil {
		if source.err != nil {
			err = fmt.Errorf("read pack: %w", source.err)
		}
		return &Pack{Unpacked: p.Unpacked, Bases: p.Bases}, err
	}
	return &p.Pack, nil
}

// blame remembers what went wrong below a pack, so that it is not taken for a fault of
// the pack. One that ends early is at fault itself.
type blame struct {
	r   io.Reader
	err error
}

func (b *blame) Read(to []byte) (int, error) {
	n, err := b.r.Read(to)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

func (p *reader) read() error {
	_, count, err := p.scanner.Header()
	if err != nil {
		return malformed(err)
	}
	if int64(count) > int64(p.Limits.Objects) {
		return fmt.Errorf("%w: %d, at most %d", ErrManyObjects, count, p.Limits.Objects)
	}
	for range count {
		if err := p.next(); err != nil {
			return err
		}
		if err := p.applyReady(); err != nil {
			return err
		}
	}
	if _, err := p.scanner.Checksum(); err != nil {
		return malformed(err)
	}
	// This tells the place, whether or not the source can go to another one.
	p.Size, _ = p.scanner.SeekFromStart(0)
	return p.findBases()
}

func malformed(err error) error { return fmt.Errorf("%w: %w", ErrMalformed, err) }

// next reads one entry of the pack.
func (p *reader) next() error {
	h, err := p.scanner.NextObjectHeader()
	if err != nil {
		return malformed(err)
	}
	switch h.Type {
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		return p.nextDelta(h)
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	default:
		return fmt.Errorf("%w: object of type %d", ErrMalformed, h.Type)
	}
	if err := errors.Join(p.count(h.Length), p.countCommit(h.Type, h.Length)); err != nil {
		return err
	}
	if err := p.nextWhole(h); err != nil {
		return err
	}
	p.Entries = append(p.Entries, Entry{p.names[h.Offset], h.Offset, p.crc})
	return nil
}

// nextWhole reads an object that is no delta.
func (p *reader) nextWhole(h *packfile.ObjectHeader) error {
	if !p.wants(h.Type, h.Length) {
		return p.skip(h)
	}
	data, err := p.content(h)
	if err != nil {
		return err
	}
	return p.add(h.Offset, Object{Type: h.Type, Size: h.Length, Data: data}, 0)
}

func (p *reader) wants(t plumbing.ObjectType, size int64) bool {
	return p.Keep == nil || p.Keep(t, size)
}

// content reads the current entry into memory.
func (p *reader) content(h *packfile.ObjectHeader) ([]byte, error) {
	if err := p.keep(h.Length); err != nil {
		return nil, err
	}
	// It grows with what comes, not with what was promised.
	b := bytes.NewBuffer(make([]byte, 0, min(h.Length, 64<<10)))
	err := p.copyTo(b, h)
	return b.Bytes(), err
}

func (p *reader) copyTo(w io.Writer, h *packfile.ObjectHeader) error {
	n, crc, err := p.scanner.NextObject(w)
	p.crc = crc
	if err != nil {
		return malformed(err)
	}
	if n != h.Length {
		return fmt.Errorf("%w: object of %d bytes instead of %d", ErrMalformed, n, h.Length)
	}
	return nil
}

// skip finds the name of an object, and keeps nothing else of it.
func (p *reader) skip(h *packfile.ObjectHeader) error {
	p.beginName(h.Type, h.Length)
	if err := p.copyTo(p.sum, h); err != nil {
		return err
	}
	return p.arrived(h.Offset, Object{Type: h.Type, Size: h.Length}, 0)
}

// add takes an object with its content.
func (p *reader) add(offset int64, o Object, depth int) error {
	p.beginName(o.Type, o.Size)
	_, _ = p.sum.Write(o.Data)
	return p.arrived(offset, o, depth)
}

// arrived takes an object of which the content went into the sum, and makes ready what
// was waiting for it.
func (p *reader) arrived(offset int64, o Object, depth int) error {
	name, err := endName(p.sum)
	if err != nil {
		return err
	}
	if err := p.keep(objectMemory); err != nil {
		return err
	}
	if was, ok := p.Objects[name]; !ok || was.Data == nil {
		p.Objects[name] = o
	}
	p.names[offset] = name
	if depth > 0 {
		p.depths[name] = depth
	}
	for _, d := range append(p.byName[name], p.byPlace[offset]...) {
		p.ready = append(p.ready, readyDelta{d, o, depth})
	}
	delete(p.byName, name)
	delete(p.byPlace, offset)
	return nil
}

func (p *reader) nextDelta(h *packfile.ObjectHeader) error {
	p.Deltas++
	if err := p.count(h.Length); err != nil {
		return err
	}
	base, known := h.Reference, true
	if h.Type == plumbing.OFSDeltaObject {
		if p.nameless[h.OffsetReference] {
			return p.skipDelta(h)
		}
		base, known = p.names[h.OffsetReference]
	}
	o, seen := p.Objects[base]
	if seen && o.Data == nil || h.Length > maxDelta {
		return p.skipDelta(h)
	}
	data, err := p.content(h)
	if err != nil {
		return err
	}
	size, err := resultSize(data)
	if err != nil {
		return err
	}
	if err := p.count(size); err != nil {
		return err
	}
	if err := p.keep(objectMemory); err != nil {
		return err
	}
	d := delta{h.Offset, data, size}
	switch {
	case !known:
		p.byPlace[h.OffsetReference] = append(p.byPlace[h.OffsetReference], d)
	case !seen:
		p.byName[base] = append(p.byName[base], d)
	default:
		p.ready = append(p.ready, readyDelta{d, o, p.depths[base]})
	}
	return nil
}

// skipDelta counts what a delta makes of an object that was not kept: a reader that
// has it will make it.
func (p *reader) skipDelta(h *packfile.ObjectHeader) error {
	var begin beginning
	if err := p.copyTo(&begin, h); err != nil {
		return err
	}
	size, err := resultSize(begin)
	if err != nil {
		return err
	}
	p.nameless[h.Offset], p.Lost = true, true
	return errors.Join(p.count(size), p.keep(objectMemory))
}

// beginning keeps as much of what is written as the sizes of a delta can take.
type beginning []byte

func (b *beginning) Write(data []byte) (int, error) {
	room := 2*binary.MaxVarintLen64 - len(*b)
	*b = append(*b, data[:min(room, len(data))]...)
	return len(data), nil
}

// applyReady makes objects of deltas, which make others ready in turn.
func (p *reader) applyReady() error {
	for len(p.ready) > 0 {
		d := p.ready[len(p.ready)-1]
		p.ready = p.ready[:len(p.ready)-1]
		if err := p.apply(d); err != nil {
			return err
		}
	}
	return nil
}

func (p *reader) apply(d readyDelta) error {
	if d.depth++; d.depth > maxDepth {
		return fmt.Errorf("%w: a chain of more than %d deltas", ErrLimit, maxDepth)
	}
	if err := p.countCommit(d.base.Type, d.size); err != nil {
		return err
	}
	if d.base.Data == nil || !p.wants(d.base.Type, d.size) {
		p.lose(d.offset)
		return nil
	}
	if err := p.keep(d.size); err != nil {
		return err
	}
	data, err := packfile.PatchDelta(d.base.Data, d.data)
	if err != nil {
		return malformed(err)
	}
	if data == nil {
		data = []byte{}
	}
	return p.add(d.offset, Object{Type: d.base.Type, Size: d.size, Data: data}, d.depth)
}

// lose gives up an object, and those that are differences from it.
func (p *reader) lose(offset int64) {
	p.Lost = true
	for lost := []int64{offset}; len(lost) > 0; {
		at := lost[len(lost)-1]
		lost = lost[:len(lost)-1]
		p.nameless[at] = true
		for _, d := range p.byPlace[at] {
			lost = append(lost, d.offset)
		}
		delete(p.byPlace, at)
	}
}

// resultSize is the size of the object that a delta makes: the second of the two
// numbers at its beginning.
func resultSize(data []byte) (int64, error) {
	_, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, fmt.Errorf("%w: delta without sizes", ErrMalformed)
	}
	size, n := binary.Uvarint(data[n:])
	if n <= 0 || size > 1<<62 {
		return 0, fmt.Errorf("%w: delta without sizes", ErrMalformed)
	}
	return int64(size), nil
}

// findBases looks elsewhere for the objects that deltas still wait for.
func (p *reader) findBases() error {
	if p.Base != nil {
		for name, waiting := range p.byName {
			o, ok, err := p.Base(name)
			if err != nil {
				return fmt.Errorf("base of a delta %s: %w", name, err)
			}
			if !ok {
				p.Absent = append(p.Absent, name)
				continue
			}
			if err := p.countBase(o.Size); err != nil {
				return err
			}
			delete(p.byName, name)
			for _, d := range waiting {
				p.ready = append(p.ready, readyDelta{d, o, 0})
			}
			if err := p.applyReady(); err != nil {
				return err
			}
		}
	}
	if len(p.byName)+len(p.byPlace) == 0 {
		return nil
	}
	if p.Base == nil && !p.Lost {
		return fmt.Errorf("%w: the base of a delta is not in it", ErrMalformed)
	}
	p.Lost = true
	return nil
}

// beginName begins the name of an object: its content is written to the sum then.
func (p *reader) beginName(t plumbing.ObjectType, size int64) {
	p.sum.Reset()
	b := append(make([]byte, 0, 32), t.Bytes()...)
	b = strconv.AppendInt(append(b, ' '), size, 10)
	_, _ = p.sum.Write(append(b, 0))
}

// endName fails for content that was made to have the same name as another.
func endName(sum sha1cd.CollisionResistantHash) (name plumbing.Hash, err error) {
	h, collides := sum.CollisionResistantSum(name[:0])
	if collides {
		return name, fmt.Errorf("%w: the content of an object was made to collide with another's SHA-1", ErrMalformed)
	}
	return plumbing.Hash(h), nil
}
