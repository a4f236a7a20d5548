package store

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"gitbind.dev/gitbridge/store/internal/object"
)

// Tree is the newest tree as an Edit sees it, with the changes so far. It is
// of use only while Apply runs, by Apply's goroutine.
type Tree struct {
	editor *object.Editor
}

// NewTree is for implementations.
func NewTree(e *object.Editor) *Tree { return &Tree{editor: e} }

// Read returns the content of a file; it must not be modified. The error is
// ErrNotExist, or ErrTooLarge.
func (t *Tree) Read(path string) ([]byte, error) {
	return read(path, t.editor.Find(path))
}

// Entry returns the file at a path.
func (t *Tree) Entry(path string) (Entry, bool) {
	n := t.editor.Find(path)
	if n == nil {
		return Entry{}, false
	}
	return entry(path, n), true
}

// List goes through all files below a folder, sorted by path; "" is the root.
// The tree may be changed meanwhile: List shows it as it was at the beginning.
func (t *Tree) List(prefix string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for f := range t.editor.Walk(prefix) {
			if !yield(entry(f.Path, f.Node)) {
				return
			}
		}
	}
}

// Write puts a regular file at a path, which may be there already. The error is
// ErrPath, or ErrTooLarge.
func (t *Tree) Write(path string, data []byte) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if len(data) > MaxFile {
		return fmt.Errorf("write %s: %w: %d bytes", path, ErrTooLarge, len(data))
	}
	// A copy, as callers encode into buffers that they use again.
	file := object.NewFile(object.ModeRegular, object.ID{}, append([]byte{}, data...))
	if old := t.editor.Find(path); old != nil && (object.Change{Old: old, New: file}).IsNone() {
		return nil
	}
	if err := t.editor.Set(path, file); err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrPath, err)
	}
	return nil
}

// Remove takes a file away. Removing the last file of a folder removes the
// folder. The error is ErrNotExist.
func (t *Tree) Remove(path string) error {
	switch err := t.editor.Set(path, nil); {
	case errors.Is(err, object.ErrIsFolder), errors.Is(err, object.ErrNotExist):
		return fmt.Errorf("remove %s: %w", path, ErrNotExist)
	default:
		return err
	}
}

const (
	maxPath      = 4096
	maxComponent = 255
	maxDepth     = 64
)

// checkPath refuses what some Git client would refuse to check out.
func checkPath(path string) error {
	if len(path) > maxPath || strings.Count(path, "/") >= maxDepth {
		return fmt.Errorf("%w: too long", ErrPath)
	}
	if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) || strings.Contains(path, `\`) {
		return fmt.Errorf("%w: unusual characters", ErrPath)
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "":
			return fmt.Errorf("%w: an empty component", ErrPath)
		case name == ".", name == "..", isDotGit(name):
			return fmt.Errorf("%w: component %q", ErrPath, name)
		case len(name) > maxComponent:
			return fmt.Errorf("%w: a component of %d bytes", ErrPath, len(name))
		}
	}
	return nil
}

// isDotGit finds the names that are .git on some file system: letter case and
// ignored characters on macOS, the short name and endings on Windows.
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, " .")
	return name == ".git" || name == "git~1"
}
