// Package flipflop finds fields that go to and fro between two values, because
// a tool in the cluster and somebody in Git each write their own. It is pure, and
// remembers as little as that takes.
package flipflop

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"gitbind.dev/konnector/internal/agent/merge"
)

const (
	// Window is the time in which a field may go to and fro.
	Window = 10 * time.Minute
	// maxWrites and maxFields bound what is remembered of one claim.
	maxWrites = 6
	maxFields = 16
)

// Write is one write of a claim, on either side.
type Write struct {
	// At is in seconds since 1970.
	At int64 `json:"at"`
	// Git says that a file was written to the object, rather than the object to
	// the file. Since is then the commit that the object was in step with before.
	Git   bool   `json:"git,omitempty"`
	Since string `json:"since,omitempty"`
	// Fields are the fields that changed, each as "<path>:<value>", hashed.
	Fields []string `json:"fields"`
}

// New is a write that changes fields.
func New(at time.Time, changes []merge.Change) Write {
	t := Write{At: at.Unix()}
	for _, c := range changes[:min(len(changes), maxFields)] {
		t.Fields = append(t.Fields, mark(c))
	}
	return t
}

func mark(c merge.Change) string { return hash(c.Path) + ":" + hash(c.Value) }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:3])
}

// Add remembers a write, and forgets those that are too old to count, or of a clock that was
// ahead. Writes of the cluster count only between those of Git, so that an edit which Git
// has no part in leaves nothing behind.
func Add(writes []Write, t Write) []Write {
	kept := slices.DeleteFunc(slices.Clone(writes), func(old Write) bool { return max(t.At-old.At, old.At-t.At) > int64(Window/time.Second) })
	if len(t.Fields) == 0 || !t.Git && !slices.ContainsFunc(kept, func(old Write) bool { return old.Git }) {
		return kept
	}
	kept = append(kept, t)
	return kept[max(0, len(kept)-maxWrites):]
}

// Third finds the paths of those changes in the cluster that would write a field
// for the third time: Git has set it, the cluster has set it back, Git has set it
// again, and now the cluster would set it back once more. Where one side writes
// another value each time, it takes a round more.
func Third(writes []Write, now time.Time, changes []merge.Change) []string {
	writes = Add(writes, Write{At: now.Unix()})
	var paths []string
	for _, c := range changes[:min(len(changes), maxFields)] {
		if m := mark(c); turned(writes, m) || opposed(writes, m) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// turned looks for Git's value, then the one of the mark, then Git's again.
func turned(writes []Write, cluster string) bool {
	back := slices.IndexFunc(writes, func(t Write) bool { return !t.Git && slices.Contains(t.Fields, cluster) })
	if back < 0 {
		return false
	}
	path, _, _ := strings.Cut(cluster, ":")
	for _, first := range writes[:back] {
		for _, again := range writes[back+1:] {
			if first.Git && again.Git && slices.ContainsFunc(first.Fields, func(f string) bool {
				return strings.HasPrefix(f, path+":") && f != cluster && slices.Contains(again.Fields, f)
			}) {
				return true
			}
		}
	}
	return false
}

// opposed looks for a field that Git has set three times, and the cluster after the
// first two of them as it would now, where one of both always sets the same value.
func opposed(writes []Write, cluster string) bool {
	const rounds = 5
	path, _, _ := strings.Cut(cluster, ":")
	var git []bool
	var marks []string
	for _, t := range writes {
		i := slices.IndexFunc(t.Fields, func(f string) bool { return strings.HasPrefix(f, path+":") })
		switch last := len(git) - 1; {
		case i < 0:
		case last >= 0 && git[last] == t.Git:
			// The last one of a side's writes in a row is the one that the other undoes.
			marks[last] = t.Fields[i]
		default:
			git, marks = append(git, t.Git), append(marks, t.Fields[i])
		}
	}
	if len(git) < rounds || !git[len(git)-1] {
		return false
	}
	marks = marks[len(marks)-rounds:]
	return marks[0] == marks[2] && marks[2] == marks[4] || marks[1] == marks[3] && marks[3] == cluster
}
