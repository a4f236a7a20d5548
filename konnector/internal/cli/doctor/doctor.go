// Package doctor looks at each link of the chain from a kubectl apply to the
// control plane and back, and says for each that does not hold what to do.
//
// It changes nothing. A link that does not hold hides none but those that hang on
// it, and these are said not to have been looked at.
package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// State of a link.
type State string

// The states.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
	// Skipped links hang on one that does not hold, or are not for this person to
	// see.
	Skipped State = "skipped"
)

// Finding is what was found of one link.
type Finding struct {
	State State  `json:"state"`
	Link  string `json:"link"`
	// About is the object that it is about, if there can be several.
	About   string `json:"about,omitempty"`
	Message string `json:"message"`
	// Do says what to do about it.
	Do string `json:"do,omitempty"`
}

func ok(format string, args ...any) Finding {
	return Finding{State: OK, Message: fmt.Sprintf(format, args...)}
}

func warn(do, format string, args ...any) Finding {
	return Finding{State: Warn, Do: do, Message: fmt.Sprintf(format, args...)}
}

func fail(do, format string, args ...any) Finding {
	return Finding{State: Fail, Do: do, Message: fmt.Sprintf(format, args...)}
}

// unread is what an error of the cluster says of a link that was to be read. What
// a person may not see is not broken for that.
func unread(what string, err error) Finding {
	if apierrors.IsForbidden(err) {
		return Finding{State: Skipped, Message: "not looked at: you may not see " + what}
	}
	return fail("", "look for %s: %v", what, err)
}

// link is one of the chain.
type link struct {
	name string
	// needs are the links before it that it hangs on.
	needs []string
	look  func(ctx context.Context) Finding
}

// linkTimeout is how long one link may take.
const linkTimeout = 15 * time.Second

// examine looks at links in order. before are what was found already.
func examine(ctx context.Context, about string, links []link, before map[string]State) []Finding {
	states := map[string]State{}
	for name, s := range before {
		states[name] = s
	}
	var out []Finding
	for _, l := range links {
		f := one(ctx, l, states)
		f.Link, f.About = l.name, about
		states[l.name] = f.State
		out = append(out, f)
	}
	return out
}

func one(ctx context.Context, l link, states map[string]State) Finding {
	for _, need := range l.needs {
		if s := states[need]; s == Fail || s == Skipped {
			return Finding{State: Skipped, Message: "not looked at: " + need + " comes first"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	return l.look(ctx)
}

// Input is what the person asked for.
type Input struct {
	command.Call
	// Open opens the cluster.
	Open   func() (*appcluster.Cluster, error)
	HTTP   *http.Client
	Format output.Format
}

// Do looks at all links and shows what it found. The error says that some do not
// hold.
func Do(ctx context.Context, in Input) error {
	stop := func() {}
	if in.Format == output.Table {
		stop = in.Terminal.Waiting("looking at each link")
	}
	found := in.examine(ctx)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := show(in.Terminal, in.Format, found); err != nil {
		return err
	}
	failed := 0
	for _, f := range found {
		if f.State == Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d links do not hold", failed, len(found))
	}
	return nil
}

// examine looks at the cluster, then at each connection and each binding.
func (in Input) examine(ctx context.Context) []Finding {
	patient := &patient{Input: in}
	found := examine(ctx, "", patient.clusterLinks(), nil)
	states := map[string]State{}
	for _, f := range found {
		states[f.Link] = f.State
	}
	for _, c := range patient.connections {
		connection := &connection{patient: patient, Connection: c}
		found = append(found, examine(ctx, "connection/"+c.Name, connection.links(), states)...)
	}
	for _, b := range patient.bindings {
		binding := &binding{patient: patient, APIServiceBinding: b}
		found = append(found, examine(ctx, "apiservicebinding/"+b.Name, binding.links(), states)...)
	}
	return found
}
