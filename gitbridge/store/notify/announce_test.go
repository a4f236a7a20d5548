package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/api/restapi"
)

// told is a backend that is told of pushes, and answers as it is told to.
type told struct {
	url    string
	bodies chan restapi.Pushed
	answer atomic.Int64
	// hold, if not nil, is read from before an answer is given.
	hold chan struct{}
}

func newTold(t *testing.T) *told {
	b := &told{bodies: make(chan restapi.Pushed, 100)}
	b.answer.Store(http.StatusNoContent)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		user, password, _ := r.BasicAuth()
		var in restapi.Pushed
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/events" || r.URL.Query().Get("cluster") != "k3x" || user != "bridge" || password != "secret" {
			t.Errorf("request %s by %s: %v", r.URL, user, err)
		}
		b.bodies <- in
		if b.hold != nil {
			<-b.hold
		}
		w.WriteHeader(int(b.answer.Load()))
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b.url = server.URL
	return b
}

func (b *told) listen(t *testing.T) (a *Announcements, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	a = AnnouncementsFor(b.url, "https://git.example.org/k3x.git")
	listen(t, Options{URL: b.url, ClusterID: "k3x", Announcements: a, Credentials: func(context.Context) (string, string, error) {
		asked.Add(1)
		return "bridge", "secret", nil
	}})
	return a, asked
}

func (b *told) next(t *testing.T, want ...restapi.RefEvent) {
	t.Helper()
	if diff := cmp.Diff(restapi.Pushed{Refs: want}, <-b.bodies); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPushesElsewhereAreAnnouncedAndThoseThatWaitTogether(t *testing.T) {
	b := newTold(t)
	b.hold = make(chan struct{})
	a, asked := b.listen(t)
	a.Add("main", "m1")
	b.next(t, restapi.RefEvent{Ref: "refs/heads/main", Hash: "m1"})
	a.Add("main", "m2")
	a.Add("status", "s1")
	a.Add("main", "m3")
	b.hold <- struct{}{}
	b.next(t, restapi.RefEvent{Ref: "refs/heads/main", Hash: "m3"}, restapi.RefEvent{Ref: "refs/heads/status", Hash: "s1"})
	close(b.hold)
	// One for the stream, one for all announcements.
	if n := asked.Load(); n > 2 {
		t.Errorf("the credential was asked for %d times", n)
	}
}

func TestWhatTheBackendRefusesIsLeftOutAndTheNextIsTold(t *testing.T) {
	b := newTold(t)
	b.answer.Store(http.StatusUnauthorized)
	a, asked := b.listen(t)
	a.Add("main", "m1")
	b.next(t, restapi.RefEvent{Ref: "refs/heads/main", Hash: "m1"})
	before := asked.Load()
	a.Add("main", "m2")
	b.next(t, restapi.RefEvent{Ref: "refs/heads/main", Hash: "m2"})
	if asked.Load() <= before {
		t.Error("the credential that was refused was not asked for again")
	}
}

// A host that is in front of the backend answers 404 while that is started again.
func TestOnlyTheBackendsOwnAnswerSaysThatItTakesNoAnnouncements(t *testing.T) {
	for name, c := range map[string]struct {
		status            int
		contentType, body string
		want              bool
	}{
		"an older backend":           {404, "application/json", `{"message":"there is nothing at POST /v1/events"}`, true},
		"no cluster there":           {404, "application/json; charset=utf-8", `{"message":"no such cluster"}` + "\n", true},
		"a page":                     {404, "text/html", "<h1>404 Not Found</h1>", false},
		"a page with a backend's":    {404, "text/html", `{"message":"there is nothing"}`, false},
		"a word":                     {404, "text/plain", "default backend - 404", false},
		"nothing":                    {404, "", "", false},
		"another's words as JSON":    {404, "application/json", `{"error_msg":"404 Route Not Found"}`, false},
		"another's words and number": {404, "application/json", `{"message":"no Route matched","request_id":"1"}`, false},
		"no JSON":                    {404, "application/json", "<h1>", false},
		"a page that takes no POST":  {405, "text/html", "<h1>405 Not Allowed</h1>", false},
		"trouble":                    {503, "application/json", `{"message":"try again"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				w.WriteHeader(c.status)
				_, _ = fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			err := Options{URL: server.URL, ClusterID: "k3x", Client: server.Client()}.tell(t.Context(), nil)
			if err == nil || errors.Is(err, errNotAsked) != c.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestABackendThatTakesThePushesItselfIsToldNothing(t *testing.T) {
	for _, repository := range []string{"https://gitbind.example.org/git/k3x.git", "https://git.example.org/k3x.git"} {
		backend := "https://gitbind.example.org"
		if repository == "https://git.example.org/k3x.git" {
			backend = ""
		}
		a := AnnouncementsFor(backend, repository)
		if a.Add("main", "m1"); a != nil {
			t.Errorf("backend %q is told of pushes to %s", backend, repository)
		}
	}
}

// The backend takes as many at once, and refuses all where there are more.
func TestManyPushesAreAnnouncedInParts(t *testing.T) {
	b := newTold(t)
	b.hold = make(chan struct{})
	a, _ := b.listen(t)
	a.Add("main", "m1")
	b.next(t, restapi.RefEvent{Ref: "refs/heads/main", Hash: "m1"})
	for i := range 300 {
		a.Add(fmt.Sprintf("changes/a/b/c%03d", i), "c1")
	}
	a.Add("main", "m2")
	close(b.hold)
	heads := map[string]string{}
	for len(heads) < 301 {
		select {
		case in := <-b.bodies:
			if len(in.Refs) > restapi.MaxPushedRefs {
				t.Fatalf("%d at once", len(in.Refs))
			}
			if len(heads) == 0 && in.Refs[0].Ref != "refs/heads/main" {
				t.Errorf("first of all %s", in.Refs[0].Ref)
			}
			for _, r := range in.Refs {
				heads[r.Ref] = r.Hash
			}
		case <-time.After(time.Minute):
			t.Fatalf("told of %d", len(heads))
		}
	}
}
