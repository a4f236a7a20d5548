package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost/embedded"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/test/env"
)

const nowhere = `apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: x, user: {}}]
`

// A pod that is deleted is replaced before it has ended, and a volume may be mounted twice.
func TestABackendWaitsForTheOneThatHasItsRepositories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kubeconfig, repositories, half := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "git"), filepath.Join(dir, "git", ".new-of-the-other-one")
	if err := os.WriteFile(kubeconfig, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := embedded.Lock(t.Context(), repositories, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &fixture{health: "http://" + env.FreeAddress(t)}
	o := options{
		Options: program.Options{Kubeconfig: kubeconfig, HealthListen: strings.TrimPrefix(f.health, "http://")},
		listen:  env.FreeAddress(t), publicURL: "http://localhost", gitDir: repositories,
		oidc:               oidcOptions{issuer: "http://127.0.0.1:1", clientID: "x", usernameClaim: "email", prefix: "oidc:"},
		credentialLifetime: time.Hour,
	}
	begin := func() (log *logBuffer, end context.CancelFunc, ended chan error) {
		log, ended = &logBuffer{}, make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		go func() { ended <- run(ctx, o, slog.New(slog.NewTextHandler(log, nil))) }()
		eventually(t, "it says what it waits for", func() error {
			if !strings.Contains(log.String(), "Waiting for another process to end") || !strings.Contains(log.String(), repositories) {
				return fmt.Errorf("it says %s", log)
			}
			return nil
		})
		alive, _ := f.healthOf("/healthz")
		ready, _ := f.healthOf("/readyz")
		if alive != http.StatusOK || ready == http.StatusOK {
			t.Errorf("/healthz is %d, and /readyz %d", alive, ready)
		}
		return log, end, ended
	}
	_, end, ended := begin()
	end()
	if err := <-ended; err != nil {
		t.Errorf("told to end: %v", err)
	}

	log, end, ended := begin()
	if _, err := os.Stat(half); err != nil {
		t.Errorf("it has taken what the other one makes: %v", err)
	}
	unlock()
	eventually(t, "it starts", func() error {
		if !strings.Contains(log.String(), "Starting") {
			return fmt.Errorf("it says %s", log)
		}
		return nil
	})
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("what the other one left: %v", err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("told to end: %v", err)
	}
	if unlock, err = embedded.Lock(t.Context(), repositories, slog.Default()); err != nil {
		t.Fatal(err)
	}
	unlock()
}
