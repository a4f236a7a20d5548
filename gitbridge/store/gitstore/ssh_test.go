package gitstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
	"gitbind.dev/test/githost"
)

// sshHost is a host's repository over SSH, with the same faults.
type sshHost struct {
	*host
	ssh *githost.SSH
	// privateKey and knownHosts are what clients have.
	privateKey, knownHosts []byte
}

func newSSHHost(t testing.TB) *sshHost {
	if gitea != nil {
		t.Skip("has its own server for SSH")
	}
	h := &sshHost{host: newHost(t)}
	// Git's own program gives what a branch has over HTTP, and over SSH only where it may. It
	// may with GitHub, GitLab and Gitea.
	h.git("config", "uploadpack.allowReachableSHA1InWant", "true")
	h.ssh, h.privateKey = githost.NewSSH(t, filepath.Dir(h.dir))
	h.knownHosts = h.ssh.KnownHosts()
	h.ssh.SetInstead(h.fault)
	return h
}

// fault is what the embedded host does to requests, for commands.
func (h *sshHost) fault(c *githost.SSHCommand) bool {
	h.requests.Add(1)
	if h.breaks.Add(-1) >= 0 {
		c.Hangup()
		return true
	}
	if c.Service != "git-receive-pack" {
		return false
	}
	var answer bytes.Buffer
	c.Run(&answer)
	if bytes.Contains(answer.Bytes(), []byte("ok refs/")) {
		h.pushes.Add(1)
		if h.lose.Add(-1) >= 0 {
			if then := h.then.Load(); *then != nil {
				(*then)()
			}
			c.Hangup()
			return true
		}
	}
	_, _ = c.Write(answer.Bytes())
	return true
}

func (h *sshHost) open(o gitstore.Options) *gitstore.Repository {
	h.t.Helper()
	o.URL = fmt.Sprintf("ssh://git@%s/client-%d/repo.git", h.ssh.Address, clients.Add(1))
	if o.SSH == nil {
		o.SSH = func(context.Context) ([]byte, []byte, error) { return h.privateKey, h.knownHosts, nil }
	}
	return h.host.open(o)
}

func (h *sshHost) Branch(name string) store.Branch { return h.open(gitstore.Options{}).Branch(name) }

func TestConformanceOverSSH(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Remote {
		h := newSSHHost(t)
		t.Cleanup(h.check)
		return h
	})
}

func TestOverSSHAHostMayKeepToItsBranches(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	h.git("config", "uploadpack.allowReachableSHA1InWant", "false")
	b := h.Branch("main")
	old := update(t, b, storetest.Put("x", "1")).Head()
	update(t, b, storetest.Put("x", "2"))
	if _, err := b.At(t.Context(), old); !errors.Is(err, store.ErrNotExist) {
		t.Error(err)
	}
}

func TestOverSSHAConnectionIsKeptAndOneThatEndedIsReplaced(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	r := h.open(gitstore.Options{})
	main, status := r.Branch("main"), r.Branch("status")
	for i := range 5 {
		update(t, main, storetest.Put("x", fmt.Sprint(i)))
		update(t, status, storetest.Put("x", fmt.Sprint(i)))
		fetch(t, main)
	}
	if n := h.ssh.Connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	h.ssh.Hangup()
	asked := h.requests.Load()
	fetch(t, main)
	if n, commands := h.ssh.Connections.Load(), h.requests.Load()-asked; n != 2 || commands != 1 {
		t.Errorf("%d connections, %d commands", n, commands)
	}
}

// reason is that of an SSHError.
func reason(t *testing.T, err, kind error) string {
	t.Helper()
	var ssh *store.SSHError
	if !errors.As(err, &ssh) || !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	return ssh.Reason
}

func TestOverSSHAHostWithoutAKnownKeyIsNotSpokenWith(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	b := h.Branch("main")
	update(t, b, storetest.Put("x", "1"))
	good := h.knownHosts
	_, port, _ := net.SplitHostPort(h.ssh.Address)

	h.knownHosts = nil
	_, err := h.Branch("main").Fetch(t.Context())
	if words := reason(t, err, store.ErrHostKey); !strings.Contains(words, "known_hosts has none of it") || !strings.Contains(words, "ssh-keyscan -p "+port+" 127.0.0.1") || !strings.Contains(words, "SHA256:") {
		t.Errorf("an unknown one: %s", words)
	}
	h.knownHosts = append([]byte("@revoked "), good...)
	_, err = h.Branch("main").Fetch(t.Context())
	if words := reason(t, err, store.ErrHostKey); !strings.Contains(words, "revoked") {
		t.Errorf("a revoked one: %s", words)
	}

	h.knownHosts = good
	asked := h.requests.Load()
	h.ssh.SetHostKey()
	h.ssh.Hangup()
	_, err = b.Fetch(t.Context())
	if words := reason(t, err, store.ErrHostKey); !strings.Contains(words, "has another one") {
		t.Errorf("a changed one, fetch: %s", words)
	}
	_, err = b.Update(t.Context(), storetest.Put("x", "2"))
	reason(t, err, store.ErrHostKey)
	if n := h.requests.Load() - asked; n != 0 {
		t.Errorf("it was told %d commands", n)
	}
	h.knownHosts = slices.Concat(good, h.ssh.KnownHosts())
	update(t, b, storetest.Put("x", "3"))
}

func TestOverSSHAKeyThatIsRefusedIsAskedForAgain(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	b := h.Branch("main")
	update(t, b, storetest.Put("x", "1"))
	var attempts atomic.Int64
	h.ssh.SetAccepted(func(net.Conn) bool { attempts.Add(1); return false })
	rotated := h.ssh.NewKey()
	update(t, b, storetest.Put("x", "2")) // over the connection that there is
	h.ssh.Hangup()
	_, err := b.Fetch(t.Context())
	if words := reason(t, err, store.ErrUnauthorized); !strings.Contains(words, "lets in nobody as git") {
		t.Errorf("fetch: %s", words)
	}
	_, err = b.Update(t.Context(), storetest.Put("x", "3"))
	reason(t, err, store.ErrUnauthorized)
	if n := attempts.Load(); n != 1 {
		t.Errorf("it was tried %d times: those who try often are locked out", n)
	}
	h.privateKey = rotated
	update(t, b, storetest.Put("x", "3"))

	h.privateKey = []byte("no key")
	_, err = h.Branch("main").Fetch(t.Context())
	if words := reason(t, err, store.ErrUnauthorized); !strings.Contains(words, "PEM") {
		t.Errorf("no key: %s", words)
	}
}

// Hosts let in keys that may not do what is asked for.
func TestL15_OverSSHAReplacedKeyIsUsedWhereTheOldOneWasLetIn(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	b := h.Branch("main")
	update(t, b, storetest.Put("x", "1"))
	h.ssh.SetInstead(func(c *githost.SSHCommand) bool {
		if h.ssh.Connections.Load() > 1 {
			return h.fault(c)
		}
		_, _ = io.WriteString(c.Stderr(), "ERROR: Permission to team/repo denied to gitbind\n")
		return true
	})
	_, err := b.Fetch(t.Context())
	reason(t, err, store.ErrUnauthorized)
	h.privateKey = h.ssh.NewKey()
	update(t, b, storetest.Put("x", "2"))
}

func TestOverSSHARepositoryThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	h.ssh.SetInstead(func(c *githost.SSHCommand) bool { c.Path = "/absent.git"; return false })
	_, err := h.Branch("main").Fetch(t.Context())
	if words := reason(t, err, store.ErrRepositoryNotFound); !strings.Contains(words, "does not appear to be a git repository") || !strings.Contains(words, h.ssh.Address) {
		t.Errorf("fetch: %s", words)
	}
	_, err = h.Branch("main").Update(t.Context(), storetest.Put("x", "1"))
	if !errors.Is(err, store.ErrRepositoryNotFound) && !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("update: %v", err)
	}
}

// What a host may do over SSH. It is an error in bounded time and memory, and afterwards it
// goes on.
func TestOverSSHAHostInTroubleIsGivenUpAndFoundAgain(t *testing.T) {
	t.Parallel()
	hang := func(c *githost.SSHCommand) bool { _, _ = io.Copy(io.Discard, c); return true }
	hangAtOnce := func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return true }
	for name, c := range map[string]struct {
		accepted func(net.Conn) bool
		command  func(*githost.SSHCommand) bool
		want     string
	}{
		"it says nothing after the connection was made": {hangAtOnce, nil, "no answer"},
		"it ends connections":                           {func(net.Conn) bool { return true }, nil, "handshake"},
		"it speaks something else": {func(c net.Conn) bool {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			return hangAtOnce(c)
		}, nil, "no answer"},
		"a command says nothing":              {nil, hang, "no answer"},
		"a command ends without a word":       {nil, func(*githost.SSHCommand) bool { return true }, "without an answer"},
		"a command is cut before it is asked": {nil, func(c *githost.SSHCommand) bool { _, _ = io.WriteString(c, "00"); c.Hangup(); return true }, ""},
		"a command says what is not Git": {nil, func(c *githost.SSHCommand) bool {
			_, _ = io.WriteString(c, "Welcome to this shell!\r\n$ ")
			return hang(c)
		}, "as Git does"},
		"refs without an end": {nil, func(c *githost.SSHCommand) bool {
			line := strings.Repeat("a", 40) + " refs/heads/" + strings.Repeat("b", 1000) + "\n"
			for err := error(nil); err == nil; {
				_, err = fmt.Fprintf(c, "%04x%s", len(line)+4, line)
			}
			return true
		}, "too large"},
		"refs that are cut": {nil, func(c *githost.SSHCommand) bool {
			_, _ = fmt.Fprintf(c, "%04x%s", 53, strings.Repeat("a", 40)+" HEAD\x00 x\n")
			c.Hangup()
			return true
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newSSHHost(t)
			defer h.check()
			o := gitstore.Options{MaxPack: 1 << 20}
			if c.want == "no answer" {
				o.Stall = 2 * time.Second
			}
			b := h.open(o).Branch("main")
			updateAgain(t, b, storetest.Put("x", "1"))
			h.ssh.Hangup()
			h.ssh.SetAccepted(c.accepted)
			if c.command != nil {
				h.ssh.SetInstead(c.command)
			}
			start := time.Now()
			if _, err := b.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, store.ErrRepositoryNotFound) {
				t.Errorf("fetch: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := b.Update(ctx, storetest.Put("x", "2")); err == nil {
				t.Error("it was pushed")
			}
			if spent := time.Since(start); spent > time.Minute {
				t.Errorf("it took %s", spent)
			}
			h.ssh.SetAccepted(nil)
			h.ssh.SetInstead(h.fault)
			h.ssh.Hangup()
			updateAgain(t, b, storetest.Put("x", "3"))
		})
	}
}

// updateAgain has an edit pushed, and tries again as an agent does: where others use up the
// processors, also a good host may not answer in the time that it is given.
func updateAgain(t *testing.T, b store.Branch, e store.Edit) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		_, err := b.Update(t.Context(), e)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", e.Subject, err)
		}
	}
}

func TestOverSSHAPushThatIsCutLandsOnce(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*githost.SSHCommand){
		"in the middle of the request":    func(c *githost.SSHCommand) { _, _ = io.CopyN(io.Discard, c, 100) },
		"taken, before the answer":        func(c *githost.SSHCommand) { c.Run(io.Discard) },
		"taken, in the middle of it":      func(c *githost.SSHCommand) { half(c, c.Hangup) },
		"taken, half of it in good order": func(c *githost.SSHCommand) { half(c, func() {}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newSSHHost(t)
			defer h.check()
			b := h.Branch("main")
			var left atomic.Int64
			h.ssh.SetInstead(func(c *githost.SSHCommand) bool {
				if c.Service != "git-receive-pack" || left.Add(-1) < 0 {
					return h.fault(c)
				}
				fault(c)
				if !strings.Contains(name, "good order") {
					c.Hangup()
				}
				return true
			})
			for i := range 4 {
				left.Store(1)
				if data, _ := update(t, b, counter()).Read("counter"); string(data) != fmt.Sprint(i+1) {
					t.Fatalf("counter is %s after %d edits", data, i+1)
				}
			}
		})
	}
}

// half runs a command, and gives half of what it says after it was asked.
func half(c *githost.SSHCommand, then func()) {
	var answer bytes.Buffer
	c.Run(&answer)
	i := bytes.LastIndex(answer.Bytes(), []byte("unpack ok"))
	_, _ = c.Write(answer.Bytes()[:i+4])
	then()
}

func TestOverSSHAPackThatIsTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	update(t, h.Branch("main"), store.Edit{Author: storetest.Author, Subject: "claim: much", Apply: func(tree *store.Tree) error {
		random := rand.NewChaCha8([32]byte{})
		for i := range 40 {
			data := make([]byte, 60<<10)
			_, _ = random.Read(data)
			if err := tree.Write(fmt.Sprint("much/", i), data); err != nil {
				return err
			}
		}
		return nil
	}})
	r := h.open(gitstore.Options{MaxPack: 1 << 20})
	before := h.ssh.Connections.Load()
	_, err := r.Branch("main").Fetch(t.Context())
	var limit *store.LimitError
	if !errors.As(err, &limit) {
		t.Fatalf("got %v", err)
	}
	update(t, r.Branch("status"), storetest.Put("x", "1"))
	if n := h.ssh.Connections.Load() - before; n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestOverSSHTheGuardRefusesPushesAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	update(t, h.Branch("main"), storetest.Put("x", "1"))
	errGuard := errors.New("not while the Lease is lost")
	b := h.open(gitstore.Options{Guard: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
				return nil, errGuard
			}
			return next.RoundTrip(r)
		})
	}}).Branch("main")
	fetch(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := b.Update(ctx, storetest.Put("x", "2")); err == nil {
		t.Error("it was pushed")
	}
	if data, _ := fetch(t, h.Branch("main")).Read("x"); string(data) != "1" {
		t.Errorf("x is %s", data)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A caller who gives up does not end what others do over the same connection.
func TestOverSSHACallerWhoGivesUpLeavesTheConnection(t *testing.T) {
	t.Parallel()
	h := newSSHHost(t)
	r := h.open(gitstore.Options{})
	main, status := r.Branch("main"), r.Branch("status")
	update(t, main, storetest.Put("x", "1"))
	begun := make(chan struct{})
	var hung atomic.Bool
	h.ssh.SetInstead(func(c *githost.SSHCommand) bool {
		if hung.Swap(true) {
			return h.fault(c)
		}
		close(begun)
		_, _ = io.Copy(io.Discard, c)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := main.Fetch(ctx)
		gone <- err
	}()
	<-begun
	update(t, status, storetest.Put("x", "1"))
	cancel()
	select {
	case err := <-gone:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("it still waits")
	}
	update(t, status, storetest.Put("x", "2"))
	if n := h.ssh.Connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
