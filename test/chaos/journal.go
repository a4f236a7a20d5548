package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is what came of a write.
type Outcome string

// The outcomes. Unknown is a write that was sent and not answered: it may have
// happened, and may still.
const (
	Accepted Outcome = "accepted"
	Refused  Outcome = "refused"
	Unknown  Outcome = "unknown"
)

// Side is who writes.
type Side string

// The sides.
const (
	Cluster Side = "kubectl"
	Git     Side = "git"
	Control Side = "control plane"
	Review  Side = "review"
)

// Op is what a write does.
type Op string

// The operations. A Release is a decision to let the object of a held claim go, and to have
// another one made from its file; a Rotate gives its Secret another value. An Approve and a
// Reject are of the head of a proposed change. A Look finds out what became of a claim when
// the app cluster was restored.
const (
	Create  Op = "create"
	Edit    Op = "edit"
	Delete  Op = "delete"
	Status  Op = "status"
	Release Op = "release"
	Rotate  Op = "rotate"
	Approve Op = "approve"
	Reject  Op = "reject"
	Look    Op = "look"
)

// Entry is one write of the load.
type Entry struct {
	Sent, Done time.Time
	Side       Side
	Op         Op
	Claim      string
	// Life counts how often the claim was created.
	Life int
	// Field and Value are what was written; "" removes the field.
	Field, Value string
	Outcome      Outcome
	Note         string
}

// Journal is what happened, in the order in which it ended.
type Journal struct {
	began time.Time

	mu      sync.Mutex
	entries []Entry
	events  []event
	// given are what people gave up.
	given []Violation
}

type event struct {
	at   time.Time
	text string
}

func (j *Journal) write(e Entry) {
	e.Done = time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
}

// note keeps what is no write of the load: faults, restarts.
func (j *Journal) note(format string, args ...any) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := event{time.Now(), fmt.Sprintf(format, args...)}
	j.events = append(j.events, e)
	return fmt.Sprintf("%8.3fs %s", e.at.Sub(j.began).Seconds(), e.text)
}

// giveUp notes what did not work for a person until the end: something hangs.
func (j *Journal) giveUp(claim, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.given = append(j.given, Violation{claim, fmt.Sprintf(format, args...)})
}

func (j *Journal) givenUp() []Violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.given)
}

func (j *Journal) all() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries)
}

// Timeline is all that was done to a claim, or to all of them for "", and what
// happened besides.
func (j *Journal) Timeline(claim string) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	j.mu.Lock()
	for _, e := range j.entries {
		if claim != "" && e.Claim != claim {
			continue
		}
		text := fmt.Sprintf("%s %s life %d", e.Side, e.Op, e.Life)
		if claim == "" {
			text = e.Claim + ": " + text
		}
		if e.Field != "" {
			text += fmt.Sprintf(" %s=%q", e.Field, e.Value)
		}
		text += fmt.Sprintf(" %s after %s %s", e.Outcome, e.Done.Sub(e.Sent).Round(time.Millisecond), e.Note)
		lines = append(lines, line{e.Sent, text})
	}
	for _, e := range j.events {
		lines = append(lines, line{e.at, "    " + e.text})
	}
	j.mu.Unlock()
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "  %8.3fs %s\n", l.at.Sub(j.began).Seconds(), l.text)
	}
	return b.String()
}

// counts are how many writes had which outcome, by side and operation.
func (j *Journal) counts() string {
	n := map[string]int{}
	for _, e := range j.all() {
		n[fmt.Sprintf("%s %s %s", e.Side, e.Op, e.Outcome)]++
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d %s", n[k], k))
	}
	return strings.Join(out, ", ")
}
