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
	// MergedBy is who merged it into main; nil for one that was pushed there.
	MergedBy *Person
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
// anew is the same, one that came from another path begins here.
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
	commits, err := parseLog(string(out))
	if err != nil {
		return nil, err
	}
	merged, err := c.merged(ctx, path)
	for i, commit := range commits {
		if by, ok := merged[commit.Hash]; ok {
			commits[i].MergedBy = &by
		}
	}
	return commits, err
}

// merged says who merged the commits of a file's history into main, by commit.
func (c *Clone) merged(ctx context.Context, path string) (map[string]Person, error) {
	// With full history each merge has the parents that lead to commits of the file.
	out, err := c.run(ctx, nil, "log", "--topo-order", "--full-history", "--parents", "--no-color", "--format=%H%x00%P%x00%an%x00%ae", main, "--", path)
	if err != nil {
		return nil, err
	}
	parents, authors := map[string][]string{}, map[string]Person{}
	var onMain []string
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		if len(f) != 4 {
			return nil, fmt.Errorf("read git's log: %d fields of a merge", len(f))
		}
		parents[f[0]], authors[f[0]] = strings.Fields(f[1]), Person{f[2], f[3]}
		if len(onMain) == 0 {
			onMain = []string{f[0]}
		}
	}
	isKnown := map[string]bool{}
	for len(onMain) > 0 {
		tip := onMain[len(onMain)-1]
		isKnown[tip] = true
		if len(parents[tip]) == 0 {
			break
		}
		onMain = append(onMain, parents[tip][0])
	}
	merged := map[string]Person{}
	for _, merge := range slices.Backward(onMain) {
		for brought := slices.Clone(parents[merge]); len(brought) > 0; {
			last := brought[len(brought)-1]
			brought = brought[:len(brought)-1]
			if !isKnown[last] {
				isKnown[last], merged[last] = true, authors[merge]
				brought = append(brought, parents[last]...)
			}
		}
	}
	return merged, nil
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
