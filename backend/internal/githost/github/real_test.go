package github

import (
	"flag"
	"os"
	"testing"

	"gitbind.dev/backend/internal/githost/hosttest"
)

// What TestReal needs: docs/github.md.
var real struct {
	organization, url, user string
	backend, konnector      struct {
		id  int64
		key string
	}
}

func TestMain(m *testing.M) {
	flag.StringVar(&real.organization, "github", "", "organization on the real GitHub to run TestReal in: it makes and deletes private repositories there")
	flag.StringVar(&real.url, "github-url", "https://github.com", "URL of GitHub, or of a GitHub Enterprise Server")
	flag.StringVar(&real.user, "github-user", "", "a member who may administer repositories; GITHUB_TOKEN has a classic token with the scopes repo and delete_repo")
	flag.Int64Var(&real.backend.id, "github-app-id", 0, "number of the backend's App")
	flag.StringVar(&real.backend.key, "github-app-key-file", "", "its private key")
	flag.Int64Var(&real.konnector.id, "github-konnector-app-id", 0, "number of the konnectors' App")
	flag.StringVar(&real.konnector.key, "github-konnector-app-key-file", "", "its private key")
	flag.Parse()
	os.Exit(m.Run())
}

// TestReal is TestConformance on the real GitHub.
func TestReal(t *testing.T) {
	t.Parallel()
	if real.organization == "" {
		t.Skip("needs an organization on GitHub: docs/github.md")
	}
	app := func(id int64, file string) App {
		return App{ID: id, Key: func() ([]byte, error) { return os.ReadFile(file) }}
	}
	cfg := Config{
		URL: real.url, Organization: real.organization, Hooks: "https://gitbind.example.com/v1/webhooks/github/", Approvals: 1,
		Backend: app(real.backend.id, real.backend.key), Konnector: app(real.konnector.id, real.konnector.key),
	}
	if err := New(cfg).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := world(t, cfg, real.user, os.Getenv("GITHUB_TOKEN"))
	w.Few = true
	hosttest.Run(t, w)
}
