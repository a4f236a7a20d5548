package events

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

const mainRef, statusRef = "refs/heads/main", "refs/heads/status"

// door lets the password "good" in until it is shut.
type door struct {
	shut atomic.Bool
	// role is that of who is let in.
	role access.Role
}

func (d *door) Authenticate(r *http.Request, cluster string) (access.Caller, error) {
	if _, password, _ := r.BasicAuth(); password != "good" || cluster != "c" || d.shut.Load() {
		return access.Caller{}, refusal.New(refusal.Unauthenticated, "no")
	}
	return access.Caller{Role: d.role, Cluster: cluster}, nil
}

type fixture struct {
	hub  *Hub
	door *door
	url  string
	// pushed are the branches of which agents told.
	pushed []restapi.RefEvent
}

func start(t *testing.T, heads Heads) *fixture {
	t.Helper()
	f := &fixture{hub: NewHub(), door: &door{role: access.Konnector}}
	if heads == nil {
		heads = func(context.Context, string) ([]restapi.RefEvent, error) {
			return []restapi.RefEvent{{Ref: mainRef, Hash: "m0"}, {Ref: statusRef, Hash: "s0"}}, nil
		}
	}
	mux := http.NewServeMux()
	(&Handler{Hub: f.hub, Heads: heads, Authenticator: f.door, Log: slog.New(slog.DiscardHandler), KeepAlive: 20 * time.Millisecond, Pushed: func(cluster string, e restapi.RefEvent) {
		f.pushed = append(f.pushed, e)
		f.hub.PublishHint(cluster, e)
	}}).Mount(mux)
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

// A branch that was rejected is where it was, and the person who proposed it is to hear of that.
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
	want := []event{{RefEvent: restapi.RefEvent{Ref: mainRef, Hash: "last"}}, {RefEvent: restapi.RefEvent{Ref: statusRef, Hash: "s"}}}
	if diff := cmp.Diff(want, slow.take(), cmp.AllowUnexported(event{})); diff != "" {
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

func TestTheLogSaysWhoseEventsWereRefused(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	h := &Handler{Authenticator: &door{}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	r := httptest.NewRequest(http.MethodGet, "/v1/events?cluster=c", nil)
	r.SetBasicAuth("konnector", "ended")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if got := log.String(); !strings.Contains(got, "status=401") || !strings.Contains(got, "cluster=c ") {
		t.Errorf("the log has %q", got)
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

// tell posts what an agent says it has pushed.
func (f *fixture) tell(t *testing.T, password, body string) (status int) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v1/events?cluster=c", strings.NewReader(body))
	r.SetBasicAuth("konnector", password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func pushed(ref, hash string) string {
	return fmt.Sprintf(`{"refs":[{"ref":%q,"hash":%q}]}`, ref, hash)
}

// What an agent says is passed on at once, and does not stand for what was found out.
func TestWhatAnAgentPushedIsToldAndToldAgainWhenItIsThere(t *testing.T) {
	f := start(t, nil)
	l := f.listen(t)
	l.next()
	l.next()
	head := strings.Repeat("a1", 20)
	if status := f.tell(t, "good", pushed(mainRef, head)); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	got := []string{l.next()}
	f.hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: head})
	got = append(got, l.next())
	// Now it is known, and said once more by nobody.
	f.tell(t, "good", pushed(mainRef, head))
	f.hub.Publish("c", restapi.RefEvent{Ref: statusRef, Hash: "s1"})
	got = append(got, l.next())
	if diff := cmp.Diff([]string{mainRef + "=" + head, mainRef + "=" + head, statusRef + "=s1"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOnlyAgentsTellAndOnlyOfBranches(t *testing.T) {
	head := strings.Repeat("a1", 20)
	long := contract.Key{Binding: strings.Repeat("b", 60) + ".example.org", Namespace: strings.Repeat("n", 63), Name: strings.Repeat("c", 200)}
	many := restapi.Pushed{Refs: make([]restapi.RefEvent, restapi.MaxPushedRefs+1)}
	for i := range many.Refs {
		many.Refs[i] = restapi.RefEvent{Ref: mainRef, Hash: head}
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		role           access.Role
		password, body string
		want           int
	}{
		"the konnector":         {access.Konnector, "good", pushed("refs/heads/changes/team-a/orders-1.2", head), http.StatusNoContent},
		"the bridge":            {access.Bridge, "good", pushed(statusRef, head), http.StatusNoContent},
		"of a name with .lock":  {access.Konnector, "good", pushed("refs/heads/changes/a/b/c%2Elock", head), http.StatusNoContent},
		"of long names":         {access.Konnector, "good", pushed("refs/heads/"+contract.ChangeBranch(long), head), http.StatusNoContent},
		"of a removed branch":   {access.Konnector, "good", pushed(mainRef, ""), http.StatusNoContent},
		"its owner":             {access.Owner, "good", pushed(mainRef, head), http.StatusForbidden},
		"a member":              {access.Member, "good", pushed(mainRef, head), http.StatusForbidden},
		"a stranger":            {access.Konnector, "bad", pushed(mainRef, head), http.StatusUnauthorized},
		"no JSON":               {access.Konnector, "good", "refs", http.StatusBadRequest},
		"too much":              {access.Konnector, "good", pushed(mainRef, strings.Repeat("a", maxPushed)), http.StatusBadRequest},
		"too many branches":     {access.Konnector, "good", string(tooMany), http.StatusBadRequest},
		"a tag":                 {access.Konnector, "good", pushed("refs/tags/v1", head), http.StatusBadRequest},
		"no hash":               {access.Konnector, "good", pushed(mainRef, "main"), http.StatusBadRequest},
		"another line's event":  {access.Konnector, "good", pushed("refs/heads/a\ndata: x", head), http.StatusBadRequest},
		"a name of all letters": {access.Konnector, "good", pushed("refs/heads/ä", head), http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.door.role = c.role
			if got := f.tell(t, c.password, c.body); got != c.want || (len(f.pushed) == 1) != (c.want == http.StatusNoContent) {
				t.Errorf("status %d, want %d; told %v", got, c.want, f.pushed)
			}
		})
	}
}

func TestNobodyTellsWhereTheRepositoriesAre(t *testing.T) {
	mux := http.NewServeMux()
	(&Handler{Hub: NewHub(), Authenticator: &door{}, Log: slog.New(slog.DiscardHandler)}).Mount(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/events?cluster=c", strings.NewReader("{}")))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d", w.Code)
	}
}

// Who is told of an old head by an agent while a newer one waits would look at what it knows.
func TestAHintDoesNotStandForWhatWasFoundOut(t *testing.T) {
	hub := NewHub()
	slow, _ := hub.subscribe("c", true)
	hub.Publish("c", restapi.RefEvent{Ref: mainRef, Hash: "newer"})
	hub.PublishHint("c", restapi.RefEvent{Ref: mainRef, Hash: "older"})
	var got []string
	for _, e := range slow.take() {
		got = append(got, e.Hash)
	}
	if !slices.Contains(got, "newer") {
		t.Errorf("told of %v", got)
	}
}
