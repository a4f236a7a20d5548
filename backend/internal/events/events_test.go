package events

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
)

const mainRef, statusRef = "refs/heads/main", "refs/heads/status"

// door lets the password "good" in until it is shut.
type door struct{ shut atomic.Bool }

func (d *door) Authenticate(r *http.Request, cluster string) (access.Caller, error) {
	if _, password, _ := r.BasicAuth(); password != "good" || cluster != "c" || d.shut.Load() {
		return access.Caller{}, refusal.New(refusal.Unauthenticated, "no")
	}
	return access.Caller{Role: access.Konnector, Cluster: cluster}, nil
}

type fixture struct {
	hub  *Hub
	door *door
	url  string
}

func start(t *testing.T, heads Heads) *fixture {
	t.Helper()
	f := &fixture{hub: NewHub(), door: &door{}}
	if heads == nil {
		heads = func(context.Context, string) ([]restapi.RefEvent, error) {
			return []restapi.RefEvent{{Ref: mainRef, Hash: "m0"}, {Ref: statusRef, Hash: "s0"}}, nil
		}
	}
	mux := http.NewServeMux()
	(&Handler{Hub: f.hub, Heads: heads, Authenticator: f.door, Log: slog.New(slog.DiscardHandler), KeepAlive: 20 * time.Millisecond}).Mount(mux)
	server := httptest.NewServer(mux)
	server.Config.RegisterOnShutdown(f.hub.Close)
	t.Cleanup(func() { f.hub.Close(); server.Close() })
	f.url = server.URL
	return f
}

// listener reads one stream.
type listener struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
}

func (f *fixture) listen(t *testing.T) *listener {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/v1/events?cluster=c", nil)
	r.SetBasicAuth("konnector", "good")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %s, content type %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	return &listener{t, resp, bufio.NewScanner(resp.Body)}
}

// next is the next event, whatever comments stand before it.
func (l *listener) next() string {
	l.t.Helper()
	for l.lines.Scan() {
		data, ok := strings.CutPrefix(l.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e restapi.RefEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			l.t.Fatal(err)
		}
		return e.Ref + "=" + e.Hash
	}
	return "end"
}

func TestASubscriberGetsThePresentHeadsAndThenEachMove(t *testing.T) {
	f := start(t, nil)
	l := f.listen(t)
	got := []string{l.next(), l.next()}
	f.hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: "m1"})
	got = append(got, l.next())
	f.hub.Publish("another", restapi.RefEvent{Ref: mainRef, Hash: "x"})
	f.hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: "m1"})
	f.hub.Publish("c", restapi.RefEvent{Ref: "refs/heads/changes/x", Hash: ""})
	got = append(got, l.next())
	want := []string{mainRef + "=m0", statusRef + "=s0", mainRef + "=m1", "refs/heads/changes/x="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A branch that was rejected is where it was, and whoever proposed it is to hear of that.
func TestAVerdictIsToldThoughTheBranchDidNotMove(t *testing.T) {
	f := start(t, nil)
	l := f.listen(t)
	l.next()
	l.next()
	const branch = "refs/heads/changes/x"
	f.hub.Publish("c", restapi.RefEvent{Ref: branch, Hash: "c1"})
	got := []string{l.next()}
	f.hub.Publish("c", restapi.RefEvent{Ref: branch, Hash: "c1", Reviewed: true})
	got = append(got, l.next())
	if diff := cmp.Diff([]string{branch + "=c1", branch + "=c1"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAMoveWhileTheHeadsAreReadIsNotLost(t *testing.T) {
	var f *fixture
	f = start(t, func(context.Context, string) ([]restapi.RefEvent, error) {
		f.hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: "m1"})
		return []restapi.RefEvent{{Ref: mainRef, Hash: "m0"}}, nil
	})
	l := f.listen(t)
	if got := []string{l.next(), l.next()}; got[1] != mainRef+"=m1" {
		t.Errorf("got %v", got)
	}
}

func TestASlowSubscriberHoldsNobodyUpAndGetsTheNewestOfEachBranch(t *testing.T) {
	hub := NewHub()
	slow, _ := hub.subscribe("c", true)
	for i := range 100_000 {
		hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: fmt.Sprint(i)})
	}
	hub.Publish("c", restapi.RefEvent{Ref: statusRef, Hash: "s"})
	hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: "last"})
	<-slow.wake
	want := []restapi.RefEvent{{Ref: mainRef, Hash: "last"}, {Ref: statusRef, Hash: "s"}}
	if diff := cmp.Diff(want, slow.take()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if again := slow.take(); len(again) != 0 {
		t.Errorf("told twice: %v", again)
	}
}

func TestASilentStreamShowsThatItLives(t *testing.T) {
	l := start(t, nil).listen(t)
	for l.lines.Scan() {
		if l.lines.Text() == ": keep-alive" {
			return
		}
	}
	t.Error("the stream ended")
}

func TestAListenerWhoseCredentialIsRevokedIsLetGo(t *testing.T) {
	f := start(t, nil)
	l := f.listen(t)
	l.next()
	l.next()
	f.door.shut.Store(true)
	if got := l.next(); got != "end" {
		t.Errorf("got %s", got)
	}
}

func TestNobodyListensWithoutACredential(t *testing.T) {
	f := start(t, nil)
	for _, url := range []string{f.url + "/v1/events?cluster=c", f.url + "/v1/events"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var e restapi.Error
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != http.StatusUnauthorized || e.Message != "no" {
			t.Errorf("%s: status %s, %+v, %v", url, resp.Status, e, err)
		}
	}
}

func TestTheEndOfTheProcessEndsTheStreams(t *testing.T) {
	f := start(t, nil)
	l := f.listen(t)
	l.next()
	l.next()
	f.hub.Close()
	if got := l.next(); got != "end" {
		t.Errorf("got %s", got)
	}
	if _, ok := f.hub.subscribe("c", true); ok {
		t.Error("subscribed to a closed hub")
	}
}

func TestListenersOfOneClusterAreBounded(t *testing.T) {
	hub := NewHub()
	var last *subscription
	for range maxSubscribers {
		last, _ = hub.subscribe("c", true)
	}
	if _, ok := hub.subscribe("c", true); ok {
		t.Error("one too many")
	}
	if _, ok := hub.subscribe("d", true); !ok {
		t.Error("another cluster's listeners count too")
	}
	hub.unsubscribe("c", last)
	if _, ok := hub.subscribe("c", true); !ok {
		t.Error("a place that was left is not free")
	}
}

func TestH4_PeoplesListenersLeavePlacesToTheAgents(t *testing.T) {
	hub := NewHub()
	for range maxSubscribers {
		hub.subscribe("c", false)
	}
	for i := range agentSubscribers {
		if _, ok := hub.subscribe("c", true); !ok {
			t.Fatalf("agent %d finds no place", i)
		}
	}
	if _, ok := hub.subscribe("c", true); ok {
		t.Error("one too many")
	}
}
