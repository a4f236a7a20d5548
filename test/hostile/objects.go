package hostile

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Types of objects in a pack.
const (
	commitObject = 1
	treeObject   = 2
	blobObject   = 3
	refDelta     = 7
)

var typeNames = map[int]string{commitObject: "commit", treeObject: "tree", blobObject: "blob"}

// packer makes a pack by hand, so that it may say what git would not.
type packer struct {
	// email is that of the author and committer.
	email string
	body  bytes.Buffer
	zip   *zlib.Writer
	count uint32
}

// add puts an object into the pack, and returns its name.
func (p *packer) add(kind int, data []byte) string {
	p.entry(kind, len(data), nil, data)
	return nameOf(typeNames[kind], data)
}

func nameOf(kind string, data []byte) string {
	sum := sha1.New()
	fmt.Fprintf(sum, "%s %d\x00", kind, len(data))
	sum.Write(data)
	return hex.EncodeToString(sum.Sum(nil))
}

func (p *packer) entry(kind, size int, before, data []byte) {
	p.count++
	b := byte(kind<<4) | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.body.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.body.WriteByte(b)
	p.body.Write(before)
	if p.zip == nil {
		// The attackers share the machine with those whom they attack.
		p.zip, _ = zlib.NewWriterLevel(&p.body, zlib.BestSpeed)
	}
	p.zip.Reset(&p.body)
	_, _ = p.zip.Write(data)
	_ = p.zip.Close()
}

// explode adds a delta that makes a blob of a thousand times base.
func (p *packer) explode(base []byte, times int) {
	var delta []byte
	delta = binary.AppendUvarint(delta, uint64(len(base)))
	delta = binary.AppendUvarint(delta, uint64(len(base)*times))
	for range times {
		// Copy from offset 0: three bytes of size.
		delta = append(delta, 0x80|0x70, byte(len(base)), byte(len(base)>>8), byte(len(base)>>16))
	}
	name, err := hex.DecodeString(nameOf("blob", base))
	if err != nil {
		panic(err)
	}
	p.entry(refDelta, len(delta), name, delta)
}

// pack is what was added, as Git sends it.
func (p *packer) pack() []byte {
	var out bytes.Buffer
	out.WriteString("PACK")
	_ = binary.Write(&out, binary.BigEndian, uint32(2))
	_ = binary.Write(&out, binary.BigEndian, p.count)
	out.Write(p.body.Bytes())
	sum := sha1.Sum(out.Bytes())
	out.Write(sum[:])
	return out.Bytes()
}

// tree is one with entries of "<mode> <name>" and the object's name, which are to
// be sorted as Git sorts them.
func tree(entries ...[2]string) []byte {
	var out []byte
	for _, e := range entries {
		name, err := hex.DecodeString(e[1])
		if err != nil {
			panic(err)
		}
		out = append(append(append(out, e[0]...), 0), name...)
	}
	return out
}

// commit adds a commit.
func (p *packer) commit(tree string, parents []string, message string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	for _, parent := range parents {
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	fmt.Fprintf(&b, "author konnector <%[1]s> 1700000000 +0000\ncommitter konnector <%[1]s> 1700000000 +0000\n\n%[2]s", p.email, message)
	return p.add(commitObject, []byte(b.String()))
}
