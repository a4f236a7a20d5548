package env

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	t.Run("one that ends at once is an error with the end of its log", func(t *testing.T) {
		err := shell(t, "echo no such luck; exit 3", func(context.Context) error { return errors.New("never") }).Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no such luck") || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("one that is never ready is killed", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		p := shell(t, "exec sleep 60", func(context.Context) error { return errors.New("still warming up") })
		if err := p.Start(ctx); err == nil || !strings.Contains(err.Error(), "still warming up") {
			t.Errorf("got %v", err)
		}
		if p.PID() != 0 {
			t.Error("it still runs")
		}
	})
	t.Run("the log of an earlier run is not taken for that of the present", func(t *testing.T) {
		p := shell(t, "echo address already in use; exit 1", func(context.Context) error { return errors.New("never") })
		if err := p.Start(t.Context()); !errors.Is(err, errPortTaken) {
			t.Errorf("got %v, want errPortTaken", err)
		}
		p.args[1] = "echo something else; exit 1"
		if err := p.Start(t.Context()); err == nil || errors.Is(err, errPortTaken) {
			t.Errorf("got %v, want another error", err)
		}
	})
	t.Run("one that does not listen to SIGTERM is killed when the context ends", func(t *testing.T) {
		p := shell(t, "trap '' TERM; echo ready; while true; do sleep 1; done", nil)
		p.ready = func(context.Context) error {
			if log, err := os.ReadFile(p.LogPath); err != nil || !strings.Contains(string(log), "ready") {
				return errors.New("its shell has not come so far")
			}
			return nil
		}
		fatal(t, p.Start(t.Context()))
		if err := p.Start(t.Context()); err == nil {
			t.Error("it was started twice")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		fatal(t, p.Stop(ctx))
		if p.PID() != 0 || p.Signal(syscall.SIGCONT) == nil {
			t.Error("it still runs")
		}
		fatal(t, p.Stop(t.Context()))
		fatal(t, p.Kill())
	})
}

func TestPortTaken(t *testing.T) {
	attempts := 0
	err := withPorts(t.Context(), 2, func(_ context.Context, ports []int) error {
		attempts++
		l, err := net.Listen("tcp", address(ports[1]))
		fatal(t, err)
		defer l.Close()
		if attempts == 1 {
			return errPortTaken
		}
		return nil
	})
	if err != nil || attempts != 2 {
		t.Errorf("got %v after %d attempts, want success after 2", err, attempts)
	}
	final := errors.New("no")
	if err := withPorts(t.Context(), 1, func(context.Context, []int) error { return final }); !errors.Is(err, final) {
		t.Errorf("got %v, want the error of the start", err)
	}
}

// TestPortTakenByOthers shows that etcd's own words are understood.
func TestPortTakenByOthers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a real etcd: not with -short")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer l.Close()
	p, err := build(t.Context(), t.Output(), func(p part) bool { return p.name == etcd })
	fatal(t, err)
	url := "http://" + l.Addr().String()
	e := testProcess(t, p[etcd], []string{
		"--data-dir=" + t.TempDir(), "--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=http://127.0.0.1:0",
	}, httpReady(url+"/readyz", nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Start(ctx); !errors.Is(err, errPortTaken) {
		t.Errorf("got %v, want errPortTaken", err)
	}
}

func shell(t *testing.T, script string, ready func(context.Context) error) *Process {
	return testProcess(t, "/bin/sh", []string{"-c", script}, ready)
}

func testProcess(t *testing.T, path string, args []string, ready func(context.Context) error) *Process {
	t.Helper()
	s := NewSpawner()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	return &Process{
		Name: filepath.Base(path), LogPath: filepath.Join(dir, "log"),
		path: path, args: args, dir: dir, ready: ready, spawner: s,
	}
}
