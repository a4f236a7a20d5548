package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

// reviewsRef keeps what happened to proposed changes: Git notes, which stock git shows
// with git log --notes=reviews. Nobody can push to it.
const reviewsRef = "refs/notes/reviews"

// maxPushedChanges bounds the change branches that a person sets with one push: each is
// recorded.
const maxPushedChanges = 100

// maxMessages bounds what was said of all commits of a change, in bytes. What is beyond is
// left out where it is read: it is in the notes.
const maxMessages = 1 << 20

// events are what is recorded of commits, by commit, the oldest first.
func (r *repository) events(ctx context.Context, commits []string) (map[string][]githost.Event, error) {
	all := map[string][]githost.Event{}
	said := 0
	err := r.notes(ctx, commits, func(commit string, note []byte) error {
		events, err := readEvents(commit, note)
		for i := range events {
			if said += len(events[i].Message); said > maxMessages {
				events[i].Message = "…"
			}
		}
		all[commit] = events
		return err
	})
	return all, err
}

// notes reads those of commits that have one. A note is fn's only until it returns.
func (r *repository) notes(ctx context.Context, commits []string, fn func(commit string, note []byte) error) error {
	if len(commits) == 0 {
		return nil
	}
	var names strings.Builder
	for _, c := range commits {
		names.WriteString(noteName(c) + "\n")
	}
	err := r.stream(ctx, strings.NewReader(names.String()), func(out *bufio.Reader) error {
		var note bytes.Buffer
		for _, c := range commits {
			_, size, err := header(out, noteName(c))
			if errors.Is(err, githost.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			note.Reset()
			if _, err := io.CopyN(&note, out, size); err != nil {
				return err
			}
			if _, err := out.Discard(1); err != nil {
				return err
			}
			if err := fn(c, note.Bytes()); err != nil {
				return err
			}
		}
		return nil
	}, "cat-file", "--batch")
	if err != nil {
		return fmt.Errorf("read %s: %w", reviewsRef, err)
	}
	return nil
}

// notePath is where the notes have that of a commit: git reads any fan-out, and this one
// keeps each folder small.
func notePath(commit string) string { return commit[:2] + "/" + commit[2:] }

func noteName(commit string) string { return reviewsRef + ":" + notePath(commit) }

func readEvents(commit string, note []byte) ([]githost.Event, error) {
	var events []githost.Event
	for line := range bytes.Lines(note) {
		e := githost.Event{Commit: commit}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("note of commit %s: %w", short(commit), err)
		}
		events = append(events, e)
	}
	return events, nil
}

// noteFolders is about what the commit and the folders of changed notes take, in bytes.
const noteFolders = 16 << 10

// addEvents records events of commits, by commit, in one commit of the notes. What a
// commit has already is not recorded twice. The error is a *noRoom where it would not fit
// into what the role may fill. The caller has the repository's turn.
func (h *Host) addEvents(ctx context.Context, repo *repository, role access.Role, added map[string][]githost.Event) error {
	files, err := repo.changedNotes(ctx, added)
	if err != nil || len(files) == 0 {
		return err
	}
	before, err := readRef(repo.dir, reviewsRef)
	if err != nil {
		return err
	}
	// A note is written as a whole, with all that it had.
	size := int64(len(files)) + noteFolders
	if err := h.room(ctx, repo, role, &pushRequest{}, size); err != nil {
		return err
	}
	const message = "Record reviews\n"
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit %s\ncommitter gitbind <backend@%s> %d +0000\ndata %d\n%s", reviewsRef, controlPlaneDomain, h.now().Unix(), len(message), message)
	if !before.IsZero() {
		fmt.Fprintf(&stream, "from %s^0\n", reviewsRef)
	}
	stream.Write(files)
	stream.WriteString("done\n")
	err = repo.change(ctx, &stream, []string{reviewsRef}, "fast-import", "--quiet", "--done")
	// Git may have written all of it, and failed after that.
	repo.size.Add(size)
	h.countPush(repo)
	return err
}

// changedNotes gives the notes that events are added to, for git fast-import.
func (r *repository) changedNotes(ctx context.Context, added map[string][]githost.Event) ([]byte, error) {
	var files bytes.Buffer
	write := func(commit string, note []byte) error {
		more, err := appendEvents(commit, note, added[commit])
		if err == nil && len(more) > 0 {
			fmt.Fprintf(&files, "M 100644 inline %s\ndata %d\n%s%s\n", notePath(commit), len(note)+len(more), note, more)
		}
		return err
	}
	fresh := maps.Clone(added)
	if err := r.notes(ctx, slices.Sorted(maps.Keys(added)), func(commit string, note []byte) error {
		delete(fresh, commit)
		return write(commit, note)
	}); err != nil {
		return nil, err
	}
	for _, commit := range slices.Sorted(maps.Keys(fresh)) {
		if err := write(commit, nil); err != nil {
			return nil, err
		}
	}
	return files.Bytes(), nil
}

// appendEvents gives the lines by which a commit's note grows: none for a push that it has
// already.
func appendEvents(commit string, note []byte, added []githost.Event) ([]byte, error) {
	present, err := readEvents(commit, note)
	if err != nil {
		return nil, err
	}
	count := map[githost.EventKind]int{}
	for _, e := range present {
		count[e.Kind]++
	}
	var more bytes.Buffer
	lines := json.NewEncoder(&more)
	lines.SetEscapeHTML(false)
	for _, e := range added {
		if e.Kind == githost.EventPushed && slices.ContainsFunc(present, func(p githost.Event) bool {
			return p.Kind == e.Kind && p.By == e.By && p.Branch == e.Branch
		}) {
			continue
		}
		if count[e.Kind]++; count[e.Kind] > githost.MaxEvents {
			return nil, githost.ErrFull
		}
		if err := lines.Encode(e); err != nil {
			return nil, err
		}
	}
	return more.Bytes(), nil
}

// change runs git to its end, even if nobody waits for it any more: it must not be ended
// while it holds the lock of a ref. What it wrote, and these refs, are durable then. The
// caller has the repository's turn.
func (r *repository) change(ctx context.Context, stdin io.Reader, refs []string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiveTimeout)
	defer cancel()
	cmd := r.git.command(ctx, r.dir, args...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = stdin, &stderr
	err := r.git.run(cmd)
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && !ended.Exited() {
		r.killed.Store(true)
	}
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, abbreviate(strings.TrimSpace(stderr.String())))
	}
	return r.syncNames("*", refs...)
}

// recorded tells whether an update by a role is recorded: a person's of a change branch.
func recorded(role access.Role, c command) bool {
	person := role == access.Owner || role == access.Member
	return person && strings.HasPrefix(c.Ref, changesPrefix) && !c.remove()
}

// recordPushes records, before a push is taken, who proposes a change by it: nobody
// approves what they have pushed themselves. The error is a *ruling where a commit has too many
// events, and a *noRoom where they do not fit.
func (h *Host) recordPushes(ctx context.Context, repo *repository, caller access.Caller, req *pushRequest) error {
	now := h.now().UTC().Truncate(time.Second)
	pushed := map[string][]githost.Event{}
	var last string
	for _, c := range req.Commands {
		if recorded(caller.Role, c) {
			last = c.Ref
			head, branch := c.New.String(), strings.TrimPrefix(c.Ref, contract.HeadsPrefix)
			pushed[head] = append(pushed[head], githost.Event{Kind: githost.EventPushed, By: caller.Name, At: now, Branch: branch})
		}
	}
	if len(pushed) == 0 {
		return nil
	}
	err := h.addEvents(ctx, repo, caller.Role, pushed)
	if no := (*noRoom)(nil); !errors.As(err, &no) && errors.Is(err, githost.ErrFull) {
		return &ruling{last, fmt.Sprintf("its last commit was pushed more than %d times already: add a commit", githost.MaxEvents)}
	}
	return err
}
