package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackendURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://gitbind.example.com":       "https://gitbind.example.com",
		"https://GitBind.Example.com/":      "https://gitbind.example.com",
		"gitbind.example.com":               "https://gitbind.example.com",
		"http://127.0.0.1:8080":             "http://127.0.0.1:8080",
		"https://example.com/gitbind//":     "https://example.com/gitbind",
		"":                                  "",
		"ftp://example.com":                 "",
		"https://":                          "",
		"https://alice:secret@example.com":  "",
		"https://example.com?token=x":       "",
		"https://example.com/#x":            "",
		"https://exa mple.com":              "",
		"http://[::1]:8080":                 "http://[::1]:8080",
		"https://gitbind.example.com/a?b=c": "",
	} {
		got, err := BackendURL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}

func TestPrivate(t *testing.T) {
	for url, want := range map[string]bool{
		"https://example.com": true, "http://localhost:1": true, "http://127.0.0.1:1": true, "http://127.1.2.3": true, "http://[::1]:1": true,
		"http://example.com": false, "http://10.0.0.1": false, "http://localhost.example.com": false, "http://127.0.0.1.example.com": false, "://": false,
	} {
		if got := Private(url); got != want {
			t.Errorf("%s: %t", url, got)
		}
	}
}

func TestStore(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "a", "b")}
	const here, there = "https://gitbind.example.com", "https://gitbind.example.com/other"
	if _, err := s.Load(here); !errors.Is(err, ErrNone) {
		t.Fatalf("empty store: %v", err)
	}
	if all, err := s.All(); err != nil || len(all) != 0 {
		t.Fatalf("empty store: %v, %v", all, err)
	}
	want := Session{BackendURL: here, Issuer: "https://dex.example.com", IDToken: "x", Expiry: time.Unix(1, 0).UTC()}
	if err := s.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(here)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatal(diff, err)
	}
	if _, err := s.Load(there); !errors.Is(err, ErrNone) {
		t.Fatalf("another backend's session is given: %v", err)
	}
	if err := os.WriteFile(s.path(there), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(there); !errors.Is(err, ErrNone) {
		t.Fatalf("a broken file: %v", err)
	}
	if all, err := s.All(); err != nil || len(all) != 1 {
		t.Fatalf("all: %v, %v", all, err)
	}
	// A file that was copied for another backend is none of its sessions.
	data, err := os.ReadFile(s.path(here))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path(there), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(there); !errors.Is(err, ErrNone) {
		t.Fatalf("a copied session is given to another backend: %v", err)
	}
}

// A pipeline may have a home that is nobody's to read.
func TestAFolderThatCannotBeReadHasNoSessions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: filepath.Join(file, "sessions")}
	if _, err := s.Load("https://gitbind.example.com"); !errors.Is(err, ErrNone) {
		t.Errorf("it says %v", err)
	}
}

func TestLockExcludes(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	var inside, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := s.Lock("https://example.com")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			inside--
			mu.Unlock()
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d held the lock at once", most)
	}
}
