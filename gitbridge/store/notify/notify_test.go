package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
)

// listen starts Listen and gives what it is told, one by one.
func listen(t *testing.T, o Options) (events, errs chan string) {
	events, errs = make(chan string, 100), make(chan string, 100)
	o.OnEvent = func(ref string, h store.Hash) { events <- strings.TrimSpace(ref + " " + string(h)) }
	o.OnError = func(err error) { errs <- fmt.Sprint(err) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Listen(ctx, o) }()
	t.Cleanup(func() { cancel(); <-done })
	return events, errs
}

func next(t *testing.T, from chan string) string {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		return ""
	}
}

func serve(t *testing.T, f func(w http.ResponseWriter, r *http.Request, flush func())) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		f(w, r, w.(http.Flusher).Flush)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestEventsArriveAndConnectionsAreMadeAgain(t *testing.T) {
	var connections atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request, flush func()) {
		user, password, _ := r.BasicAuth()
		if r.URL.Path != "/v1/events" || r.URL.Query().Get("cluster") != "k3x" || user != "konnector" || password != "secret" {
			t.Errorf("request %s by %s", r.URL, user)
		}
		n := connections.Add(1)
		_, _ = fmt.Fprintf(w, ": hello\n\nevent: other\ndata: {}\n\nevent: ref\r\ndata: {\"ref\":\"refs/heads/main\",\r\ndata: \"hash\":\"h%d\"}\r\n\r\n", n)
		flush()
		if n > 1 {
			<-r.Context().Done()
		}
	})
	events, errs := listen(t, Options{URL: url + "/", ClusterID: "k3x", Credentials: func(context.Context) (string, string, error) { return "konnector", "secret", nil }})
	for _, want := range []string{"", "refs/heads/main h1", "", "refs/heads/main h2"} {
		if got := next(t, events); got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	}
	for _, want := range []string{"<nil>", "the backend closed the event stream", "<nil>"} {
		if got := next(t, errs); !strings.Contains(got, want) {
			t.Fatalf("health %q, want %q", got, want)
		}
	}
}

func TestASilentStreamIsGivenUpAndCommentsKeepItAlive(t *testing.T) {
	const silence = 500 * time.Millisecond
	var connections atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request, flush func()) {
		if connections.Add(1) == 1 {
			flush()
			<-r.Context().Done()
			return
		}
		for range 15 {
			_, _ = fmt.Fprint(w, ":\n")
			flush()
			time.Sleep(silence / 10)
		}
		_, _ = fmt.Fprint(w, "event: ref\ndata: {\"ref\":\"r\"}\n\n")
		flush()
		<-r.Context().Done()
	})
	events, errs := listen(t, Options{URL: url, Silence: silence})
	// A busy machine may be silent by itself, and the stream is opened again: it never
	// comes to its end if comments do not count.
	for tries := 0; next(t, events) != "r"; tries++ {
		if tries == 10 {
			t.Fatal("comments do not keep a stream alive")
		}
	}
	for _, want := range []string{errSilent.Error(), "<nil>"} {
		for !strings.Contains(next(t, errs), want) {
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"unknown credential": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, store.ErrUnauthorized.Error()},
		"no such cluster":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "404"},
		"a login page":       {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html") }, "not with events"},
		"bad event":          {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "event: ref\ndata: x\n\n") }, "event \"x\""},
		"endless line":       {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, strings.Repeat("x", 1<<20)) }, "too long"},
		"endless event":      {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, strings.Repeat("data: xxxxxxxxxxxxxxxx\n", 1<<16)) }, "too much"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request, _ func()) { c.answer(w) })
			_, errs := listen(t, Options{URL: url})
			got := next(t, errs)
			if got == "<nil>" {
				got = next(t, errs)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("error %q, want %q", got, c.want)
			}
		})
	}
	_, errs := listen(t, Options{URL: "http://127.0.0.1:1", Credentials: func(context.Context) (string, string, error) { return "", "", errors.New("no credential") }})
	if got := next(t, errs); !strings.Contains(got, "no credential") {
		t.Errorf("error %q", got)
	}
}

// TestNoRedirectTakesTheCredentialElsewhere goes to the same host name, to all ports and schemes of
// which net/http would send it.
func TestNoRedirectTakesTheCredentialElsewhere(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			elsewhere := serve(t, func(_ http.ResponseWriter, r *http.Request, _ func()) {
				_, password, _ := r.BasicAuth()
				t.Errorf("%s %s with password %q", r.Method, r.URL, password)
			})
			requests := make(chan string, 100)
			url := serve(t, func(w http.ResponseWriter, r *http.Request, _ func()) {
				requests <- r.Method
				http.Redirect(w, r, elsewhere+r.URL.RequestURI(), status)
			})
			a := AnnouncementsFor(url, "https://git.example.org/k3x.git")
			_, errs := listen(t, Options{URL: url, ClusterID: "k3x", Announcements: a, Credentials: func(context.Context) (string, string, error) {
				return "konnector", "secret", nil
			}})
			if got, want := next(t, errs), fmt.Sprintf("the backend answered %d", status); !strings.Contains(got, want) {
				t.Errorf("error %q, want %q", got, want)
			}
			// The second is told after the answer to the first.
			for _, head := range []store.Hash{"m1", "m2"} {
				a.Add("main", head)
				for next(t, requests) != http.MethodPost {
				}
			}
		})
	}
}

func TestACertificateIsTrustedOnlyByWhomItIsNamedTo(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	_, errs := listen(t, Options{URL: server.URL})
	if got := next(t, errs); !strings.Contains(got, "certificate") {
		t.Errorf("without its authority: %s", got)
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, errs = listen(t, Options{URL: server.URL, RootCAs: roots})
	if got := next(t, errs); got != "<nil>" {
		t.Errorf("with it: %s", got)
	}
}
