package ui

import (
	"cmp"
	"context"
	"errors"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
)

// maxAnswers is how many of the bridge's last answers a line of time is made of.
const maxAnswers = 30

// travel is what Git says of the way of a claim's newest version.
type travel struct {
	// written is the commit that somebody made; arrived is when main had it, which is
	// another one for a merge.
	written githost.Commit
	arrived githost.Version
	// answers are those to this version, the oldest first. Earlier says that there
	// may be more before them.
	answers []answered
	earlier bool
}

// answered is one answer of the bridge.
type answered struct {
	commit string
	when   time.Time
	*answer
}

// travelled asks Git for the way of a claim's version: blob is that on main and said
// that of the answer on status, each "" for none. While both stay the same so does the
// way, and Git is not asked again.
func (h *handler) travelled(ctx context.Context, cluster string, k contract.Key, blob, said string) (*travel, error) {
	key := cluster + " " + k.Path() + " " + blob + " " + said
	if known, ok := h.travels.Get(key); ok {
		return known.(*travel), nil
	}
	t := &travel{}
	arrived, err := h.Git.Versions(ctx, cluster, "main", k.Path(), 1)
	if err != nil && !errors.Is(err, githost.ErrNotFound) {
		return nil, gitTrouble(err)
	}
	written, err := h.Git.Log(ctx, cluster, k.Path(), 1)
	if err != nil && !errors.Is(err, githost.ErrNotFound) {
		return nil, gitTrouble(err)
	}
	if len(arrived) == 0 || len(written) == 0 || arrived[0].Blob != blob {
		// Main went on since the file was read: there is a newer way the next time.
		return nil, nil
	}
	t.arrived, t.written = arrived[0], written[0]
	t.written.Diff, t.written.With = nil, nil // a line of time has none of it, and is kept
	if err := h.readAnswers(ctx, cluster, k, blob, t); err != nil {
		return nil, err
	}
	if said == "" || len(t.answers) == 0 || t.answers[len(t.answers)-1].said == said {
		h.travels.Add(key, t)
	}
	return t, nil
}

// readAnswers fills in the answers to one version.
func (h *handler) readAnswers(ctx context.Context, cluster string, k contract.Key, blob string, t *travel) error {
	versions, err := h.Git.Versions(ctx, cluster, "status", k.Path(), maxAnswers)
	if errors.Is(err, githost.ErrNotFound) {
		return nil
	}
	if err != nil {
		return gitTrouble(err)
	}
	var blobs []string
	for _, v := range versions {
		if v.Blob == "" {
			break
		}
		blobs = append(blobs, v.Blob)
	}
	var all []*answer
	if err := h.Git.Blobs(ctx, cluster, blobs, func(said string, data []byte) error {
		a := digest(data)
		a.said = said
		all = append(all, a)
		return ctx.Err()
	}); err != nil {
		return gitTrouble(err)
	}
	for i, a := range all {
		if a.broken || a.blob != blob || blob == "" && a.result != contract.Deleting && a.result != contract.Gone && a.result != contract.Held {
			return nil
		}
		t.answers = append([]answered{{versions[i].Commit, versions[i].When, a}}, t.answers...)
		// What a history begins with, after a cut, may be older than that.
		t.earlier = versions[i].First || i == maxAnswers-1
	}
	return nil
}

// step is one on the line of time of a change.
type step struct {
	Tone  Tone
	Title string
	// Text is in somebody else's words.
	Text string
	// Commit is its short hash; "" for none.
	Commit string
	// When is the time for machines and in the title, Clock for people; "" for a step
	// of which it is not known.
	When, Clock string
	// After is the time since the step before, or for how long one waits.
	After string
	// Now says that the change is here.
	Now bool
}

// line makes a line of time.
type line struct {
	cluster string
	now     time.Time
	steps   []step
	last    time.Time
}

func (l *line) add(s step, at time.Time) {
	if !at.IsZero() {
		s.When, s.Clock = at.UTC().Format(time.RFC3339), clock(at, l.now)
		if !l.last.IsZero() {
			// Three clocks have a part in it: one that is wrong must not make up a time.
			s.After = between(at.Sub(l.last))
		}
		l.last = at
	}
	l.steps = append(l.steps, s)
}

// waits ends a line with where the change is now, and since when.
func (l *line) waits(tone Tone, title, text string) {
	l.steps = append(l.steps, step{Tone: tone, Title: title, Text: text, After: between(l.now.Sub(l.last)), Now: true})
}

// timeline says how a claim's newest version came where it is.
func (t *travel) timeline(cluster, blob string, now time.Time) []step {
	l := &line{cluster: cluster, now: now}
	l.committed(t, blob)
	switch {
	case len(t.answers) == 0:
		l.waits(Busy, "Waits for the control plane", "It has not answered this version yet.")
	case blob == "":
		l.removed(t)
	default:
		l.answered(t)
	}
	return l.steps
}

// committed has the steps up to main.
func (l *line) committed(t *travel, blob string) {
	name, about := author(t.written.Author, t.written.Email, l.cluster)
	did := " changed it "
	if blob == "" {
		did = " removed it "
	}
	if t.written.Hash == t.arrived.Commit {
		l.add(step{Tone: Good, Title: name + did + about, Text: short(t.written.Subject, 200), Commit: shortHash(t.arrived.Commit)}, t.arrived.When)
		return
	}
	l.add(step{Tone: Good, Title: name + did + about, Text: short(t.written.Subject, 200), Commit: shortHash(t.written.Hash)}, t.written.When)
	merger, _ := author(t.arrived.Author, t.arrived.Email, l.cluster)
	l.add(step{Tone: Good, Title: merger + " merged it", Commit: shortHash(t.arrived.Commit)}, t.arrived.When)
}

// removed has what became of a removal.
func (l *line) removed(t *travel) {
	first, last := t.answers[0], t.answers[len(t.answers)-1]
	switch last.result {
	case contract.Held:
		l.waits(Warn, "Waits for a decision", last.message)
	case contract.Deleting:
		l.add(step{Tone: Good, Title: "Deletion began on the control plane", Commit: shortHash(first.commit)}, t.time(first))
		l.waits(Busy, "Waits for the service to be gone", last.waiting)
	default:
		if first.result == contract.Deleting {
			l.add(step{Tone: Good, Title: "Deletion began on the control plane", Commit: shortHash(first.commit)}, t.time(first))
		}
		gone := t.answers[firstOf(t.answers, func(a *answer) bool { return a.result == contract.Gone })]
		l.add(step{Tone: Good, Title: "The service is gone", Commit: shortHash(gone.commit)}, t.time(gone))
	}
}

// answered has the steps after main.
func (l *line) answered(t *travel) {
	last := t.answers[len(t.answers)-1]
	applied := firstOf(t.answers, func(a *answer) bool { return a.result == contract.Applied })
	ready := firstOf(t.answers, func(a *answer) bool { return a.result == contract.Applied && a.ready == "True" })
	if applied >= 0 {
		a, s := t.answers[applied], step{Tone: Good, Title: "Applied on the control plane", Commit: shortHash(t.answers[applied].commit)}
		at := t.time(a)
		if applied == ready && a.since.After(t.arrived.When) {
			// One answer said both: when it was applied is not known by itself.
			at, s.Commit = time.Time{}, ""
		}
		l.add(s, at)
	}
	if ready >= 0 {
		l.ready(t, t.answers[ready], applied == ready)
	}
	state := judgeAnswered(last.answer)
	switch {
	case last.result != contract.Applied:
		l.waits(state.Tone, state.Word, cmp.Or(last.message, state.Says))
	case last.ready != "" && last.ready != "True":
		title := "Waits for its provider"
		if ready >= 0 {
			title = "Is not ready any more, and waits for its provider"
		}
		l.waits(Busy, title, last.waiting)
	case state.Tone == Warn:
		l.waits(state.Tone, state.Word, cmp.Or(last.message, state.Says))
	}
}

// ready has the provider's word and its way back. both says that the answer was the
// first one, too.
func (l *line) ready(t *travel, a answered, both bool) {
	if a.since.IsZero() || !a.since.After(t.arrived.When) {
		l.add(step{Tone: Good, Title: "Ready, as it was before"}, time.Time{})
		if both {
			return
		}
	} else {
		l.add(step{Tone: Good, Title: "Ready, as its provider says"}, a.since)
	}
	l.add(step{Tone: Good, Title: "Its status is back in Git", Commit: shortHash(a.commit)}, t.time(a))
}

// took is from main to the status with which the change was done, "" before that and
// where it is not known.
func (t *travel) took() string {
	done := firstOf(t.answers, func(a *answer) bool {
		return a.result == contract.Gone || a.result == contract.Applied && (a.ready == "" || a.ready == "True")
	})
	if done < 0 || t.time(t.answers[done]).IsZero() {
		return ""
	}
	return between(t.answers[done].when.Sub(t.arrived.When))
}

// time is when an answer was given, zero where that is not known.
func (t *travel) time(a answered) time.Time {
	if t.earlier && a.commit == t.answers[0].commit {
		return time.Time{}
	}
	return a.when
}

func firstOf(all []answered, is func(*answer) bool) int {
	for i, a := range all {
		if is(a.answer) {
			return i
		}
	}
	return -1
}

func shortHash(hash string) string { return hash[:min(10, len(hash))] }
