// Package object knows Git's objects: their names, their encoding, and trees
// of them in memory that share what is equal. It does no I/O and keeps no
// object database: what no tree holds is the garbage collector's.
//
// Decoding is strict where two readings of the same bytes would be possible
// (order, duplicates, slashes in names), and lenient where a name is merely
// unwelcome: such files are passed on with their path, for others to refuse.
package object

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
)

// ID is a SHA-1 object name.
type ID [sha1.Size]byte

// EmptyTree is the name of the tree without files.
var EmptyTree = Sum(Tree, nil)

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsZero says that this names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID reads 40 hexadecimal digits.
func ParseID[T ~string | ~[]byte](s T) (id ID, err error) {
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("object name of %d characters", len(s))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("object name: %w", err)
	}
	return id, nil
}

// Kind is what an object is.
type Kind string

// The kinds that Git has.
const (
	Blob   Kind = "blob"
	Tree   Kind = "tree"
	Commit Kind = "commit"
	Tag    Kind = "tag"
)

// Object is an encoded object.
type Object struct {
	ID   ID
	Kind Kind
	Data []byte
}

// Sum computes the name of an object.
func Sum(kind Kind, data []byte) (id ID) {
	h := sha1.New()
	h.Write(Header(kind, int64(len(data))))
	h.Write(data)
	h.Sum(id[:0])
	return id
}

// Header is what is hashed before an object's content.
func Header(kind Kind, size int64) []byte {
	b := make([]byte, 0, 32)
	b = append(b, kind...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, size, 10)
	return append(b, 0)
}
