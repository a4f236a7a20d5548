package embedded

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/pack"
)

// packEntry is one object of a pack that a test writes by hand.
type packEntry struct {
	typ  byte
	ref  []byte // of a ref-delta
	data []byte
}

func handmadePack(entries ...packEntry) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, [2]uint32{2, uint32(len(entries))})
	z := zlib.NewWriter(nil)
	for _, e := range entries {
		size := len(e.data)
		c := e.typ<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(size & 0x7f)
		}
		b.WriteByte(c)
		b.Write(e.ref)
		z.Reset(&b)
		_, _ = z.Write(e.data)
		_ = z.Close()
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

const (
	typeCommit, typeTree, typeBlob, typeTag = 1, 2, 3, 4
	typeRefDelta                            = 7
)

// bases is an objectSource of what a test says.
type bases map[plumbing.Hash]object

func (b bases) object(h plumbing.Hash) (object, bool, error) {
	o, ok := b[h]
	return o, ok, nil
}

// free is memory without end.
func free(int64) error { return nil }

// insert is a delta that makes text of any base of baseSize bytes.
func insert(baseSize int, text string) []byte {
	d := binary.AppendUvarint(nil, uint64(baseSize))
	d = binary.AppendUvarint(d, uint64(len(text)))
	return append(append(d, byte(len(text))), text...)
}

func TestOfAPushCommitsAndTreesAreRead(t *testing.T) {
	t.Parallel()
	known := object{Type: plumbing.CommitObject, Data: []byte("one commit")}
	commit, file := plumbing.ComputeHash(plumbing.CommitObject, known.Data), plumbing.ComputeHash(plumbing.BlobObject, []byte("file"))
	got, err := readPush(bytes.NewReader(handmadePack(
		packEntry{typ: typeBlob, data: []byte("file")},
		packEntry{typ: typeTag, data: []byte("tag")},
		packEntry{typ: typeTree},
		packEntry{typ: typeRefDelta, ref: file[:], data: insert(4, "another file")},
		packEntry{typ: typeRefDelta, ref: bytes.Repeat([]byte{7}, 20), data: insert(10, "a file whose base git has")},
		packEntry{typ: typeRefDelta, ref: commit[:], data: insert(10, "another commit")},
	)), bases{commit: known}, free)
	if err != nil {
		t.Fatal(err)
	}
	want := map[plumbing.Hash]plumbing.ObjectType{
		emptyTree: plumbing.TreeObject,
		plumbing.ComputeHash(plumbing.CommitObject, []byte("another commit")): plumbing.CommitObject,
	}
	for h, o := range got.Objects {
		if read := want[h] != plumbing.InvalidObject; read != (o.Type == plumbing.CommitObject || o.Type == plumbing.TreeObject) {
			t.Errorf("%s is %v", h, o)
		}
		if o.Type == plumbing.BlobObject && o.Data != nil {
			t.Errorf("file %s is read", h)
		}
	}
	for h, typ := range want {
		if got.Objects[h].Type != typ {
			t.Errorf("%s %s is %v", typ, h, got.Objects[h])
		}
	}
}

// TestH3_DeltasOnAFileAreCountedBeforeGitMakesThem: of a push of a few kilobytes, git
// would make gigabytes.
func TestH3_DeltasOnAFileAreCountedBeforeGitMakesThem(t *testing.T) {
	t.Parallel()
	base := []byte(strings.Repeat("x", 1<<16))
	file := plumbing.ComputeHash(plumbing.BlobObject, base)
	const times = 1 << 8 // 16 MiB
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, 1<<16), times<<16)
	bomb = append(bomb, bytes.Repeat([]byte{0x80}, times)...) // copy 64 KiB from the beginning
	push := []packEntry{{typ: typeBlob, data: base}}
	for range 33 {
		push = append(push, packEntry{typ: typeRefDelta, ref: file[:], data: bomb})
	}
	data := handmadePack(push...)
	if len(data) > 10_000 {
		t.Errorf("the push has %d bytes", len(data))
	}
	p, err := readPush(bytes.NewReader(data), bases{}, free)
	if !errors.Is(err, pack.ErrLimit) || !strings.Contains(fmt.Sprint(err), "unpacked") {
		t.Errorf("error %v", err)
	}
	// What was counted until then is its owner's work.
	if least := packLimits.Total - times<<16; p.Unpacked < least || p.Unpacked > packLimits.Total {
		t.Errorf("%d bytes are counted as unpacked, want %d to %d", p.Unpacked, least, packLimits.Total)
	}
}
