package base

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"unique"

	"k8s.io/apimachinery/pkg/types"
)

// Compact is the annotation of an object as a cache keeps it, in half as many bytes.
// The zero value is that of no annotation.
type Compact struct {
	connection unique.Handle[types.UID]
	// data are commit and blob, each of hashBytes, the generation as a varint, a byte that
	// says whether it is committed, and the content without base64. Where the annotation
	// says anything else, it is the annotation, and connection is the zero value.
	data string
}

const hashBytes = 20

// NewCompact takes the annotation of an object with a UID.
func NewCompact(value string, uid types.UID) Compact {
	return newCompact(parse(value), value, uid)
}

// newCompact is NewCompact of what was read already; a is nil for what cannot be read.
func newCompact(a *annotation, value string, uid types.UID) Compact {
	if a != nil {
		if c, ok := a.compact(); ok && c.Annotation(uid) == value {
			return c
		}
	}
	return Compact{data: value}
}

// compact has what a Compact can say of an annotation.
func (a *annotation) compact() (Compact, bool) {
	commit, errCommit := hex.DecodeString(a.Commit)
	blob, errBlob := hex.DecodeString(a.Blob)
	content, errContent := base64.StdEncoding.DecodeString(a.Content)
	if errCommit != nil || errBlob != nil || errContent != nil || len(commit) != hashBytes || len(blob) != hashBytes {
		return Compact{}, false
	}
	data := binary.AppendVarint(slices.Concat(commit, blob), a.Generation)
	committed := byte(0)
	if a.Committed {
		committed = 1
	}
	data = append(append(data, committed), content...)
	return Compact{connection: unique.Make(a.Connection), data: string(data)}, true
}

// Annotation is the annotation's value, of the same object.
func (c Compact) Annotation(uid types.UID) string {
	if c.connection == (unique.Handle[types.UID]{}) {
		return c.data
	}
	commit, blob, rest := c.data[:hashBytes], c.data[hashBytes:2*hashBytes], []byte(c.data[2*hashBytes:])
	generation, n := binary.Varint(rest)
	committed, content := rest[n] == 1, rest[n+1:]
	// As Encode writes it, without what it costs: each look at a claim needs it.
	out := make([]byte, 0, 320+base64.StdEncoding.EncodedLen(len(content)))
	out = append(append(out, `{"uid":"`...), uid...)
	if connection := c.connection.Value(); connection != "" {
		out = append(append(out, `","connection":"`...), connection...)
	}
	out = hex.AppendEncode(append(out, `","commit":"`...), []byte(commit))
	out = hex.AppendEncode(append(out, `","blob":"`...), []byte(blob))
	out = append(out, '"')
	if generation != 0 {
		out = strconv.AppendInt(append(out, `,"generation":`...), generation, 10)
	}
	if committed {
		out = append(out, `,"committed":true`...)
	}
	out = base64.StdEncoding.AppendEncode(append(out, `,"content":"`...), content)
	return string(append(out, `"}`...))
}
