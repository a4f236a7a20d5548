package gitstore

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"gitbind.dev/gitbridge/store/internal/object"
)

var (
	// errPack says that what the remote sent is no proper pack.
	errPack = errors.New("malformed pack")
	// errManyObjects says that a pack has more objects than wanted. It is known
	// before any of them is read.
	errManyObjects = fmt.Errorf("%w: too many objects", errTooMuch)
)

// packLimits protect against packs that only look small.
type packLimits struct {
	// objects is how many there may be.
	objects int
	// object is how large an object may be to be kept. Larger ones are hashed
	// and forgotten.
	object int64
	// large is how large all kept files may be that are large by themselves.
	// Others are hashed and forgotten, too.
	large int64
	// all is how large all kept objects may be.
	all int64
	// only, if not "", is the one kind that is kept.
	only object.Kind
}

// pack is what came in a pack.
type pack struct {
	objects map[object.ID]object.Received
	// lost says that some objects could not be read, as they are differences
	// from ones that were not kept.
	lost bool

	limits packLimits
	// kept and keptLarge are how many bytes are kept, at all and of large files.
	kept, keptLarge int64
	// byOffset are objects by their place, for deltas that refer to it.
	byOffset map[int64]object.ID
	waiting  waiting
	ready    []readyDelta
}

// delta is an object that came as the difference from another one.
type delta struct {
	offset int64
	data   []byte
}

// readyDelta is a delta of which the base is known.
type readyDelta struct {
	base object.ID
	delta
}

// waiting are the deltas whose base is not known yet.
type waiting struct {
	byID     map[object.ID][]delta
	byOffset map[int64][]delta
}

var kinds = map[plumbing.ObjectType]object.Kind{
	plumbing.CommitObject: object.Commit,
	plumbing.TreeObject:   object.Tree,
	plumbing.BlobObject:   object.Blob,
	plumbing.TagObject:    object.Tag,
}

// readPack reads a whole pack. It must need no objects from elsewhere.
func readPack(r io.Reader, limits packLimits) (*pack, error) {
	scanner := packfile.NewScanner(r)
	_, count, err := scanner.Header()
	if err != nil {
		return nil, packError(err)
	}
	if int64(count) > int64(limits.objects) {
		return nil, fmt.Errorf("%w: %d", errManyObjects, count)
	}
	p := &pack{
		objects:  map[object.ID]object.Received{},
		limits:   limits,
		byOffset: map[int64]object.ID{},
		waiting:  waiting{byID: map[object.ID][]delta{}, byOffset: map[int64][]delta{}},
	}
	for range count {
		if err := p.next(scanner); err != nil {
			return nil, packError(err)
		}
		if err := p.applyReady(); err != nil {
			return nil, packError(err)
		}
	}
	if _, err := scanner.Checksum(); err != nil {
		return nil, packError(err)
	}
	if len(p.waiting.byID)+len(p.waiting.byOffset) > 0 {
		if !p.lost && limits.only == "" {
			return nil, fmt.Errorf("%w: the base of a delta is not in it", errPack)
		}
		p.lost = true
	}
	return p, nil
}

// packError tells the remote's nonsense from what happened on the way.
func packError(err error) error {
	if errors.Is(err, errTooMuch) || errors.Is(err, errPack) {
		return err
	}
	return fmt.Errorf("read pack: %w", err)
}

func (p *pack) next(scanner *packfile.Scanner) error {
	h, err := scanner.NextObjectHeader()
	if err != nil {
		return err
	}
	if h.Length < 0 {
		return fmt.Errorf("%w: size %d", errPack, h.Length)
	}
	switch h.Type {
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		return p.nextDelta(scanner, h)
	}
	kind, ok := kinds[h.Type]
	if !ok {
		return fmt.Errorf("%w: object of type %d", errPack, h.Type)
	}
	if h.Length > p.limits.object || p.limits.only != "" && kind != p.limits.only || !p.hasRoom(kind, h.Length) {
		return p.skip(scanner, h, kind)
	}
	data, err := p.inflate(scanner, h.Length)
	if err != nil {
		return err
	}
	p.add(h.Offset, kind, data)
	return nil
}

// hasRoom says whether a file's content may be kept, and counts it.
func (p *pack) hasRoom(kind object.Kind, size int64) bool {
	if kind != object.Blob || size <= largeFile {
		return true
	}
	if p.keptLarge+size > p.limits.large {
		return false
	}
	p.keptLarge += size
	return true
}

// inflate reads an object's content.
func (p *pack) inflate(scanner *packfile.Scanner, size int64) ([]byte, error) {
	if p.kept += size; p.kept > p.limits.all {
		return nil, fmt.Errorf("%w: its content has more than %d bytes", errTooMuch, p.limits.all)
	}
	// It grows with what comes, not with what was promised.
	b := bytes.NewBuffer(make([]byte, 0, min(size, 64<<10)))
	n, _, err := scanner.NextObject(b)
	if err == nil && n != size {
		err = fmt.Errorf("%w: object of %d bytes instead of %d", errPack, n, size)
	}
	return b.Bytes(), err
}

// skip hashes an object and forgets it.
func (p *pack) skip(scanner *packfile.Scanner, h *packfile.ObjectHeader, kind object.Kind) error {
	sum := sha1.New()
	sum.Write(object.Header(kind, h.Length))
	n, _, err := scanner.NextObject(sum)
	if err == nil && n != h.Length {
		err = fmt.Errorf("%w: object of %d bytes instead of %d", errPack, n, h.Length)
	}
	if err != nil {
		return err
	}
	id := object.ID(sum.Sum(nil))
	if p.limits.only == "" {
		p.objects[id] = object.Received{Kind: kind, Size: h.Length}
	}
	p.arrived(h.Offset, id)
	return nil
}

func (p *pack) add(offset int64, kind object.Kind, data []byte) {
	id := object.Sum(kind, data)
	p.objects[id] = object.Received{Kind: kind, Size: int64(len(data)), Data: data}
	p.arrived(offset, id)
}

// arrived makes ready what was waiting for an object.
func (p *pack) arrived(offset int64, id object.ID) {
	p.byOffset[offset] = id
	for _, d := range append(p.waiting.byID[id], p.waiting.byOffset[offset]...) {
		p.ready = append(p.ready, readyDelta{id, d})
	}
	delete(p.waiting.byID, id)
	delete(p.waiting.byOffset, offset)
}

func (p *pack) nextDelta(scanner *packfile.Scanner, h *packfile.ObjectHeader) error {
	if h.Length > p.limits.object {
		p.lost = true
		_, _, err := scanner.NextObject(io.Discard)
		return err
	}
	data, err := p.inflate(scanner, h.Length)
	if err != nil {
		return err
	}
	d := delta{h.Offset, data}
	id := object.ID(h.Reference)
	if h.Type == plumbing.OFSDeltaObject {
		var known bool
		if id, known = p.byOffset[h.OffsetReference]; !known {
			p.waiting.byOffset[h.OffsetReference] = append(p.waiting.byOffset[h.OffsetReference], d)
			return nil
		}
	} else if _, known := p.objects[id]; !known {
		p.waiting.byID[id] = append(p.waiting.byID[id], d)
		return nil
	}
	p.ready = append(p.ready, readyDelta{id, d})
	return nil
}

// applyReady makes objects of deltas, which make others ready in turn.
func (p *pack) applyReady() error {
	for len(p.ready) > 0 {
		d := p.ready[len(p.ready)-1]
		p.ready = p.ready[:len(p.ready)-1]
		if err := p.apply(p.objects[d.base], d.delta); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) apply(base object.Received, d delta) error {
	if base.Data == nil {
		p.lost = true
		return nil
	}
	size, err := deltaSize(d.data)
	if err != nil {
		return err
	}
	if size > p.limits.object || !p.hasRoom(base.Kind, size) {
		p.lost = true
		return nil
	}
	if p.kept += size; p.kept > p.limits.all {
		return fmt.Errorf("%w: its content has more than %d bytes", errTooMuch, p.limits.all)
	}
	data, err := packfile.PatchDelta(base.Data, d.data)
	if err != nil {
		return fmt.Errorf("%w: %w", errPack, err)
	}
	if data == nil {
		data = []byte{}
	}
	p.add(d.offset, base.Kind, data)
	return nil
}

// deltaSize is the size of the object that a delta makes.
func deltaSize(data []byte) (int64, error) {
	_, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, fmt.Errorf("%w: delta without sizes", errPack)
	}
	size, m := binary.Uvarint(data[n:])
	if m <= 0 || size > 1<<62 {
		return 0, fmt.Errorf("%w: delta without sizes", errPack)
	}
	return int64(size), nil
}
