package gitstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/githost"
)

// many fetch branches of two repositories at once.
func (h *sshHost) many() (errs []error) {
	a, b := h.open(gitstore.Options{}), h.open(gitstore.Options{})
	var all sync.WaitGroup
	results := make(chan error, 20)
	for i := range 10 {
		for _, r := range []*gitstore.Repository{a, b} {
			all.Go(func() {
				_, err := r.Branch(fmt.Sprint("b", i)).Fetch(h.t.Context())
				results <- err
			})
		}
	}
	all.Wait()
	close(results)
	for err := range results {
		errs = append(errs, err)
	}
	return errs
}

// slowly counts the logins, which take until others would have begun.
func slowly(logins *atomic.Int64) func(net.Conn) bool {
	return func(net.Conn) bool {
		logins.Add(1)
		time.Sleep(300 * time.Millisecond)
		return false
	}
}

func TestOverSSHManyWhoComeAtOnceLogInOnce(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	var logins atomic.Int64
	h.ssh.SetAccepted(slowly(&logins))
	for _, err := range h.many() {
		if err != nil {
			t.Error(err)
		}
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
}

func TestOverSSHManyWhoAreRefusedAreRefusedOnce(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	h.ssh.NewKey()
	var logins atomic.Int64
	h.ssh.SetAccepted(slowly(&logins))
	for range 2 {
		for _, err := range h.many() {
			reason(t, err, store.ErrUnauthorized)
		}
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins: those who fail often are locked out", n)
	}
}

func TestOverSSHALoginGoesOnForTheOthersWhenOneGivesUp(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	r := h.open(gitstore.Options{})
	var logins atomic.Int64
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	h.ssh.SetAccepted(func(net.Conn) bool {
		logins.Add(1)
		begun <- struct{}{}
		<-goOn
		return false
	})
	fetch := func(ctx context.Context, branch string) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := r.Branch(branch).Fetch(ctx)
			done <- err
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := fetch(ctx, "main")
	<-begun
	second := fetch(t.Context(), "status")
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	close(goOn)
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
}

// Somebody who reads slowly and gives up takes nothing from those who are in the middle of
// a transfer over the same connection, whatever the host does.
func TestOverSSHOthersGoOnWhenASlowReaderGivesUp(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"it reads nothing": false, "it waits for more": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newSSHHost(t)
			var ask http.RoundTripper
			r := h.open(gitstore.Options{Guard: func(next http.RoundTripper) http.RoundTripper { ask = next; return next }})
			const closeTimeout = 150 * time.Millisecond
			r.SetSSHCloseTimeout(closeTimeout)
			update(t, r.Branch("main"), storetest.Put("x", "1"))
			refs := func(ctx context.Context) io.ReadCloser {
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "ssh://h/x/info/refs?service=git-upload-pack", nil)
				res, err := ask.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				return res.Body
			}
			over := make(chan struct{})
			h.ssh.SetInstead(func(s *githost.SSHCommand) bool { _, _ = io.WriteString(s, "0008abcd"); <-over; return true })
			ctx, cancel := context.WithCancel(t.Context())
			slow := refs(ctx)
			halfway := make(chan struct{})
			h.ssh.SetInstead(func(s *githost.SSHCommand) bool {
				_, _ = io.WriteString(s, "0008abcd")
				<-halfway
				_, _ = io.WriteString(s, "0000")
				return true
			})
			other := refs(t.Context())
			gone := make(chan error, 1)
			if reads {
				go func() { _, err := io.ReadAll(slow); gone <- err }()
			}
			cancel()
			if reads {
				select {
				case err := <-gone:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("who reads is told %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("who gave up still reads")
				}
			}
			// Longer than the host may take.
			time.Sleep(5 * closeTimeout / 2)
			_ = slow.Close()
			time.Sleep(3 * closeTimeout / 2)
			h.ssh.SetInstead(h.fault)
			fetch(t, r.Branch("main"))
			if n := h.ssh.Connections.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
			close(halfway)
			if data, err := io.ReadAll(other); err != nil || string(data) != "0008abcd0000" {
				t.Errorf("the other: %q, %v", data, err)
			}
			_ = other.Close()
			close(over)
		})
	}
}
