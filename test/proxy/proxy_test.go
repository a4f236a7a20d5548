package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// client has the time that a busy machine may take.
func client() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
}

func get(c *http.Client, p *Proxy, user string) error {
	r, err := http.NewRequest(http.MethodGet, "http://"+p.Addr(), nil)
	if err != nil {
		return err
	}
	if user != "" {
		r.SetBasicAuth(user, "secret")
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && !strings.HasPrefix(string(data), "hello "+user) {
		err = errors.New(string(data))
	}
	return err
}

func TestModes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		_, _ = io.WriteString(w, "hello "+user)
	}))
	defer server.Close()
	p, err := StartHTTP(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	ann, bob := client(), client()
	both := func(wantAnn, wantBob bool) {
		t.Helper()
		if err := get(ann, p, "ann"); (err == nil) != wantAnn {
			t.Errorf("ann: %v", err)
		}
		if err := get(bob, p, "bob"); (err == nil) != wantBob {
			t.Errorf("bob: %v", err)
		}
	}
	both(true, true)
	p.Set("ann", Cut)
	both(false, true)
	p.Set("ann", Silent)
	ann.Timeout = 300 * time.Millisecond // as there is nothing to wait for
	both(false, true)
	if err := get(ann, p, "ann"); !os.IsTimeout(err) {
		t.Errorf("silent: %v, want a timeout", err)
	}
	ann.Timeout = time.Minute
	p.Set("", Cut)
	p.Set("ann", Open)
	both(true, false)
	p.Set("", Open)
	both(true, true)
	p.Set("ann", Slow)
	began := time.Now()
	slow := &http.Client{Timeout: time.Minute}
	if err := get(slow, p, "ann"); err != nil || time.Since(began) < 2*Delay {
		t.Errorf("slow: %v after %s", err, time.Since(began))
	}
	slow.CloseIdleConnections()
}
