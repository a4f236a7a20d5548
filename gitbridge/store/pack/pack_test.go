package pack_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/gitbridge/store/internal/gittest"
	"gitbind.dev/gitbridge/store/pack"
	"gitbind.dev/test/env"
)

var generous = pack.Options{Limits: pack.Limits{Objects: 1 << 20, Object: 1 << 25, Total: 1 << 30, Kept: 1 << 30}}

func read(data []byte, o pack.Options) (*pack.Pack, error) {
	return pack.Read(bytes.NewReader(data), o)
}

// entry is one object of a pack that a test writes by hand.
type entry struct {
	typ  byte
	ref  []byte // of a delta
	data []byte
	// size overrides the length that the header tells.
	size int
}

const (
	typeCommit, typeTree, typeBlob = 1, 2, 3
	typeOffsetDelta, typeRefDelta  = 6, 7
)

func handmade(entries ...entry) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, [2]uint32{2, uint32(len(entries))})
	for _, e := range entries {
		b.Write(encode(e))
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

// Making a zlib writer costs more than using it.
var writers = sync.Pool{New: func() any { w, _ := zlib.NewWriterLevel(nil, zlib.NoCompression); return w }}

func encode(e entry) []byte {
	var b bytes.Buffer
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
	z := writers.Get().(*zlib.Writer)
	defer writers.Put(z)
	z.Reset(&b)
	_, _ = z.Write(e.data)
	_ = z.Close()
	return b.Bytes()
}

// insert is a delta that makes text of any base of baseSize bytes.
func insert(baseSize int, text string) []byte {
	d := binary.AppendUvarint(nil, uint64(baseSize))
	d = binary.AppendUvarint(d, uint64(len(text)))
	return append(append(d, byte(len(text))), text...)
}

// bomb is a delta that copies all of a base of 100 bytes over and over: seven bytes of
// it make a hundred.
func bomb(times int) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, 100), uint64(100*times))
	return append(d, bytes.Repeat([]byte{0x90, 100}, times)...)
}

func name(t plumbing.ObjectType, data string) plumbing.Hash {
	return plumbing.ComputeHash(t, []byte(data))
}

func TestObjectsAreFoundHoweverTheyArePacked(t *testing.T) {
	t.Parallel()
	first, second, third := "one commit", "another commit", "a third commit"
	nameOf := func(text string) []byte { h := name(plumbing.CommitObject, text); return h[:] }
	whole := entry{typ: typeCommit, data: []byte(first)}
	onFirst := entry{typ: typeRefDelta, ref: nameOf(first), data: insert(len(first), second)}
	onSecond := entry{typ: typeRefDelta, ref: nameOf(second), data: insert(len(second), third)}
	back := func(n int) []byte { return []byte{byte(n)} }
	repository := func(h plumbing.Hash) (pack.Object, bool, error) {
		return pack.Object{Type: plumbing.CommitObject, Size: int64(len(first)), Data: []byte(first)}, h == name(plumbing.CommitObject, first), nil
	}
	for _, c := range []struct {
		name string
		pack []byte
		base func(plumbing.Hash) (pack.Object, bool, error)
		want []string
		lost bool
	}{
		{name: "nothing", pack: handmade()},
		{name: "whole", pack: handmade(whole), want: []string{first}},
		{name: "a delta behind its base", pack: handmade(whole, onFirst), want: []string{first, second}},
		{name: "a delta before its base", pack: handmade(onFirst, whole), want: []string{first, second}},
		{name: "a chain in the wrong order", pack: handmade(onSecond, onFirst, whole), want: []string{first, second, third}},
		{name: "a delta by place", pack: handmade(whole, entry{typ: typeOffsetDelta, ref: back(len(encode(whole))), data: insert(len(first), second)}), want: []string{first, second}},
		{name: "a delta by place on a delta that waits", want: []string{first, second, third}, pack: handmade(
			onFirst, entry{typ: typeOffsetDelta, ref: back(len(encode(onFirst))), data: insert(len(second), third)}, whole)},
		{name: "the same object twice", pack: handmade(whole, whole, onFirst), want: []string{first, second}},
		{name: "a delta on what is elsewhere", pack: handmade(onSecond, onFirst), base: repository, want: []string{second, third}},
		{name: "a delta on what is nowhere", pack: handmade(onSecond), base: repository, lost: true},
	} {
		o := generous
		o.Base = c.base
		p, err := read(append(bytes.Clone(c.pack), "what follows"...), o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Size != int64(len(c.pack)) {
			t.Errorf("%s: %d bytes, want %d", c.name, p.Size, len(c.pack))
		}
		if len(p.Objects) != len(c.want) || p.Lost != c.lost {
			t.Errorf("%s: %d objects, want %d; lost: %v", c.name, len(p.Objects), len(c.want), p.Lost)
		}
		for _, text := range c.want {
			if got := p.Objects[name(plumbing.CommitObject, text)]; got.Type != plumbing.CommitObject || string(got.Data) != text || got.Size != int64(len(text)) {
				t.Errorf("%s: %q is read as %+v", c.name, text, got)
			}
		}
	}
}

// What nobody wants is named and measured, and so is what is a difference from it.
func TestWhatIsNotWantedIsNotKept(t *testing.T) {
	t.Parallel()
	file, other, third := strings.Repeat("f", 40), strings.Repeat("g", 40), strings.Repeat("h", 40)
	blob := entry{typ: typeBlob, data: []byte(file)}
	onBlob := entry{typ: typeOffsetDelta, ref: []byte{byte(len(encode(blob)))}, data: insert(40, other)}
	h, h2 := name(plumbing.BlobObject, file), name(plumbing.BlobObject, other)
	o := generous
	o.Keep = func(t plumbing.ObjectType, _ int64) bool { return t != plumbing.BlobObject }
	for what, data := range map[string][]byte{
		"alone":                      handmade(blob),
		"a delta by place":           handmade(blob, onBlob),
		"deltas by place on another": handmade(blob, onBlob, entry{typ: typeOffsetDelta, ref: []byte{byte(len(encode(onBlob)))}, data: insert(40, third)}),
		"a delta by name":            handmade(blob, entry{typ: typeRefDelta, ref: h[:], data: insert(40, other)}),
		"a delta before its base":    handmade(entry{typ: typeRefDelta, ref: h[:], data: insert(40, other)}, blob),
		"a chain before its base":    handmade(entry{typ: typeRefDelta, ref: h2[:], data: insert(40, third)}, entry{typ: typeRefDelta, ref: h[:], data: insert(40, other)}, blob),
	} {
		p, err := read(data, o)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if got := p.Objects[h]; got.Type != plumbing.BlobObject || got.Size != 40 || got.Data != nil || len(p.Objects) != 1 {
			t.Errorf("%s: %d objects, the file is %+v", what, len(p.Objects), got)
		}
		if p.Lost != (what != "alone") {
			t.Errorf("%s: lost: %v", what, p.Lost)
		}
	}
}

func TestKeepIsAskedOnceForEachObject(t *testing.T) {
	t.Parallel()
	file := strings.Repeat("f", 40)
	h := name(plumbing.BlobObject, file)
	asked := 0
	o := generous
	o.Keep = func(plumbing.ObjectType, int64) bool { asked++; return true }
	data := handmade(entry{typ: typeRefDelta, ref: h[:], data: insert(40, "other")}, entry{typ: typeBlob, data: []byte(file)}, entry{typ: typeTree})
	if _, err := read(data, o); err != nil || asked != 3 {
		t.Errorf("asked %d times for 3 objects: %v", asked, err)
	}
}

func TestWhatWouldCostTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	base := strings.Repeat("x", 100)
	commit, file := name(plumbing.CommitObject, base), name(plumbing.BlobObject, base)
	blob := entry{typ: typeBlob, data: []byte(base)}
	onBlob := entry{typ: typeOffsetDelta, ref: []byte{byte(len(encode(blob)))}, data: bomb(9)}
	options := pack.Options{
		Limits: pack.Limits{Objects: 10, Object: 1000, Total: 2000, Kept: 1500},
		Keep:   func(t plumbing.ObjectType, _ int64) bool { return t != plumbing.BlobObject },
		Base: func(h plumbing.Hash) (pack.Object, bool, error) {
			return pack.Object{Type: plumbing.CommitObject, Size: 100, Data: []byte(base)}, h == commit, nil
		},
	}
	for what, c := range map[string]struct {
		pack []byte
		want error
	}{
		"too many objects":                  {handmade(slices.Repeat([]entry{{typ: typeBlob, data: []byte("x")}}, 11)...), pack.ErrManyObjects},
		"a count that is a lie":             {append([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 20)...), pack.ErrLimit},
		"a large object":                    {handmade(entry{typ: typeBlob, data: make([]byte, 1001)}), pack.ErrLimit},
		"an object larger than it says":     {handmade(entry{typ: typeBlob, data: make([]byte, 100_000), size: 10}), pack.ErrMalformed},
		"an object smaller than it says":    {handmade(entry{typ: typeBlob, data: make([]byte, 10), size: 100}), pack.ErrMalformed},
		"much in all":                       {handmade(slices.Repeat([]entry{{typ: typeBlob, data: make([]byte, 900)}}, 3)...), pack.ErrLimit},
		"much to keep":                      {handmade(slices.Repeat([]entry{{typ: typeTree, data: make([]byte, 900)}}, 2)...), pack.ErrLimit},
		"a delta that grows":                {handmade(entry{typ: typeRefDelta, ref: commit[:], data: bomb(11)}), pack.ErrLimit},
		"deltas that grow together":         {handmade(slices.Repeat([]entry{{typ: typeRefDelta, ref: commit[:], data: bomb(9)}}, 3)...), pack.ErrLimit},
		"deltas on a file, by place":        {handmade(blob, onBlob, onBlob, onBlob), pack.ErrLimit},
		"deltas on a file, by name":         {handmade(append([]entry{blob}, slices.Repeat([]entry{{typ: typeRefDelta, ref: file[:], data: bomb(9)}}, 3)...)...), pack.ErrLimit},
		"deltas on a file that comes later": {handmade(append(slices.Repeat([]entry{{typ: typeRefDelta, ref: file[:], data: bomb(9)}}, 3), blob)...), pack.ErrLimit},
		"a delta without sizes":             {handmade(blob, entry{typ: typeRefDelta, ref: file[:], data: []byte{0x80}}), pack.ErrMalformed},
		"a delta of another base":           {handmade(entry{typ: typeRefDelta, ref: commit[:], data: insert(99, "x")}), pack.ErrMalformed},
		"a wrong sum":                       {append(handmade()[:12], make([]byte, 20)...), pack.ErrMalformed},
		"cut off":                           {handmade(entry{typ: typeBlob, data: make([]byte, 900)})[:20], pack.ErrMalformed},
		"no pack":                           {[]byte("hello"), pack.ErrMalformed},
		"nothing at all":                    {nil, pack.ErrMalformed},
		"a type that there is not":          {handmade(entry{typ: 5, data: []byte("x")}), pack.ErrMalformed},
	} {
		if p, err := read(c.pack, options); !errors.Is(err, c.want) || p.Objects != nil || p.Unpacked > options.Limits.Total {
			t.Errorf("%s: error %v with %+v, want %v", what, err, p, c.want)
		}
	}
	without := options
	without.Base, without.Keep = nil, nil
	if _, err := read(handmade(entry{typ: typeRefDelta, ref: commit[:], data: insert(100, "x")}), without); !errors.Is(err, pack.ErrMalformed) {
		t.Errorf("a delta without its base: %v", err)
	}
}

// What commits take is bounded for each and for all, however they are given, and
// whether or not they are wanted.
func TestH2_CommitsAreBoundedEachAndTogether(t *testing.T) {
	t.Parallel()
	text := func(size int) string { return strings.Repeat("m", size) }
	base, small := text(100), name(plumbing.CommitObject, text(100))
	whole := func(size int) entry { return entry{typ: typeCommit, data: []byte(text(size))} }
	options := pack.Options{
		Limits: pack.Limits{Objects: 10, Commit: 1000, Commits: 2000},
		Base: func(h plumbing.Hash) (pack.Object, bool, error) {
			return pack.Object{Type: plumbing.CommitObject, Size: 100, Data: []byte(base)}, h == small, nil
		},
	}
	onSmall := entry{typ: typeRefDelta, ref: small[:], data: bomb(11)}
	for what, c := range map[string]struct {
		pack []byte
		want string
	}{
		"one that is long":                  {handmade(whole(1001)), "a commit of 1001 bytes"},
		"one that a delta makes":            {handmade(whole(100), onSmall), "a commit of 1100 bytes"},
		"a delta before its base":           {handmade(onSmall, whole(100)), "a commit of 1100 bytes"},
		"a delta on one that is elsewhere":  {handmade(onSmall), "a commit of 1100 bytes"},
		"many":                              {handmade(whole(800), whole(700), whole(600)), "more than 2000 bytes of commits"},
		"many, some of which deltas make":   {handmade(whole(100), entry{typ: typeRefDelta, ref: small[:], data: bomb(9)}, entry{typ: typeRefDelta, ref: small[:], data: bomb(8)}, whole(400)), "more than 2000 bytes of commits"},
		"files of any size, and one commit": {handmade(whole(1000), entry{typ: typeBlob, data: make([]byte, 5000)}), ""},
	} {
		for _, keep := range []func(plumbing.ObjectType, int64) bool{nil, func(plumbing.ObjectType, int64) bool { return false }} {
			o := options
			o.Keep = keep
			_, err := read(c.pack, o)
			if keep != nil && strings.Contains(what, "delta") {
				// Of what a delta makes of an object that is not kept, nobody knows the type:
				// it is counted among all objects, and takes no memory.
				continue
			}
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, pack.ErrLimit) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", what, err, c.want)
			}
		}
	}
}

// Objects without content are memory, too, and memory is asked for before it is taken.
func TestH2_MemoryIsChargedForWhatIsKept_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	var entries []entry
	for i := range 2000 {
		entries = append(entries, entry{typ: typeBlob, data: fmt.Append(nil, i)})
	}
	large := entry{typ: typeTree, data: make([]byte, 1<<20)}
	all := handmade(append(entries, large)...)
	o := generous
	var charged int64
	o.Charge = func(n int64) error { charged += n; return nil }
	if _, err := read(all, o); err != nil || charged < 1<<20+2000*100 {
		t.Errorf("charged %d, %v", charged, err)
	}
	o.Keep = func(t plumbing.ObjectType, _ int64) bool { return t != plumbing.TreeObject }
	charged = 0
	if _, err := read(all, o); err != nil || charged > 1<<20 || charged < 2000*100 {
		t.Errorf("without the large one: charged %d, %v", charged, err)
	}
	failure := errors.New("no memory")
	o = generous
	o.Charge = func(int64) error { return failure }
	if _, err := read(all, o); !errors.Is(err, failure) || errors.Is(err, pack.ErrLimit) {
		t.Errorf("memory that is not there: %v", err)
	}
	o = generous
	o.Limits.Kept = 100_000
	if _, err := read(handmade(entries...), o); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("very many small objects: %v", err)
	}
}

// A chain of deltas in the wrong order must neither need a stack as deep as it is long
// nor be longer than git makes one.
func TestALongChainOfDeltasInTheWrongOrder_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	chain := func(length int) []byte {
		var entries []entry
		text := func(i int) string { return fmt.Sprintf("text number %7d", i) }
		for i := length; i > 0; i-- {
			h := name(plumbing.CommitObject, text(i-1))
			entries = append(entries, entry{typ: typeRefDelta, ref: h[:], data: insert(len(text(i-1)), text(i))})
		}
		return handmade(append(entries, entry{typ: typeCommit, data: []byte(text(0))})...)
	}
	const longest = 4095
	if p, err := read(chain(longest), generous); err != nil || len(p.Objects) != longest+1 {
		t.Errorf("as long as git makes one: %v", err)
	}
	if _, err := read(chain(longest+1), generous); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("longer: %v", err)
	}
}

// What fails below a pack is not the fault of the pack.
func TestAFailureBelowIsNotBlamedOnThePack(t *testing.T) {
	t.Parallel()
	data, failure := handmade(entry{typ: typeBlob, data: []byte("x")}), errors.New("connection reset")
	for _, failure := range []error{failure, io.ErrUnexpectedEOF} {
		for n := range len(data) {
			_, err := pack.Read(io.MultiReader(bytes.NewReader(data[:n]), failing{failure}), generous)
			if !errors.Is(err, failure) || errors.Is(err, pack.ErrMalformed) {
				t.Errorf("%v after %d bytes: %v", failure, n, err)
			}
		}
	}
	o := generous
	o.Base = func(plumbing.Hash) (pack.Object, bool, error) { return pack.Object{}, false, failure }
	if _, err := read(handmade(entry{typ: typeRefDelta, ref: make([]byte, 20), data: insert(1, "x")}), o); !errors.Is(err, failure) {
		t.Errorf("a base that cannot be read: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestPacksAreReadAsGitReadsThem(t *testing.T) {
	t.Parallel()
	dir := gittest.DeltaRepository(t)
	want := gittest.AllObjects(t, dir)
	const small = 5000 // the files are larger, the folders are not
	for _, args := range [][]string{{"--delta-base-offset", "--window=50"}, {"--window=50"}, {"--window=0"}} {
		data := gittest.Run(t, dir, nil, append([]string{"pack-objects", "--all", "--stdout", "-q", "--no-reuse-delta"}, args...)...)
		p, err := read(data, generous)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if len(p.Objects) != len(want) || p.Lost {
			t.Errorf("%s: %d objects, want %d; lost: %v", args, len(p.Objects), len(want), p.Lost)
		}
		o := generous
		o.Keep = func(_ plumbing.ObjectType, size int64) bool { return size <= small }
		little, err := read(data, o)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		for h, o := range want {
			if got := p.Objects[h]; got.Type != o.Type || got.Size != o.Size || !bytes.Equal(got.Data, o.Data) || got.Data == nil {
				t.Errorf("%s: %s %s of %d bytes is read as %s of %d", args, o.Type, h, o.Size, got.Type, got.Size)
			}
			switch got, ok := little.Objects[h]; {
			case o.Size <= small && !bytes.Equal(got.Data, o.Data):
				t.Errorf("%s: small %s %s is not there", args, o.Type, h)
			case o.Size > small && got.Data != nil:
				t.Errorf("%s: large %s is kept", args, h)
			case o.Size > small && !ok && !little.Lost:
				t.Errorf("%s: %s is lost and nothing is said", args, h)
			}
		}
		broken := bytes.Clone(data)
		broken[len(broken)-1] ^= 1
		for what, data := range map[string][]byte{"half a pack": data[:len(data)/2], "a wrong checksum": broken} {
			if _, err := read(data, generous); !errors.Is(err, pack.ErrMalformed) {
				t.Errorf("%s: %s: %v", args, what, err)
			}
		}
	}
	thin := gittest.Run(t, dir, strings.NewReader("HEAD\n^HEAD~\n"), "pack-objects", "--revs", "--thin", "--stdout", "-q", "--delta-base-offset")
	if _, err := read(thin, generous); !errors.Is(err, pack.ErrMalformed) {
		t.Errorf("a thin pack: %v", err)
	}
	o := generous
	o.Base = func(h plumbing.Hash) (pack.Object, bool, error) { o, ok := want[h]; return o, ok, nil }
	if p, err := read(thin, o); err != nil || p.Lost || len(p.Objects) == 0 {
		t.Errorf("a thin pack whose bases are known: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	file := []byte("content of a file")
	h := plumbing.ComputeHash(plumbing.BlobObject, file)
	blob := entry{typ: typeBlob, data: file}
	f.Add(handmade(entry{typ: typeCommit, data: []byte("c")}, blob))
	f.Add(handmade(entry{typ: typeRefDelta, ref: h[:], data: insert(len(file), "text")}, blob))
	f.Add(handmade(blob, entry{typ: typeOffsetDelta, ref: []byte{byte(len(encode(blob)))}, data: insert(len(file), "text")}))
	limits := pack.Limits{Objects: 100, Object: 10_000, Total: 100_000, Kept: 100_000}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, o := range []pack.Options{
			{Limits: limits},
			{Limits: pack.Limits{Objects: 100, Object: 10_000, Total: 100_000, Kept: 100_000, Commit: 1000, Commits: 5000}},
			{Limits: limits, Keep: func(t plumbing.ObjectType, size int64) bool { return t != plumbing.BlobObject && size < 1000 }},
			{Limits: limits, Base: func(plumbing.Hash) (pack.Object, bool, error) {
				return pack.Object{Type: plumbing.BlobObject, Size: 17, Data: file}, true, nil
			}},
		} {
			p, err := read(in, o)
			if err != nil {
				if !errors.Is(err, pack.ErrMalformed) && !errors.Is(err, pack.ErrLimit) {
					t.Errorf("error %v is of no known kind", err)
				}
				continue
			}
			for h, object := range p.Objects {
				if object.Data != nil && (plumbing.ComputeHash(object.Type, object.Data) != h || object.Size != int64(len(object.Data))) {
					t.Errorf("%s is not its content's name", h)
				}
			}
		}
	})
}
