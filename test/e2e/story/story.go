// Package story tells gitbind's main job step by step while it happens, on a
// platform of real parts: somebody connects a cluster, orders a database and its
// credentials with kubectl, works with it by psql, changes it with Git, loses a table and
// has it restored, and deletes it. PostgreSQL's own answers say whether it is so. `make
// demo` prints it; the end-to-end test is the same story.
package story

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/scan"
)

// stepDeadline is far above what any step takes: a step that reaches it hangs.
const stepDeadline = 3 * time.Minute

// Story is told on a platform with PostgreSQL, to Out.
type Story struct {
	Platform *platform.Platform
	Out      io.Writer
	// Began is when the first command was given; when the story begins, if it is zero.
	Began time.Time
	// Scan looks for passwords; one of the story's own, if it is nil.
	Scan *scan.Scan

	clone     string // the person's clone of the repository
	developer string // kubeconfig of dora, an ordinary user of the app cluster
	there     string // the namespace of the claims on the control plane
	figures   []figure

	app, control *platform.Watch // of instances
	// Of the app cluster.
	secrets, backups, restores *platform.Watch
}

type figure struct {
	name string
	took time.Duration
}

// step is one sentence of the story, and what makes it true.
type step struct {
	title string
	do    func(context.Context) error
}

func (s *Story) steps() []step {
	return []step{
		{"Alice signs in with OIDC and connects the app cluster", s.connect},
		{"Alice binds what is on offer: PostgreSQL, credentials, backups, restores", s.bind},
		{"Dora, a developer, orders a database and credentials with kubectl apply", s.order},
		{"It is a commit by Dora on main", s.showCommit},
		{"A PostgreSQL server runs; the status comes back through Git", s.becomesReady},
		{"The credentials arrive as a Secret, encrypted on their way; psql inserts rows", s.insertRows},
		{"Dora changes the plan with kubectl apply", s.changeByKubectl},
		{"Alice gives it another plan with Git, with standbys: clone, edit, push", s.changeByGit},
		{"Dora orders a backup, drops the table, and has it restored", s.restore},
		{"The password is replaced on the control plane, and the Secret follows", s.rotate},
		{"A broken file on main is refused by name, and stops nothing else", s.breakFile},
		{"Dora deletes database and credentials; they are gone on all sides", s.delete},
		{"The history reads well, the repository is sound, and no password is anywhere", s.inspect},
	}
}

// Tell tells the whole story and returns at the first step that fails.
func (s *Story) Tell(ctx context.Context) error {
	if s.Began.IsZero() {
		s.Began = time.Now()
	}
	if s.Scan == nil {
		s.Scan = scan.New()
	}
	steps := s.steps()
	for i, step := range steps {
		fmt.Fprintf(s.Out, "\n%d/%d  %s\n", i+1, len(steps), step.title)
		began := time.Now()
		if err := s.within(ctx, step.do); err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, step.title, err)
		}
		fmt.Fprintf(s.Out, "     done in %s\n", round(time.Since(began)))
	}
	s.printFigures()
	return nil
}

func (s *Story) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepDeadline, fmt.Errorf("not within %s", stepDeadline))
	defer cancel()
	return do(ctx)
}

func (s *Story) printFigures() {
	fmt.Fprintf(s.Out, "\nMeasured on the way:\n")
	for _, f := range s.figures {
		fmt.Fprintf(s.Out, "  %8s  %s\n", round(f.took), f.name)
	}
}

// measured notes how long something took.
func (s *Story) measured(name string, took time.Duration) {
	s.figures = append(s.figures, figure{name, took})
	s.say("%s: %s", name, round(took))
}

// say prints an indented line.
func (s *Story) say(format string, args ...any) {
	s.show(fmt.Sprintf(format, args...))
}

// show prints a text, indented.
func (s *Story) show(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(s.Out, "     %s\n", line)
	}
}

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
