package object

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Entry is a line of a tree object.
type Entry struct {
	Name string
	Mode Mode
	ID   ID
}

// ErrMalformed says that an object's bytes are not what Git writes.
var ErrMalformed = errors.New("malformed object")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// DecodeTree reads a tree object. Order and uniqueness are checked, so that a
// path means one file to every reader. Modes are brought to the five that Git
// has.
func DecodeTree(data []byte) ([]Entry, error) {
	entries := make([]Entry, 0, len(data)/48+1)
	for len(data) > 0 {
		e, n, err := decodeEntry(data)
		if err != nil {
			return nil, err
		}
		data = data[n:]
		if len(entries) > 0 {
			last := entries[len(entries)-1]
			if compareNames(last.Name, last.Mode == ModeFolder, e.Name, e.Mode == ModeFolder) >= 0 {
				return nil, malformed("tree not in order at %q", e.Name)
			}
		}
		entries = append(entries, e)
	}
	return entries, checkTwins(entries)
}

func decodeEntry(data []byte) (Entry, int, error) {
	space := bytes.IndexByte(data[:min(len(data), 8)], ' ')
	if space < 1 {
		return Entry{}, 0, malformed("tree entry without a mode")
	}
	nul := bytes.IndexByte(data, 0)
	if nul < space+2 {
		return Entry{}, 0, malformed("tree entry without a name")
	}
	end := nul + 1 + len(ID{})
	if end > len(data) {
		return Entry{}, 0, malformed("tree entry cut off")
	}
	mode, err := parseMode(string(data[:space]))
	if err != nil {
		return Entry{}, 0, err
	}
	e := Entry{Name: string(data[space+1 : nul]), Mode: mode, ID: ID(data[nul+1 : end])}
	if strings.Contains(e.Name, "/") {
		return Entry{}, 0, malformed("slash in the name %q", e.Name)
	}
	return e, end, nil
}

// parseMode takes what Git takes: old tools wrote group-writable files and
// leading zeros.
func parseMode(s string) (Mode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		return 0, malformed("mode %q", s)
	}
	switch m := Mode(n); m & 0o170000 {
	case ModeFolder:
		return ModeFolder, nil
	case ModeSymlink:
		return ModeSymlink, nil
	case ModeSubmodule:
		return ModeSubmodule, nil
	case ModeRegular & 0o170000:
		if m&0o100 != 0 {
			return ModeExecutable, nil
		}
		return ModeRegular, nil
	}
	return 0, malformed("mode %q", s)
}

// checkTwins finds a file and a folder of the same name: their places in the
// order differ, with others possibly between them.
func checkTwins(entries []Entry) error {
	folders := map[string]bool{}
	for _, e := range entries {
		if e.Mode == ModeFolder {
			folders[e.Name] = true
		}
	}
	for _, e := range entries {
		if e.Mode != ModeFolder && folders[e.Name] {
			return malformed("%q is there twice", e.Name)
		}
	}
	return nil
}

func appendEntry(b []byte, name string, mode Mode, id ID) []byte {
	b = strconv.AppendUint(b, uint64(mode), 8)
	b = append(b, ' ')
	b = append(b, name...)
	b = append(b, 0)
	return append(b, id[:]...)
}

// encodeTree writes a tree object; children are in Git's order.
func encodeTree(children []child) []byte {
	size := 0
	for _, c := range children {
		size += len("100644 ") + len(c.name) + 1 + len(ID{})
	}
	b := make([]byte, 0, size)
	for _, c := range children {
		b = appendEntry(b, c.name, c.Mode, c.ID)
	}
	return b
}
