package pack

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"io"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// Making a zlib writer costs more than using it.
var (
	fast = sync.Pool{New: func() any { w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed); return w }}
	// Short trees are hashes mostly, which cannot be compressed.
	stored = sync.Pool{New: func() any { w, _ := zlib.NewWriterLevel(nil, zlib.NoCompression); return w }}
)

// longTree is the size in bytes from which a tree is compressed: two fifths of it
// are modes and names, which are much alike. What is saved is sent and stored with
// each change in a large namespace, and git keeps an object as it came until it
// makes a delta of it.
const longTree = 1 << 10

// Write appends a pack of objects, which have their Data, without deltas: a repack computes
// better ones later than could be computed for one push.
func Write(b *bytes.Buffer, objects []Object) error {
	start := b.Len()
	b.WriteString("PACK")
	header := binary.BigEndian.AppendUint32(b.AvailableBuffer(), 2)
	b.Write(binary.BigEndian.AppendUint32(header, uint32(len(objects))))
	for _, o := range objects {
		if err := writeObject(b, o); err != nil {
			return err
		}
	}
	sum := sha1.Sum(b.Bytes()[start:])
	b.Write(sum[:])
	return nil
}

func writeObject(b *bytes.Buffer, o Object) error {
	size := uint64(len(o.Data))
	first := byte(o.Type)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(first | 0x80)
		first = byte(size & 0x7f)
	}
	b.WriteByte(first)

	pool := &fast
	if o.Type == plumbing.TreeObject && len(o.Data) < longTree {
		pool = &stored
	}
	w := pool.Get().(*zlib.Writer)
	defer pool.Put(w)
	w.Reset(b)
	if _, err := io.Copy(w, bytes.NewReader(o.Data)); err != nil {
		return err
	}
	return w.Close()
}
