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
)

// packEntry is one object of a pack that a test writes by hand.
type packEntry struct {
	typ  byte
	ref  []byte // of a ref-delta
	data []byte
	// size overrides the length that the header tells.
	size int
}

func handmadePack(entries ...packEntry) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, [2]uint32{2, uint32(len(entries))})
	for _, e := range entries {
		size := e.size
		if size == 0 {
			size = len(e.data)
		}
		c := e.typ<<4 | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(size & 0x7f)
		}
		b.WriteByte(c)
		b.Write(e.ref)
		z := zlib.NewWriter(&b)
		_, _ = z.Write(e.data)
		_ = z.Close()
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

const (
	typeCommit, typeTree, typeBlob = 1, 2, 3
	typeRefDelta                   = 7
)

// bases is an objectSource of what a test says.
type bases map[plumbing.Hash]object

func (b bases) object(h plumbing.Hash) (object, bool, error) {
	o, ok := b[h]
	return o, ok, nil
}

// insert is a delta that makes text of any base of baseSize bytes.
func insert(baseSize int, text string) []byte {
	d := binary.AppendUvarint(nil, uint64(baseSize))
	d = binary.AppendUvarint(d, uint64(len(text)))
	return append(append(d, byte(len(text))), text...)
}

func TestReadPackFindsCommitsAndTreesHoweverTheyArePacked(t *testing.T) {
	t.Parallel()
	commit := object{plumbing.CommitObject, []byte("one commit")}
	name := plumbing.ComputeHash(commit.Type, commit.Data)
	second := "another commit"
	secondName := plumbing.ComputeHash(plumbing.CommitObject, []byte(second))
	for _, c := range []struct {
		name   string
		pack   []byte
		source bases
		want   []plumbing.Hash
	}{
		{"whole", handmadePack(packEntry{typ: typeCommit, data: commit.Data}, packEntry{typ: typeBlob, data: []byte("blob")}), nil, []plumbing.Hash{name}},
		{"a delta on an object before it", handmadePack(packEntry{typ: typeCommit, data: commit.Data}, packEntry{typ: typeRefDelta, ref: name[:], data: insert(10, second)}), nil, []plumbing.Hash{name, secondName}},
		{"a delta on an object behind it", handmadePack(packEntry{typ: typeRefDelta, ref: name[:], data: insert(10, second)}, packEntry{typ: typeCommit, data: commit.Data}), nil, []plumbing.Hash{name, secondName}},
		{"a delta on an object of the repository", handmadePack(packEntry{typ: typeRefDelta, ref: name[:], data: insert(10, second)}), bases{name: commit}, []plumbing.Hash{secondName}},
		{"a delta on a file", handmadePack(packEntry{typ: typeRefDelta, ref: bytes.Repeat([]byte{7}, 20), data: insert(10, second)}), nil, nil},
		{"nothing", handmadePack(), nil, nil},
	} {
		got, err := readPack(bytes.NewReader(c.pack), defaultPackLimits, c.source)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: %d objects, want %d", c.name, len(got), len(c.want))
		}
		for _, h := range c.want {
			if got[h].Type != plumbing.CommitObject {
				t.Errorf("%s: %s missing", c.name, h)
			}
		}
	}
}

func TestReadPackRefusesWhatWouldCostTooMuch(t *testing.T) {
	t.Parallel()
	limits := packLimits{Objects: 10, Object: 1000, Total: 2000, Kept: 1500}
	base := object{plumbing.CommitObject, []byte(strings.Repeat("x", 100))}
	name := plumbing.ComputeHash(base.Type, base.Data)
	// Copies all of the base over and over: 7 bytes of delta make 100.
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, 100), 100*50)
	for range 50 {
		bomb = append(bomb, 0x90, 100)
	}
	var many []packEntry
	for range 11 {
		many = append(many, packEntry{typ: typeBlob, data: []byte("x")})
	}
	for _, c := range []struct {
		name string
		pack []byte
		want error
	}{
		{"too many objects", handmadePack(many...), errPackLimit},
		{"a count that is a lie", append([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 20)...), errPackLimit},
		{"a large object", handmadePack(packEntry{typ: typeBlob, data: make([]byte, 1001)}), errPackLimit},
		{"an object larger than it says", handmadePack(packEntry{typ: typeBlob, data: make([]byte, 100_000), size: 10}), errPack},
		{"an object smaller than it says", handmadePack(packEntry{typ: typeBlob, data: make([]byte, 10), size: 100}), errPack},
		{"much in all", handmadePack(packEntry{typ: typeBlob, data: make([]byte, 900)}, packEntry{typ: typeBlob, data: make([]byte, 900)}, packEntry{typ: typeBlob, data: make([]byte, 900)}), errPackLimit},
		{"much to keep", handmadePack(packEntry{typ: typeTree, data: make([]byte, 900)}, packEntry{typ: typeTree, data: make([]byte, 901)}), errPackLimit},
		{"a delta that grows", handmadePack(packEntry{typ: typeRefDelta, ref: name[:], data: bomb}), errPackLimit},
		{"a wrong sum", append(handmadePack()[:12], make([]byte, 20)...), errPack},
		{"cut off", handmadePack(packEntry{typ: typeBlob, data: make([]byte, 900)})[:20], errPack},
		{"no pack", []byte("hello"), errPack},
		{"a type that there is not", handmadePack(packEntry{typ: 5, data: []byte("x")}), errPack},
	} {
		if _, err := readPack(bytes.NewReader(c.pack), limits, bases{name: base}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestReadPackRefusesAnEndlessChainOfDeltas(t *testing.T) {
	t.Parallel()
	// Each on the next, in the order that costs most.
	var entries []packEntry
	texts := []string{"0123456789"}
	for i := range maxDeltaDepth + 10 {
		texts = append(texts, fmt.Sprintf("text number %d", i))
	}
	for i := len(texts) - 1; i > 0; i-- {
		h := plumbing.ComputeHash(plumbing.CommitObject, []byte(texts[i-1]))
		entries = append(entries, packEntry{typ: typeRefDelta, ref: h[:], data: insert(len(texts[i-1]), texts[i])})
	}
	entries = append(entries, packEntry{typ: typeCommit, data: []byte(texts[0])})
	if _, err := readPack(bytes.NewReader(handmadePack(entries...)), defaultPackLimits, bases{}); !errors.Is(err, errPackLimit) {
		t.Errorf("error %v, want %v", err, errPackLimit)
	}
}

func FuzzReadPack(f *testing.F) {
	f.Add(handmadePack(packEntry{typ: typeCommit, data: []byte("c")}, packEntry{typ: typeBlob, data: []byte("b")}))
	f.Add(handmadePack(packEntry{typ: typeRefDelta, ref: make([]byte, 20), data: insert(10, "text")}))
	limits := packLimits{Objects: 100, Object: 10_000, Total: 100_000, Kept: 100_000}
	f.Fuzz(func(t *testing.T, in []byte) {
		objects, err := readPack(bytes.NewReader(in), limits, bases{})
		if err != nil && !errors.Is(err, errPack) && !errors.Is(err, errPackLimit) {
			t.Errorf("error %v is of no known kind", err)
		}
		for name, o := range objects {
			if plumbing.ComputeHash(o.Type, o.Data) != name {
				t.Errorf("%s is not its content's name", name)
			}
		}
	})
}
