package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gitbind.dev/backend/internal/githost"
)

// logFormat has one field on each line. No content of a file can be taken for
// them: a line of a diff begins with one of " +-\@", and git lets no line end
// into a name or a subject.
const logFormat = "commit %H%n%an%n%ae%n%at%n%s%n%(trailers:key=Co-authored-by,valueonly,unfold,separator=%x09)"

// logFields are the lines of logFormat after the first.
const logFields = 5

// Log implements githost.History.
func (h *Host) Log(ctx context.Context, cluster, path string, limit int) ([]githost.Commit, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var commits []githost.Commit
	err := h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, commit string) error {
		return repo.stream(ctx, nil, func(out *bufio.Reader) (err error) {
			commits, err = readLog(out)
			return err
		}, "--literal-pathspecs", "log", "--max-count="+strconv.Itoa(min(limit, maxLog)), "--format="+logFormat,
			"--patch", "--diff-merges=first-parent", "--unified=3", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--text",
			commit, "--", path)
	})
	return commits, err
}

func readLog(out *bufio.Reader) ([]githost.Commit, error) {
	var commits []githost.Commit
	budget, inDiff := diffBudget{all: maxLogDiffs}, false
	for {
		line, cut, err := readLine(out)
		if errors.Is(err, io.EOF) {
			return commits, nil
		}
		if err != nil {
			return nil, err
		}
		if hash, ok := strings.CutPrefix(line, "commit "); ok {
			c, err := readCommit(out, hash)
			if err != nil {
				return nil, err
			}
			commits, budget.size, inDiff = append(commits, c), 0, false
			continue
		}
		if len(commits) == 0 {
			return nil, fmt.Errorf("git log: unexpected line %q", abbreviate(line))
		}
		// Before the first hunk are the names of the files, which are known.
		inDiff = strings.HasPrefix(line, "@@") || inDiff && !strings.HasPrefix(line, "diff ")
		if !inDiff || line == "" {
			continue
		}
		c := &commits[len(commits)-1]
		if !budget.take(line) {
			c.Cut = true
			continue
		}
		c.Diff = append(c.Diff, line)
		c.Cut = c.Cut || cut
	}
}

// diffBudget bounds the diffs of one answer.
type diffBudget struct {
	// size is the length of the present diff, in bytes: it goes up to maxDiff.
	size int
	// all is what is left for all diffs, in bytes as diffLineCost counts.
	all int
}

// take tells whether there is room for the next line.
func (b *diffBudget) take(line string) bool {
	if b.size += len(line) + 1; b.size > maxDiff || b.all < 0 {
		return false
	}
	b.all -= diffLineCost(line)
	return b.all >= 0
}

// diffLineCost is about what a line of a diff takes until it is on a page, in bytes. Its string,
// what the page makes of that and its element take 64 bytes; a character of markup is escaped, and
// one that cannot be seen stands there by its code point.
func diffLineCost(line string) int {
	cost := len(line) + 64
	for _, c := range line {
		switch {
		case strings.ContainsRune(`"&'+<>`, c):
			cost += len("&#34;")
		case c != '\t' && !unicode.IsGraphic(c):
			cost += len("⟨U+0000⟩")
		}
	}
	return cost
}

func readCommit(out *bufio.Reader, hash string) (githost.Commit, error) {
	f, err := readLines(out, logFields)
	if err != nil {
		return githost.Commit{}, fmt.Errorf("git log: commit %s: %w", hash, err)
	}
	// A time that git cannot read is none.
	seconds, _ := strconv.ParseInt(f[2], 10, 64)
	c := githost.Commit{Hash: hash, Author: f[0], Email: f[1], When: time.Unix(seconds, 0).UTC(), Subject: f[3]}
	for who := range strings.SplitSeq(f[4], "\t") {
		if who = strings.TrimSpace(who); who != "" && len(c.With) < maxWith {
			c.With = append(c.With, who)
		}
	}
	return c, nil
}

// readLines reads n lines, as readLine does.
func readLines(out *bufio.Reader, n int) ([]string, error) {
	lines := make([]string, n)
	for i := range lines {
		var err error
		if lines[i], _, err = readLine(out); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// readLine reads a line without its end, and no more of a long one than
// maxDiffLine.
func readLine(out *bufio.Reader) (line string, cut bool, err error) {
	var b []byte
	for {
		part, err := out.ReadSlice('\n')
		if room := maxDiffLine - len(b); room > 0 {
			b = append(b, part[:min(room, len(part))]...)
		}
		cut = cut || len(b) == maxDiffLine
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(b) == 0 || !errors.Is(err, io.EOF)):
			return "", false, err
		}
		return strings.ToValidUTF8(strings.TrimSuffix(string(b), "\n"), "�"), cut, nil
	}
}

// versionFormat is like logFormat, for Versions.
const versionFormat = "commit %H%n%an%n%ae%n%ct%n%P"

// versionFields are the lines of versionFormat after the first.
const versionFields = 4

// Versions implements githost.History.
func (h *Host) Versions(ctx context.Context, cluster, branch, path string, limit int) ([]githost.Version, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var versions []githost.Version
	err := h.reading(ctx, cluster, branch, func(ctx context.Context, repo *repository, commit string) error {
		return repo.stream(ctx, nil, func(out *bufio.Reader) (err error) {
			versions, err = readVersions(out)
			return err
		}, "--literal-pathspecs", "log", "--max-count="+strconv.Itoa(min(limit, maxLog)), "--format="+versionFormat,
			"--first-parent", "--diff-merges=first-parent", "--raw", "--no-abbrev", "--no-color", "--no-renames", commit, "--", path)
	})
	return versions, err
}

func readVersions(out *bufio.Reader) ([]githost.Version, error) {
	var versions []githost.Version
	for {
		line, _, err := readLine(out)
		if errors.Is(err, io.EOF) {
			return versions, nil
		}
		if err != nil {
			return nil, err
		}
		hash, isCommit := strings.CutPrefix(line, "commit ")
		switch {
		case isCommit:
			v, err := readVersion(out, hash)
			if err != nil {
				return nil, err
			}
			versions = append(versions, v)
		case strings.HasPrefix(line, ":") && len(versions) > 0:
			// ":<mode> <mode> <blob before> <blob> <what>\t<path>", where a blob of zeros is none.
			if f := strings.Fields(line); len(f) > 4 && strings.Trim(f[3], "0") != "" {
				versions[len(versions)-1].Blob = f[3]
			}
		case line != "":
			return nil, fmt.Errorf("git log: unexpected line %q", abbreviate(line))
		}
	}
}

func readVersion(out *bufio.Reader, hash string) (githost.Version, error) {
	f, err := readLines(out, versionFields)
	if err != nil {
		return githost.Version{}, fmt.Errorf("git log: commit %s: %w", hash, err)
	}
	// A time that git cannot read is none.
	seconds, _ := strconv.ParseInt(f[2], 10, 64)
	return githost.Version{Commit: hash, Author: f[0], Email: f[1], When: time.Unix(seconds, 0).UTC(), First: f[3] == ""}, nil
}
