// Package story tells gitbind's main job step by step while it happens, on a
// platform of real parts: somebody connects a cluster, orders a database with
// kubectl, changes it with Git, and deletes it. `make demo` prints it; the
// end-to-end test is the same story.
package story

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// stepDeadline is far above what any step takes: a step that reaches it hangs.
const stepDeadline = 3 * time.Minute

// Story is told on a platform, to Out.
type Story struct {
	Platform *platform.Platform
	Out      io.Writer

	clone     string // the person's clone of the repository
	developer string // kubeconfig of dora, an ordinary user of the app cluster
	app       *platform.Watch
	control   *platform.Watch
	figures   []figure
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
		{"Alice binds the offer \"postgresql\"", s.bind},
		{"Dora, a developer, orders a database with kubectl apply", s.order},
		{"It is a commit by Dora on main", s.showCommit},
		{"Crossplane delivers; the status comes back through Git", s.becomesReady},
		{"Dora changes the plan with kubectl apply", s.changeByKubectl},
		{"Alice changes it with Git: clone, edit, push", s.changeByGit},
		{"A broken file on main is refused by name, and stops nothing else", s.breakFile},
		{"Dora deletes the database; it is gone on all three sides", s.delete},
		{"The history reads well, and the repository is sound", s.inspect},
	}
}

// Tell tells the whole story and returns at the first step that fails.
func (s *Story) Tell(ctx context.Context) error {
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

// WhatToTry prints how to go on by hand.
func (s *Story) WhatToTry(ctx context.Context) error {
	p := s.Platform
	url, err := p.CloneURL(ctx, env.App)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, `
Everything stays up until Ctrl-C. To try it, in another terminal:

  export PATH=%[1]s:$PATH XDG_CONFIG_HOME=%[2]s/.config
  export KUBECONFIG=%[3]s                  # Dora in the app cluster
  kubectl apply -f %[4]s/docs/examples/postgresql.yaml
  kubectl get postgresqlinstances -A
  kubectl gitbind get --kubeconfig %[5]s   # claims, and files that were refused
  git clone -c credential.helper='!kubectl-gitbind git-credential' %[6]s

  app cluster, administrator    %[5]s
  control plane, administrator  %[7]s
  web page, and backend         %[8]s
  OIDC (%[9]s / %[10]s)  %[11]s
  logs                          %[12]s/logs
`, p.Bin, p.Home(env.Alice), s.developer, platform.Root(), p.App(), url, p.Control(), p.BackendURL,
		env.Alice, env.AlicePassword, p.Dex.Issuer, p.Dir)
	return nil
}
