package measure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/bench/stage"
	"gitbind.dev/test/env"
)

// What a change passes through logs each request: two API servers and the Git host.
const (
	atApp     = "app cluster"
	atControl = "control plane"
	atHost    = "Git host"
)

// request is one that was logged. At an API server, what is its verb and name the object;
// at the host, what is the service and name is "".
type request struct {
	at, by, what, name string
	begins, ends       time.Time
}

// hop is a request that a change passes on its way.
type hop struct {
	what string
	is   func(r request, claim string) bool
}

// of is a request for the claim at an API server, with one of some verbs.
func of(at, by string, verbs ...string) func(request, string) bool {
	return func(r request, claim string) bool {
		return r.at == at && r.name == claim && strings.Contains(r.by, by) && slices.Contains(verbs, r.what)
	}
}

func atTheHost(by, service string) func(request, string) bool {
	return func(r request, _ string) bool {
		return r.at == atHost && strings.HasPrefix(r.by, by) && r.what == service
	}
}

const (
	konnectorAccount = "gitbind-system:konnector"
	bridgeAccount    = "gitbind-system:gitbind-gitbridge"
)

// up is the way of what a person writes to the control plane, after the person's own
// request; down that of a status, after the data service's own.
var (
	up = []hop{
		{"konnector pushes to main", atTheHost("konnector", "git-receive-pack")},
		{"bridge fetches main", atTheHost("bridge", "git-upload-pack")},
		{"bridge applies the claim", of(atControl, bridgeAccount, "patch")},
	}
	down = []hop{
		{"bridge pushes to status", atTheHost("bridge", "git-receive-pack")},
		{"konnector fetches status", atTheHost("konnector", "git-upload-pack")},
		{"konnector writes the status", of(atApp, konnectorAccount, "patch/status", "update/status")},
	}
)

// tracedChange is one change, from its sender's view.
type tracedChange struct {
	claim      string
	began, end time.Time
}

// trace tells where the time of single changes goes, by what API servers and host have
// logged. It needs a stage with Trace.
func (r *run) trace(ctx context.Context) error {
	n := 100
	if r.Quick {
		n = 20
	}
	ways := []struct {
		name   string
		sender string
		first  func(request, string) bool
		hops   []hop
		send   func(context.Context, *way, int) error
		all    []tracedChange
		eyes   *stage.Eyes
		seen   func(stage.Sight) time.Time
	}{
		{name: "an apply, to the claim on the control plane", sender: "person's request", first: of(atApp, "admin", "create"), hops: up, send: r.apply,
			eyes: r.SeenControl, seen: func(s stage.Sight) time.Time { return s.First }},
		{name: "an edit, to the changed claim", sender: "person's request", first: of(atApp, "admin", "patch"), hops: up, send: r.edit,
			eyes: r.SeenControl, seen: func(s stage.Sight) time.Time { return s.Changed }},
		{name: "a status, to the object in the app cluster", sender: "data service's request", first: of(atControl, "admin", "patch/status"), hops: down, send: r.status,
			eyes: r.SeenApp, seen: func(s stage.Sight) time.Time { return s.Reported }},
	}
	w := &way{resource: stage.Subject, names: r.newNames("t", n)}
	for i := range ways {
		if err := r.Quiet(ctx, still); err != nil {
			return err
		}
		for k, claim := range w.names {
			began := time.Now()
			if err := ways[i].send(ctx, w, k); err != nil {
				return err
			}
			s, err := ways[i].eyes.Until(ctx, w.resource, claim, stage.There)
			if err != nil {
				return err
			}
			ways[i].all = append(ways[i].all, tracedChange{claim, began, ways[i].seen(s)})
		}
	}
	// The logs are written some time later.
	if err := r.Quiet(ctx, 3*time.Second); err != nil {
		return err
	}
	requests, err := r.logged()
	if err != nil {
		return err
	}
	for _, way := range ways {
		t := figure.Trace{Name: way.name, Size: r.size}
		hops := slices.Concat([]hop{{way.sender, way.first}}, way.hops)
		for _, c := range way.all {
			if !add(&t, hops, requests, c) {
				t.Left++
			}
		}
		r.report.Traces = append(r.report.Traces, t)
		r.say("%s", t)
	}
	return nil
}

// add finds the requests of one change, each the first of its kind that began after the one
// before did, and reports whether all were found.
func add(t *figure.Trace, hops []hop, requests []request, c tracedChange) bool {
	var found []request
	after := c.began
	for _, h := range hops {
		i := slices.IndexFunc(requests, func(r request) bool {
			return !r.begins.Before(after) && r.begins.Before(c.end) && h.is(r, c.claim)
		})
		if i < 0 {
			return false
		}
		found = append(found, requests[i])
		after = requests[i].begins
	}
	for i, f := range found {
		t.Add(i, hops[i].what, f.begins.Sub(c.began), f.ends.Sub(c.began))
	}
	t.Add(len(found), "a watch sees it", c.end.Sub(c.began), c.end.Sub(c.began))
	return true
}

// logged are all requests by when they began.
func (r *run) logged() ([]request, error) {
	var all []request
	for name, at := range map[string]string{env.App: atApp, env.Control: atControl} {
		events, err := r.Cluster(name).Audited()
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e.ObjectRef != nil && e.ObjectRef.Resource == stage.Subject.Resource {
				all = append(all, audited(at, e))
			}
		}
	}
	data, err := os.ReadFile(r.Backend.LogPath)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Msg, By, Service, Took string
			Began                  time.Time
		}
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Msg != "Request" {
			continue
		}
		took, err := time.ParseDuration(l.Took)
		if err != nil {
			return nil, fmt.Errorf("read the backend's log: %w", err)
		}
		all = append(all, request{at: atHost, by: l.By, what: l.Service, begins: l.Began, ends: l.Began.Add(took)})
	}
	slices.SortFunc(all, func(a, b request) int { return a.begins.Compare(b.begins) })
	return all, lines.Err()
}

func audited(at string, e auditv1.Event) request {
	q := request{at: at, by: e.User.Username, what: e.Verb, name: e.ObjectRef.Name, begins: e.RequestReceivedTimestamp.Time, ends: e.StageTimestamp.Time}
	if e.ObjectRef.Subresource != "" {
		q.what += "/" + e.ObjectRef.Subresource
	}
	return q
}
