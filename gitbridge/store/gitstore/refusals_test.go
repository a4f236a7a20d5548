package gitstore_test

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

func TestACredentialIsAskedForAgainWhenItIsRefused(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.password = "first"
	current, asked := "first", 0
	b := h.open(gitstore.Options{Credentials: func(context.Context) (string, string, error) {
		asked++
		if current == "" {
			return "", "", errors.New("no credential there")
		}
		return "konnector", current, nil
	}}).Branch("main")
	update(t, b, storetest.Put("x", "1"))
	update(t, b, storetest.Put("x", "2"))
	h.set(func() { h.password = "second" })
	current = "second"
	update(t, b, storetest.Put("x", "3"))
	fetch(t, b)
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}

	h.set(func() { h.password = "third" })
	_, err := b.Fetch(t.Context())
	if !errors.Is(err, store.ErrUnauthorized) || !strings.Contains(err.Error(), "who are you?") || strings.Contains(err.Error(), "second") {
		t.Errorf("fetch with an old one: %v", err)
	}
	if _, err := b.Update(t.Context(), storetest.Put("x", "4")); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("push with an old one: %v", err)
	}
	current = ""
	if _, err := b.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "no credential there") {
		t.Errorf("fetch without one: %v", err)
	}
	if _, err := h.Branch("main").Fetch(t.Context()); !errors.Is(err, store.ErrUnauthorized) {
		t.Errorf("nobody: %v", err)
	}
}

// A credential may be valid and lack a right, which hosts tell by various codes, or in what they
// say of a push. People put another one in its place.
func TestL15_AReplacedCredentialIsUsedWhateverTheOldOneWasRefusedBy(t *testing.T) {
	t.Parallel()
	const words = "You are not allowed to push code to protected branches"
	for name, c := range map[string]struct {
		code int
		want error
	}{
		"unauthorized": {http.StatusUnauthorized, store.ErrUnauthorized},
		"forbidden":    {http.StatusForbidden, store.ErrUnauthorized},
		"not found":    {http.StatusNotFound, store.ErrRepositoryNotFound},
		"by a hook":    {http.StatusOK, store.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.set(func() {
				h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					switch user, _, _ := r.BasicAuth(); {
					case user == "new":
						return false
					case c.code != http.StatusOK:
						http.Error(w, words, c.code)
						return true
					case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/git-receive-pack"):
						w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
						no := "ng refs/heads/main " + words + "\n"
						_, _ = fmt.Fprintf(w, "000eunpack ok\n%04x%s0000", len(no)+4, no)
						return true
					}
					return false
				}
			})
			user := "old"
			b := h.open(gitstore.Options{Credentials: func(context.Context) (string, string, error) { return user, h.password, nil }}).Branch("main")
			for range 2 {
				if _, err := b.Update(t.Context(), storetest.Put("x", "1")); !errors.Is(err, c.want) || !strings.Contains(err.Error(), words) {
					t.Errorf("with the old one: %v", err)
				}
			}
			user = "new"
			update(t, b, storetest.Put("x", "1"))
		})
	}
}

func TestOpenRefusesURLsThatItWouldNotUse(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "git@example.org:repo.git", "ssh://example.org/repo.git", "file:///repo.git", "https://", "https://user:secret@example.org/repo.git", "https://example.org/repo.git?token=secret", "http://[::1", "https://u:secret@exa mple.org"} {
		_, err := gitstore.Open(gitstore.Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOpenSaysHowAnAddressForSSHIsWritten(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"git@example.org:team/repo.git":      "ssh://git@example.org/team/repo.git",
		"example.org:/repo.git":              "ssh://git@example.org/repo.git",
		"ssh://git:secret@example.org/r.git": "no credentials",
		"ssh://example.org/":                 "only http, https and ssh",
		"ssh:///repo.git":                    "only http, https and ssh",
		"ssh://example.org/repo.git":         "no key",
	} {
		_, err := gitstore.Open(gitstore.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestL15_ARepositoryWithSHA256IsNamed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if gitea != nil {
		t.Skip("needs a repository of git's own")
	}
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	h.git("init", "-q", "--bare", "--initial-branch=main", "--object-format=sha256", h.dir)
	h.git("config", "http.receivepack", "true")
	b := h.Branch("main")
	if _, err := b.Update(t.Context(), storetest.Put("x", "1")); !errors.Is(err, store.ErrObjectFormat) || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("an update of an empty one: %v", err)
	}
	tree := strings.TrimSpace(h.git("mktree", "--missing"))
	commit := strings.TrimSpace(h.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit-tree", "-m", "one", tree))
	h.git("update-ref", "refs/heads/main", commit)
	if _, err := b.Fetch(t.Context()); !errors.Is(err, store.ErrObjectFormat) || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("fetch: %v", err)
	}
}

func TestBranchNamesThatGitDoesNotAllow(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	update(t, h.Branch("main"), storetest.Put("x", "1"))
	for _, name := range []string{"", "a b", "a\n0000", "a..b", "/a", "a/", "a.lock", "x\x00y"} {
		b := h.Branch(name)
		if _, err := b.Fetch(t.Context()); err == nil {
			t.Errorf("fetch %q is no error", name)
		}
		if _, err := b.Update(t.Context(), storetest.Put("x", "1")); err == nil {
			t.Errorf("update %q is no error", name)
		}
	}
	update(t, h.Branch("conflicts/b.example.org/team-a/orders/1"), storetest.Put("x", "1"))
}

// answer is what a remote that is no friend answers to every request.
func answer(status int, contentType, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "https://example.org/elsewhere")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
		return true
	}
}

func TestAnswersThatAreNotGits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	update(t, h.Branch("main"), storetest.Put("x", "1"))
	const refs = "application/x-git-upload-pack-advertisement"
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
		is     error
	}{
		"no such repository": {answer(404, "text/plain", "no\nsuch\x1b thing"), "404 Not Found: no such thing", store.ErrRepositoryNotFound},
		"forbidden":          {answer(403, "text/html", "<html>"), "403 Forbidden", store.ErrUnauthorized},
		"moved":              {answer(301, "text/plain", ""), "redirects to https://example.org/elsewhere", store.ErrRepositoryNotFound},
		"broken":             {answer(502, "text/plain", "bad gateway"), "502 Bad Gateway: bad gateway", nil},
		"login page":         {answer(200, "text/html", "<html>"), "does not answer as a Git repository", nil},
		"nothing":            {answer(200, refs, ""), "", nil},
		"no lines":           {answer(200, refs, "hello"), "invalid pkt-len", nil},
		"cut off":            {answer(200, refs, line("# service=git-upload-pack\n")+"0000"+line(strings.Repeat("1", 40)+" refs/heads/x\x00caps\n")), "unexpected EOF", nil},
		"refused":            {answer(200, refs, line("ERR come back later\n")), "come back later", nil},
		"odd hash":           {answer(200, refs, line(strings.Repeat("x", 40)+" refs/heads/main\x00caps\n")+"0000"), "object name", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h.set(func() { h.intercept = c.answer })
			snap, err := h.Branch("main").Fetch(t.Context())
			if c.want == "" {
				if err != nil || snap.Head() != "" {
					t.Errorf("%v, %v", snap.Head(), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPacksThatAreNotGits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	update(t, h.Branch("main"), storetest.Put("x", "1"))
	for name, c := range map[string]struct{ body, want string }{
		"nothing":      {"", "empty packfile"},
		"no pack":      {"0000" + "0008NAK\nhello", "pack"},
		"half a pack":  {"0000" + "0008NAK\nPACK\x00\x00\x00\x02\x00\x00\x00\x02\x90", "EOF"},
		"too many":     {"0000" + "0008NAK\nPACK\x00\x00\x00\x02\xff\xff\xff\xff", "too large"},
		"unknown type": {"0000" + "0008NAK\nPACK\x00\x00\x00\x02\x00\x00\x00\x01\x50", "type 5"},
	} {
		t.Run(name, func(t *testing.T) {
			h.set(func() {
				h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodPost {
						return false
					}
					return answer(200, "application/x-git-upload-pack-result", c.body)(w, r)
				}
			})
			_, err := h.Branch("main").Fetch(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAnswersHaveLimits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	incompressible := make([]byte, 0, 100_000)
	for i := range 100_000 {
		incompressible = append(incompressible, byte(i*i*i>>7^i>>3))
	}
	update(t, h.Branch("main"), storetest.Put("x", string(incompressible)))
	if _, err := h.open(gitstore.Options{MaxPack: 10_000}).Branch("main").Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("large pack: %v", err)
	}
	// 60 kB that travel as less than 10.
	update(t, h.Branch("main"), storetest.Put("x", strings.Repeat("x", 60_000)))
	if _, err := h.open(gitstore.Options{MaxPack: 10_000}).Branch("main").Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("large content: %v", err)
	}
	// Large files are named, and those that there is no room for are not kept.
	large, other := strings.Repeat("x", 900_000), strings.Repeat("y", 900_000)
	update(t, h.Branch("main"), store.Edit{Author: storetest.Author, Subject: "claim: put", Apply: func(t *store.Tree) error {
		return errors.Join(t.Write("x", []byte("small")), t.Write("large/1", []byte(large+"1")), t.Write("large/2", []byte(other+"2")))
	}})
	snap := fetch(t, h.open(gitstore.Options{MaxPack: 2_000_000}).Branch("main"))
	kept := 0
	for e := range snap.List("large") {
		switch data, err := snap.Read(e.Path); {
		case err == nil && len(data) == len(large)+1:
			kept++
		case !errors.Is(err, store.ErrTooLarge) || e.Size != int64(len(large)+1):
			t.Errorf("%s of %d bytes: %v", e.Path, e.Size, err)
		}
	}
	if data, err := snap.Read("x"); kept != 1 || err != nil || string(data) != "small" {
		t.Errorf("%d large files are kept, %v", kept, err)
	}

	silent := make(chan struct{})
	defer close(silent)
	h.set(func() {
		h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
			return true
		}
	})
	if _, err := h.open(gitstore.Options{Stall: 50 * time.Millisecond}).Branch("main").Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer for 50ms") {
		t.Errorf("silent remote: %v", err)
	}
	h.set(func() {
		h.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			_, _ = fmt.Fprint(w, "001e# service=git-upload-pack\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
	})
	if _, err := h.open(gitstore.Options{Stall: 50 * time.Millisecond}).Branch("main").Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "no answer for 50ms") {
		t.Errorf("remote that falls silent: %v", err)
	}
}

func TestABudgetDelaysPushesAndGathersEdits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	const atOnce, interval = 2, time.Second
	r := h.open(gitstore.Options{})
	r.SetBudget(atOnce, interval)
	b := r.Branch("main")
	before, start, done := h.Pushes(), time.Now(), make(chan error)
	for i := range atOnce {
		update(t, b, storetest.Put("x", fmt.Sprint(i)))
	}
	for i := range 10 {
		go func() {
			_, err := b.Update(t.Context(), storetest.Put(fmt.Sprint("y", i), "1"))
			done <- err
		}()
	}
	for range 10 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// One more for each interval, which a slow machine has many of.
	if n := h.Pushes() - before; n > atOnce+int(time.Since(start)/interval) || n >= atOnce+10 {
		t.Errorf("%d pushes in %s", n, time.Since(start))
	}
}

func TestAHostsCertificateIsTheCauseOfTheError(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		ends    time.Duration
		trusted bool
		cause   string
	}{
		"of an unknown authority": {time.Hour, false, "its certificate is not trusted"},
		"expired":                 {-time.Hour, true, "its certificate has expired, or is not valid yet"},
	} {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(c.ends),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		der, err := x509.CreateCertificate(nil, template, template, public, private)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		defer server.Close()
		trusted := x509.NewCertPool()
		if c.trusted {
			trusted.AddCert(server.Certificate())
		}
		r, err := gitstore.Open(gitstore.Options{URL: server.URL + "/x.git", RootCAs: trusted})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Branch("main").Fetch(t.Context()); store.Cause(err) != c.cause || !store.IsUntrusted(err) {
			t.Errorf("%s: %q of %v", what, store.Cause(err), err)
		}
	}
}
