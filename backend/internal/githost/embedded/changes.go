package embedded

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
)

var _ githost.Changes = (*Host)(nil)

// maxChangeDiffs bounds the diffs of one change, in bytes as diffLineCost counts, and
// maxConflicts the files that are named as in conflict.
const (
	maxChangeDiffs = 2 << 20
	maxConflicts   = 50
)

// changeRef is the ref of a change's branch.
func changeRef(branch string) (string, error) {
	ref := contract.HeadsPrefix + branch
	if !strings.HasPrefix(ref, changesPrefix) || !validRef(ref) {
		return "", githost.ErrNotFound
	}
	return ref, nil
}

// changesFolder has git list all branches below it.
var changesFolder = strings.TrimSuffix(changesPrefix, "/")

// Branches implements githost.Changes.
func (h *Host) Branches(ctx context.Context, cluster string) ([]string, error) {
	var branches []string
	err := h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, _ string) error {
		out, err := repo.git.output(ctx, repo.dir, nil, "for-each-ref", "--no-merged="+mainRef, "--format=%(refname)", changesFolder)
		for ref := range strings.Lines(string(out)) {
			branches = append(branches, strings.TrimPrefix(strings.TrimSuffix(ref, "\n"), contract.HeadsPrefix))
		}
		return err
	})
	return branches, err
}

// Changes implements githost.Changes.
func (h *Host) Changes(ctx context.Context, cluster string) (changes []githost.Change, more bool, err error) {
	err = h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, _ string) error {
		err := repo.stream(ctx, nil, func(out *bufio.Reader) (err error) {
			changes, err = readHeads(out)
			return err
		}, "for-each-ref", "--no-merged="+mainRef, "--sort=-committerdate", fmt.Sprintf("--count=%d", githost.MaxChanges+1), "--format="+headFormat, changesFolder)
		if err != nil {
			return err
		}
		if more = len(changes) > githost.MaxChanges; more {
			changes = changes[:githost.MaxChanges]
		}
		heads := make([]string, len(changes))
		for i := range changes {
			heads[i] = changes[i].Head
		}
		events, err := repo.events(ctx, heads)
		for i := range changes {
			changes[i].Events = events[changes[i].Head]
		}
		slices.SortFunc(changes, func(a, b githost.Change) int {
			switch rejected := a.Rejected(); {
			case rejected == b.Rejected():
				return cmp.Compare(a.Branch, b.Branch)
			case rejected:
				return 1
			}
			return -1
		})
		return err
	})
	return changes, more, err
}

// headFormat has lines, of which somebody made up the author and the subject.
const headFormat = "%(objectname)%0a%(refname)%0a%(authordate:unix)%0a%(authorname)%0a%(contents:subject)"

// headFields are the lines of headFormat after the first.
const headFields = 4

func readHeads(out *bufio.Reader) ([]githost.Change, error) {
	var changes []githost.Change
	for {
		head, _, err := readLine(out)
		if errors.Is(err, io.EOF) {
			return changes, nil
		}
		if err != nil {
			return nil, err
		}
		f, err := readLines(out, headFields)
		if err != nil {
			return nil, fmt.Errorf("git for-each-ref: commit %s: %w", abbreviate(head), err)
		}
		seconds, _ := strconv.ParseInt(f[1], 10, 64)
		changes = append(changes, githost.Change{
			Branch: strings.TrimPrefix(f[0], contract.HeadsPrefix), Head: head, Author: f[2], When: time.Unix(seconds, 0).UTC(), Subject: f[3],
		})
	}
}

// Change implements githost.Changes.
func (h *Host) Change(ctx context.Context, cluster, branch string) (change *githost.Change, err error) {
	ref, err := changeRef(branch)
	if err != nil {
		return nil, err
	}
	err = h.reading(ctx, cluster, "main", func(ctx context.Context, repo *repository, main string) (err error) {
		if change, err = repo.proposed(ctx, ref, main); err == nil {
			change.Touched, err = repo.touched(ctx, change.Commits, main, maxTouchedNames)
		}
		return err
	})
	return change, err
}

// proposed reads a proposed change, beside the commit of main. Nothing is written to the
// repository.
func (r *repository) proposed(ctx context.Context, ref, main string) (*githost.Change, error) {
	head, err := readRef(r.dir, ref)
	if err != nil {
		return nil, err
	}
	if head.IsZero() {
		return nil, githost.ErrNotFound
	}
	c := &githost.Change{Branch: strings.TrimPrefix(ref, contract.HeadsPrefix), Head: head.String()}
	if err := r.proposedCommits(ctx, c, main); err != nil {
		return nil, err
	}
	apart, objects, err := r.apart()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(objects)
	tree, err := apart.mergeTree(ctx, main, c.Head)
	switch conflict := (*mergeConflict)(nil); {
	case errors.As(err, &conflict):
		c.Conflicts, c.Unrelated = conflict.files, conflict.unrelated
		return c, nil
	case err != nil:
		return nil, err
	}
	if err := apart.effect(ctx, c, main, tree); err != nil {
		return nil, err
	}
	return c, apart.refuseRenames(ctx, c, main)
}

// refuseRenames makes a conflict of what git has merged into files that the change does not
// touch: it takes a file that goes and one that comes for the same under another name, and
// a claim is never that. Git before 2.50 cannot be told so.
func (r *repository) refuseRenames(ctx context.Context, c *githost.Change, main string) error {
	base, err := r.git.output(ctx, r.dir, nil, "merge-base", main, c.Head)
	if err != nil {
		return err
	}
	out, err := r.git.output(ctx, r.dir, nil, "diff-tree", "-r", "-z", "--name-only", "--no-renames", strings.TrimSpace(string(base)), c.Head)
	if err != nil {
		return err
	}
	touched := map[string]bool{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		touched[name] = true
	}
	var foreign bool
	for _, f := range c.Files {
		foreign = foreign || !touched[f.Path]
		delete(touched, f.Path)
	}
	if foreign {
		c.Conflicts, c.Files, c.Effect, c.More = conflicts(slices.Sorted(maps.Keys(touched))), nil, "", false
	}
	return nil
}

// proposedCommits reads the commits that main does not have, and what was recorded of them.
func (r *repository) proposedCommits(ctx context.Context, c *githost.Change, main string) error {
	err := r.stream(ctx, nil, func(out *bufio.Reader) (err error) {
		c.Commits, err = readLog(out)
		return err
	}, "log", byHistory, fmt.Sprintf("--max-count=%d", githost.MaxChangeCommits+1), "--format="+logFormat, "--no-color", c.Head, "^"+main)
	if err != nil {
		return err
	}
	if len(c.Commits) == 0 {
		return githost.ErrNotFound
	}
	if c.Older = len(c.Commits) > githost.MaxChangeCommits; c.Older {
		c.Commits = c.Commits[:githost.MaxChangeCommits]
	}
	// The head is the first: no other commit is above it.
	c.Subject, c.Author, c.When = c.Commits[0].Subject, c.Commits[0].Author, c.Commits[0].When
	hashes := make([]string, len(c.Commits))
	for i := range c.Commits {
		hashes[i] = c.Commits[i].Hash
	}
	events, err := r.events(ctx, hashes)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		c.Events = append(c.Events, events[h]...)
	}
	slices.SortStableFunc(c.Events, func(a, b githost.Event) int { return a.At.Compare(b.At) })
	c.Imported, err = r.isImported(ctx, hashes, events)
	return err
}

// apart is the repository for programs whose new objects go to a folder of their own, which the
// caller removes.
func (r *repository) apart() (apart *repository, objects string, err error) {
	objects, err = os.MkdirTemp(r.git.dir, newPrefix+r.id+"-")
	if err != nil {
		return nil, "", err
	}
	g := *r.git
	g.env = []string{"GIT_OBJECT_DIRECTORY=" + objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + r.dir + "/objects"}
	return &repository{id: r.id, dir: r.dir, git: &g}, objects, nil
}

// mergeConflict says that git cannot merge: because of these files, or because the
// histories have nothing in common.
type mergeConflict struct {
	files     []string
	unrelated bool
}

func (m *mergeConflict) Error() string { return "cannot be merged" }

// conflicts are the first of files, with what is shown of a long name.
func conflicts(files []string) []string {
	var out []string
	for _, f := range files[:min(len(files), maxConflicts)] {
		out = append(out, strings.Clone(brief.CutBytes(f, githost.MaxPath))) // the rest of git's answer is not kept with it
	}
	return out
}

// mergeTree gives the tree of a merge of two commits, or a *mergeConflict.
func (r *repository) mergeTree(ctx context.Context, main, head string) (tree string, err error) {
	cmd := r.git.command(ctx, r.dir, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", main, head)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = r.git.run(cmd)
	tree, names, _ := strings.Cut(stdout.String(), "\x00")
	var ended *exec.ExitError
	switch {
	case err == nil && plumbing.IsHash(tree):
		return tree, nil
	case errors.As(err, &ended) && ended.ExitCode() == 1:
		return "", &mergeConflict{files: conflicts(slices.Compact(strings.Split(strings.TrimRight(names, "\x00"), "\x00")))}
	}
	if _, baseErr := r.git.output(ctx, r.dir, nil, "merge-base", main, head); errors.As(baseErr, &ended) && ended.ExitCode() == 1 {
		return "", &mergeConflict{unrelated: true}
	}
	return "", fmt.Errorf("git merge-tree: %w: %s", cmp.Or(err, io.ErrUnexpectedEOF), abbreviate(strings.TrimSpace(stderr.String())))
}

// effect adds to a change what main would have other than now.
func (r *repository) effect(ctx context.Context, c *githost.Change, main, tree string) error {
	sum := sha256.New()
	var sections []int
	err := r.stream(ctx, nil, func(out *bufio.Reader) error {
		for {
			f, diffs, err := readRaw(out, sum)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(c.Files) == githost.MaxChangedFiles || len(f.Path) > githost.MaxPath {
				c.More = true
				return errEnough
			}
			c.Files = append(c.Files, f)
			for range diffs {
				sections = append(sections, len(c.Files)-1)
			}
		}
	}, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", main+"^{tree}", tree)
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if !c.More {
		c.Effect = hex.EncodeToString(sum.Sum(nil))[:40]
	}
	err = r.stream(ctx, nil, func(out *bufio.Reader) error { return readPatch(out, c.Files, sections, c.More) },
		"diff-tree", "-r", "--patch", "--unified=3", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--text", main+"^{tree}", tree)
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return r.contents(ctx, c.Files)
}

// maxContents bounds the contents of a change's files, in bytes.
const maxContents = 8 << 20

// contents reads those of files, as long as there is room for them: first of what orders APIs and
// services.
func (r *repository) contents(ctx context.Context, files []githost.FileChange) error {
	inOrder := make([]*githost.FileChange, len(files))
	for i := range files {
		inOrder[i] = &files[i]
	}
	slices.SortStableFunc(inOrder, func(a, b *githost.FileChange) int { return cmp.Compare(readingOrder(a.Path), readingOrder(b.Path)) })
	var names []string
	var into []*[]byte
	for _, f := range inOrder {
		if f.Before != "" {
			names, into = append(names, f.Before), append(into, &f.Was)
		}
		if f.After != "" && !f.Irregular {
			names, into = append(names, f.After), append(into, &f.Is)
		}
	}
	if len(names) == 0 {
		return nil
	}
	read, at := 0, 0
	err := r.blobs(ctx, names, func(_ string, data []byte) error {
		if data == nil {
			read += githost.MaxFile // It is larger, but no other one is kept from being read by it alone.
		}
		if read += len(data); read > maxContents {
			return errEnough
		}
		if data != nil {
			*into[at] = append([]byte{}, data...)
		}
		at++
		return nil
	})
	// What was a submodule is not there.
	if errors.Is(err, errEnough) || errors.Is(err, githost.ErrNotFound) {
		return nil
	}
	return err
}

// readingOrder is 0 for requests, 1 for claims and 2 for other files.
func readingOrder(path string) int {
	if _, ok := contract.ParseRequestPath(path); ok {
		return 0
	}
	if _, err := contract.ParsePath(path); err == nil {
		return 1
	}
	return 2
}

// errEnough ends the reading of what git writes.
var errEnough = errors.New("enough was read")

// readRaw reads a file of what git diff-tree --raw -z writes, ":<mode> <mode> <blob> <blob>
// <what>\0<path>\0", and copies it to sum. Diffs is how many git writes of it: of a file that
// becomes something else, such as a link, one of what goes and one of what comes.
func readRaw(out *bufio.Reader, sum io.Writer) (c githost.FileChange, diffs int, err error) {
	about, err := out.ReadString(0)
	if err != nil {
		return c, 0, err
	}
	path, err := out.ReadString(0)
	if err != nil {
		return c, 0, io.ErrUnexpectedEOF
	}
	_, _ = io.WriteString(sum, about+path) // a hash takes all
	f := strings.Fields(strings.TrimPrefix(strings.TrimSuffix(about, "\x00"), ":"))
	if len(f) != 5 {
		return c, 0, fmt.Errorf("git diff-tree: unexpected line %q", abbreviate(about))
	}
	c.Path = strings.TrimSuffix(path, "\x00")
	if strings.Trim(f[2], "0") != "" {
		c.Before = f[2]
	}
	if strings.Trim(f[3], "0") != "" {
		c.After = f[3]
		c.Irregular = f[1] != "100644"
	}
	if diffs = 1; f[4] == "T" {
		diffs = 2
	}
	return c, diffs, nil
}

// readPatch reads the diffs of files. Sections gives the file that each of them is of, in their
// order; more says that others follow. Where git writes another number of them, nobody
// knows whose they are, and none is shown.
func readPatch(out *bufio.Reader, files []githost.FileChange, sections []int, more bool) error {
	at, budget, inDiff := -1, diffBudget{all: maxChangeDiffs}, false
	for {
		line, cut, err := readLine(out)
		if errors.Is(err, io.EOF) {
			if more || at+1 != len(sections) {
				withhold(files)
			}
			return nil
		}
		if err != nil {
			return err
		}
		// No line of a diff begins so.
		if strings.HasPrefix(line, "diff ") {
			at, inDiff = at+1, false
			switch {
			case at == len(sections) && more:
				return errEnough
			case at == len(sections):
				withhold(files)
				return errEnough
			case at == 0 || sections[at] != sections[at-1]:
				budget.size = 0
			}
			continue
		}
		if inDiff = at >= 0 && (inDiff || strings.HasPrefix(line, "@@")); !inDiff {
			continue
		}
		f := &files[sections[at]]
		if !budget.take(line) {
			f.Cut = true
			continue
		}
		f.Diff = append(f.Diff, line)
		f.Cut = f.Cut || cut
	}
}

// withhold shows no diff of any file, and says that there is more.
func withhold(files []githost.FileChange) {
	for i := range files {
		files[i].Diff, files[i].Cut = nil, true
	}
}

// Record implements githost.Changes.
func (h *Host) Record(ctx context.Context, cluster, branch, head string, e githost.Event) error {
	return h.changing(ctx, cluster, branch, head, func(ctx context.Context, repo *repository, _, at plumbing.Hash) error {
		err := h.addEvents(ctx, repo, access.Owner, map[string][]githost.Event{at.String(): {e}})
		if err == nil && e.Kind == githost.EventRejected && h.cfg.Moved != nil {
			// The konnector that proposed it hears of it, though the branch is where it was.
			h.cfg.Moved(cluster, restapi.RefEvent{Ref: contract.HeadsPrefix + branch, Hash: head, Reviewed: true})
		}
		return err
	})
}

// changing lets fn change something of a proposed change that stands at head, in the
// repository's turn.
func (h *Host) changing(ctx context.Context, cluster, branch, head string, fn func(ctx context.Context, repo *repository, main, head plumbing.Hash) error) error {
	ref, err := changeRef(branch)
	if err != nil {
		return err
	}
	repo, ok, err := h.repository(cluster)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("repository %s is not on this host", cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, h.readTimeout)
	defer cancel()
	if err := repo.lock(ctx); err != nil {
		return err
	}
	defer repo.unlock()
	leave, err := h.receives.enter(ctx, holder{owner: h.owner(ctx, cluster), cluster: cluster, role: access.Owner})
	if err != nil {
		return err
	}
	defer leave()
	if err := h.room(ctx, repo, access.Owner, &pushRequest{}, maxRecord); err != nil {
		return err
	}
	if err := repo.unlockKilled(); err != nil {
		return err
	}
	at, err := readRef(repo.dir, ref)
	if err != nil {
		return err
	}
	main, err := readRef(repo.dir, mainRef)
	if err != nil {
		return err
	}
	switch {
	case at.IsZero() || main.IsZero():
		return githost.ErrNotFound
	case at.String() != head:
		return githost.ErrMoved
	}
	return fn(ctx, repo, main, at)
}

// maxRecord is about what a merge adds to a repository, in bytes, and a record at least.
const maxRecord = 64 << 10
