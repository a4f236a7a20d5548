package clone

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Person is who made a commit.
type Person struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Change is what a commit did to a file.
type Change string

// The changes.
const (
	Created Change = "created"
	Changed Change = "changed"
	Removed Change = "removed"
)

// Commit is one commit of main that touched a file.
type Commit struct {
	Hash      string
	Author    Person
	CoAuthors []Person
	Committer Person
	// Time is the committer's: when it was made, not what an author says.
	Time    time.Time
	Message string
	Change  Change
	// Old and New are the file's blobs before and after; "" for no file.
	Old, New string
}

// Subject is the first line of the message.
func (c Commit) Subject() string {
	subject, _, _ := strings.Cut(c.Message, "\n")
	return subject
}

// format has fields between NULs, which no field can have.
const format = "%x00%H%x00%an%x00%ae%x00%cn%x00%ce%x00%ct%x00%B%x00"

const fieldsOfCommit = 7

// Log is the history of one file on main, the newest commit first, at most limit
// of them (all with 0). It is that of the path: a file that was removed and made
// again is the same, one that came from another path begins here.
func (c *Clone) Log(ctx context.Context, path string, limit int) ([]Commit, error) {
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return nil, err
	}
	args := []string{"log", "--no-color", "--no-notes", "--no-ext-diff", "--no-textconv", "--raw", "--no-abbrev", "--no-renames", "--diff-merges=combined", "--format=" + format}
	if limit > 0 {
		args = append(args, "--max-count="+strconv.Itoa(limit))
	}
	out, err := c.run(ctx, nil, append(args, main, "--", path)...)
	if err != nil {
		return nil, err
	}
	return parseLog(string(out))
}

// Approvals says who approved commits that touched a file, when they merged these into main
// in a review of the control plane, by commit. What came to main by itself, or by a merge of
// another kind, is not in it.
func (c *Clone) Approvals(ctx context.Context, path string) (map[string]string, error) {
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return nil, err
	}
	out, err := c.run(ctx, nil, "rev-list", "--first-parent", main)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for hash := range strings.FieldsSeq(string(out)) {
		known[hash] = true
	}
	// With full history there are all merges, whose parents are those that lead to commits of
	// the file.
	out, err = c.run(ctx, nil, "log", "--topo-order", "--full-history", "--parents", "--no-color", "--no-notes",
		"--format=%H%x00%P%x00%(trailers:key=Approved-by,valueonly,separator=%x2C )", main, "--", path)
	if err != nil {
		return nil, err
	}
	var merges [][]string
	parents := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 3 {
			return nil, fmt.Errorf("read git's log: %d fields of a commit", len(f))
		}
		if parents[f[0]] = strings.Fields(f[1]); known[f[0]] {
			merges = append(merges, f)
		}
	}
	approvals := map[string]string{}
	for _, merge := range slices.Backward(merges) {
		for brought := slices.Clone(parents[merge[0]]); len(brought) > 0; {
			last := brought[len(brought)-1]
			brought = brought[:len(brought)-1]
			if known[last] {
				continue
			}
			known[last] = true
			brought = append(brought, parents[last]...)
			if merge[2] != "" {
				approvals[last] = merge[2]
			}
		}
	}
	return approvals, nil
}

// Last gives, for each file below a folder, the newest commit that touched it.
func (c *Clone) Last(ctx context.Context, folder string, into map[string]Commit) error {
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return err
	}
	out, err := c.run(ctx, nil, "-c", "core.quotePath=false", "log", "--no-color", "--no-notes", "--no-ext-diff", "--no-textconv",
		"--raw", "--no-abbrev", "--no-renames", "--diff-merges=combined", "--format="+format, main, "--", folder)
	if err != nil {
		return err
	}
	return eachCommit(string(out), func(commit Commit, raw string) {
		for line := range strings.Lines(raw) {
			_, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if _, known := into[path]; ok && !known {
				into[path] = commit
			}
		}
	})
}

// isEmpty says that the repository has no main.
func (c *Clone) isEmpty(ctx context.Context) (bool, error) {
	out, err := c.run(ctx, nil, "for-each-ref", "--format=%(objectname)", main)
	return len(out) == 0, err
}

func parseLog(out string) ([]Commit, error) {
	var commits []Commit
	err := eachCommit(out, func(c Commit, raw string) {
		c.raw(raw)
		commits = append(commits, c)
	})
	return commits, err
}

// eachCommit gives each commit of git's log, and the lines that say what it
// changed.
func eachCommit(out string, do func(c Commit, raw string)) error {
	parts := strings.Split(out, "\x00")
	for i := 1; i+fieldsOfCommit < len(parts); i += fieldsOfCommit + 1 {
		f := parts[i : i+fieldsOfCommit+1]
		seconds, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			return fmt.Errorf("read git's log: time of %s: %w", f[0], err)
		}
		do(Commit{
			Hash: f[0], Author: Person{f[1], f[2]}, CoAuthors: coAuthors(f[6]), Committer: Person{f[3], f[4]},
			Time: time.Unix(seconds, 0).UTC(), Message: strings.TrimRight(f[6], "\n"),
		}, f[7])
	}
	return nil
}

// raw reads git's ":<mode> <mode> <blob> <blob> <letter>\t<path>". A merge that
// is itself a change has a colon, a mode and a blob for each parent; what it
// changed is told against the first.
func (c *Commit) raw(lines string) {
	for line := range strings.Lines(lines) {
		text := strings.TrimLeft(line, ":")
		parents := len(line) - len(text)
		f := strings.Fields(text)
		if parents == 0 || len(f) < 2*parents+2 {
			continue
		}
		c.Old, c.New = blob(f[0], f[parents+1]), blob(f[parents], f[2*parents+1])
	}
	switch {
	case c.Old == "":
		c.Change = Created
	case c.New == "":
		c.Change = Removed
	default:
		c.Change = Changed
	}
}

// blob is the name of a file's content; "" for none, and for what has none in
// this repository.
func blob(mode, hash string) string {
	if mode == "160000" || strings.Trim(hash, "0") == "" {
		return ""
	}
	return hash
}

var coAuthor = regexp.MustCompile(`(?im)^Co-authored-by:[ \t]*([^<\n]*?)[ \t]*<([^>\n]*)>[ \t]*$`)

func coAuthors(message string) []Person {
	var out []Person
	for _, m := range coAuthor.FindAllStringSubmatch(message, -1) {
		out = append(out, Person{m[1], m[2]})
	}
	return out
}
