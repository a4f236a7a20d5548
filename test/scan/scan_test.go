package scan

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestValuesAreFoundInEachForm(t *testing.T) {
	s := New()
	s.Add("a password of others")
	for name, value := range map[string]string{"with the marker": s.Value("team-a/orders"), "added": "a password of others", "key": ageKey + "QQQ"} {
		if _, ok := s.In([]byte("nothing of the kind")); ok {
			t.Error("it finds what is not there")
		}
		for before := range 7 {
			text := strings.Repeat("x", before) + value + "y"
			for _, data := range []string{text, base64.StdEncoding.EncodeToString([]byte(text))} {
				if found, ok := s.In([]byte(data)); !ok || strings.Contains(found, value) {
					t.Errorf("%s after %d bytes in %s: %t, it says %q", name, before, data, ok, found)
				}
			}
		}
	}
	if whose, ok := s.Whose(s.Value("team-a/orders")); !ok || whose != "team-a/orders" {
		t.Errorf("it is of %q, %t", whose, ok)
	}
	if n := s.Known(); n != 1 {
		t.Errorf("%d values are known besides", n)
	}
}

func TestValuesAreFoundInFiles(t *testing.T) {
	s := New()
	value := s.Value("x")
	for name, place := range map[string]func(dir string) error{
		"a file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "log"), []byte("a\n"+value), 0o600) },
		"across the end of what is read at once": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "log"), []byte(strings.Repeat("x", chunk+s.longest-5)+value), 0o600)
		},
		"a loose object that nothing names": func(dir string) error {
			return shell(dir, `git init --quiet --bare a.git && printf %s "`+value+`" | git -C a.git hash-object -w --stdin`)
		},
		"a packed object": func(dir string) error {
			return shell(dir, `git init --quiet a && cd a && printf %s "`+value+`" > f && git add f && git -c user.name=a -c user.email=a commit --quiet -m a && git gc --quiet && rm f`)
		},
	} {
		dir := t.TempDir()
		if err := place(dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Files(t.Context(), dir); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
		if err := New().Files(t.Context(), dir); err != nil {
			t.Errorf("%s: without a value: %v", name, err)
		}
	}
	dir := t.TempDir()
	if err := shell(dir, `mkdir etcd && printf %s "`+value+`" > etcd/db`); err != nil {
		t.Fatal(err)
	}
	if err := s.Files(t.Context(), dir, "etcd"); err != nil {
		t.Error(err)
	}
}

func shell(dir, script string) error {
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func TestValuesAreFoundInProcessesAndPages(t *testing.T) {
	s := New()
	value := s.Value("x")
	if err := s.Commands(); err == nil {
		t.Error("no process was looked at, and that is fine")
	}
	cmd := exec.Command("sh", "-c", "read line", value)
	cmd.Env = []string{"PASSWORD=" + value}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The kernel shows them a moment after the program has begun.
	for deadline := time.Now().Add(time.Minute); s.Variables("sh", cmd.Process.Pid) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in the variables")
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() { s.Watch(ctx); close(watched) }()
	for seen := false; !seen && t.Context().Err() == nil; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		for line := range s.commands {
			seen = seen || strings.Contains(line, value)
		}
		s.mu.Unlock()
	}
	stop()
	<-watched
	in.Close()
	_ = cmd.Wait()
	if err := s.Commands(); err == nil {
		t.Error("not in the command lines")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "metric{a=%q} 1", value) }))
	defer page.Close()
	if err := s.Page(t.Context(), page.URL); err == nil {
		t.Error("not in the page")
	}
}
