package output

import (
	"bytes"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff is a unified diff of two texts; nil when they are equal.
func Diff(oldName, old, newName, changed string) []byte {
	d := diff.Diff(Line(oldName), []byte(old), Line(newName), []byte(changed))
	if d == nil {
		return nil
	}
	// Without the line that names a command which nobody ran.
	_, d, _ = bytes.Cut(d, []byte("\n"))
	return d
}
