package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// errPack says that a pack cannot be read.
var errPack = errors.New("malformed pack")

// errPackLimit says that a pack holds more than one push may bring.
var errPackLimit = errors.New("push too large")

// packLimits bound what reading one pack may cost. All are for inflated bytes,
// so that a small pack cannot grow without end.
type packLimits struct {
	Objects int
	Object  int64
	Total   int64
	// Kept bounds the commits, trees and deltas that stay in memory.
	Kept int64
}

var defaultPackLimits = packLimits{Objects: 200_000, Object: 32 << 20, Total: 512 << 20, Kept: 64 << 20}

// object is a commit or a tree.
type object struct {
	Type plumbing.ObjectType
	Data []byte
}

// maxDeltaDepth is the longest chain of deltas that git writes.
const maxDeltaDepth = 4095

// objectSource finds objects that the repository has already: the base of a
// thin pack's deltas. ok is false for an object that is neither commit nor
// tree, or is not there.
type objectSource interface {
	object(h plumbing.Hash) (o object, ok bool, err error)
}

// packReader takes the commits and trees out of a received pack. Blobs are
// measured and dropped: no rule looks into a file.
//
// The names of what it returns are computed here, from the content (with
// go-git's SHA-1, which detects collisions), so an object found under a name is
// the object that git will find under it.
type packReader struct {
	scanner *packfile.Scanner
	limits  packLimits

	objects map[plumbing.Hash]object
	// offsets says what starts where in the pack, for deltas that refer to it.
	offsets map[int64]plumbing.Hash
	// dropped are the offsets of blobs and tags, and of deltas on them.
	dropped map[int64]bool
	// byOffset and byName are deltas whose base has not been seen yet.
	byOffset map[int64][]delta
	byName   map[plumbing.Hash][]delta

	total, kept int64
	depth       int
}

// delta is an entry that describes an object by its difference from another.
type delta struct {
	offset int64
	data   []byte
}

// readPack reads one pack from r. Like git, it takes no notice of what may
// follow the pack's end.
func readPack(r io.Reader, limits packLimits, source objectSource) (map[plumbing.Hash]object, error) {
	p := &packReader{
		scanner:  packfile.NewScanner(r),
		limits:   limits,
		objects:  map[plumbing.Hash]object{},
		offsets:  map[int64]plumbing.Hash{},
		dropped:  map[int64]bool{},
		byOffset: map[int64][]delta{},
		byName:   map[plumbing.Hash][]delta{},
	}
	_, n, err := p.scanner.Header()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if int64(n) > int64(limits.Objects) {
		return nil, fmt.Errorf("%w: %d objects, at most %d in one push", errPackLimit, n, limits.Objects)
	}
	for range n {
		if err := p.readEntry(); err != nil {
			return nil, err
		}
	}
	if _, err := p.scanner.Checksum(); err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if err := p.resolveThin(source); err != nil {
		return nil, err
	}
	return p.objects, nil
}

func (p *packReader) readEntry() error {
	h, err := p.scanner.NextObjectHeader()
	if err != nil {
		return fmt.Errorf("%w: %w", errPack, err)
	}
	if h.Length < 0 || h.Length > p.limits.Object {
		return fmt.Errorf("%w: an object of %d bytes, at most %d", errPackLimit, h.Length, p.limits.Object)
	}
	if p.total += h.Length; p.total > p.limits.Total {
		return fmt.Errorf("%w: more than %d bytes unpacked", errPackLimit, p.limits.Total)
	}
	switch h.Type {
	case plumbing.CommitObject, plumbing.TreeObject:
		data, err := p.content(h)
		if err != nil {
			return err
		}
		return p.add(h.Offset, object{h.Type, data})
	case plumbing.BlobObject, plumbing.TagObject:
		return p.drop(h)
	case plumbing.OFSDeltaObject:
		if p.dropped[h.OffsetReference] {
			return p.drop(h)
		}
		return p.readDelta(h)
	case plumbing.REFDeltaObject:
		return p.readDelta(h)
	}
	return fmt.Errorf("%w: an object of type %d", errPack, h.Type)
}

func (p *packReader) readDelta(h *packfile.ObjectHeader) error {
	data, err := p.content(h)
	if err != nil {
		return err
	}
	d := delta{offset: h.Offset, data: data}
	base := h.Reference
	if h.Type == plumbing.OFSDeltaObject {
		var ok bool
		if base, ok = p.offsets[h.OffsetReference]; !ok {
			p.byOffset[h.OffsetReference] = append(p.byOffset[h.OffsetReference], d)
			return nil
		}
	}
	o, ok := p.objects[base]
	if !ok {
		p.byName[base] = append(p.byName[base], d)
		return nil
	}
	return p.apply([]delta{d}, o)
}

// content reads the current entry into memory. The header's length is already
// within limits, and the scanner stops at it.
func (p *packReader) content(h *packfile.ObjectHeader) ([]byte, error) {
	if err := p.keep(h.Length); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	n, _, err := p.scanner.NextObject(&b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPack, err)
	}
	if n != h.Length {
		return nil, fmt.Errorf("%w: an object of %d bytes that says %d", errPack, n, h.Length)
	}
	return b.Bytes(), nil
}

func (p *packReader) drop(h *packfile.ObjectHeader) error {
	p.dropped[h.Offset] = true
	n, _, err := p.scanner.NextObject(io.Discard)
	if err != nil {
		return fmt.Errorf("%w: %w", errPack, err)
	}
	if n != h.Length {
		return fmt.Errorf("%w: an object of %d bytes that says %d", errPack, n, h.Length)
	}
	return nil
}

func (p *packReader) keep(n int64) error {
	if p.kept += n; p.kept > p.limits.Kept {
		return fmt.Errorf("%w: more than %d bytes of commits and trees", errPackLimit, p.limits.Kept)
	}
	return nil
}

// add keeps an object, and makes those that waited for it as their base.
func (p *packReader) add(offset int64, o object) error {
	name := plumbing.ComputeHash(o.Type, o.Data)
	p.objects[name] = o
	p.offsets[offset] = name
	waiting := slices.Concat(p.byName[name], p.byOffset[offset])
	delete(p.byName, name)
	delete(p.byOffset, offset)
	return p.apply(waiting, o)
}

// apply makes the objects that deltas on base describe. The size of a result is
// checked before anything is built: a few bytes of delta can ask for gigabytes.
func (p *packReader) apply(deltas []delta, base object) error {
	if p.depth++; p.depth > maxDeltaDepth {
		return fmt.Errorf("%w: a chain of more than %d deltas", errPackLimit, maxDeltaDepth)
	}
	defer func() { p.depth-- }()
	for _, d := range deltas {
		size, err := deltaTarget(d.data)
		if err != nil {
			return err
		}
		if size > uint64(p.limits.Object) {
			return fmt.Errorf("%w: an object of %d bytes, at most %d", errPackLimit, size, p.limits.Object)
		}
		if err := p.keep(int64(size)); err != nil {
			return err
		}
		data, err := packfile.PatchDelta(base.Data, d.data)
		if err != nil {
			return fmt.Errorf("%w: %w", errPack, err)
		}
		if err := p.add(d.offset, object{base.Type, data}); err != nil {
			return err
		}
	}
	return nil
}

// deltaTarget is the size of the object that a delta makes: the second of the
// two numbers at its start.
func deltaTarget(d []byte) (uint64, error) {
	_, n := binary.Uvarint(d)
	if n <= 0 {
		return 0, fmt.Errorf("%w: delta without sizes", errPack)
	}
	size, n := binary.Uvarint(d[n:])
	if n <= 0 {
		return 0, fmt.Errorf("%w: delta without sizes", errPack)
	}
	return size, nil
}

// resolveThin applies the deltas whose base is in the repository. What is left
// then are deltas on files: no rule needs them, and git itself refuses a delta
// without a base.
func (p *packReader) resolveThin(source objectSource) error {
	names := slices.Collect(maps.Keys(p.byName))
	for _, name := range names {
		o, ok, err := source.object(name)
		if err != nil {
			return fmt.Errorf("base of a delta %s: %w", name, err)
		}
		if !ok {
			continue
		}
		waiting := p.byName[name]
		delete(p.byName, name)
		if err := p.apply(waiting, o); err != nil {
			return err
		}
	}
	return nil
}
