package figure

import (
	"fmt"
	"strings"
	"time"
)

// Trace is where the time of one kind of change goes: the steps on its way, in their order.
type Trace struct {
	Name string
	// Size is how many claims there were.
	Size  int
	Steps []Step
	// Left is how many changes were left out, as not all of their steps were found.
	Left int
}

// Step is one request on the way. Begins and Ends are milliseconds since the change was sent.
type Step struct {
	What         string
	Begins, Ends Samples
}

// Add adds what was seen of the i-th step of one more change.
func (t *Trace) Add(i int, what string, begins, ends time.Duration) {
	if i == len(t.Steps) {
		t.Steps = append(t.Steps, Step{What: what})
	}
	t.Steps[i].Begins.Milliseconds(begins)
	t.Steps[i].Ends.Milliseconds(ends)
}

// String is a table in Markdown.
func (t Trace) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | begins | ends |\n|---|---:|---:|\n", t.Name)
	for _, s := range t.Steps {
		fmt.Fprintf(&b, "| %s | %.1f ms | %.1f ms |\n", s.What, s.Begins.At(0.5), s.Ends.At(0.5))
	}
	if t.Left > 0 {
		fmt.Fprintf(&b, "\n%d changes are left out: not each of their requests was found.\n", t.Left)
	}
	return b.String()
}
