package app

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/github"
)

// onGitHub has the repositories on a fake GitHub, with two Apps that have the rights that
// docs/github.md asks for and no others.
func onGitHub(t *testing.T, g *github.GitHub) func(*options) {
	t.Helper()
	app := func(slug string, rights map[string]string) appOptions {
		id, key := g.AddApp(slug, rights)
		file := filepath.Join(t.TempDir(), slug)
		if err := os.WriteFile(file, key, 0o600); err != nil {
			t.Fatal(err)
		}
		return appOptions{id: id, keyFile: file}
	}
	return func(o *options) {
		o.remote.github = githubOptions{
			url: g.URL, organization: g.Organization, approvals: 1,
			backend: app("gitbind", map[string]string{
				"administration": "write", "checks": "write", "contents": "write", "metadata": "read", "pull_requests": "write", "repository_hooks": "write",
			}),
			konnector: app("gitbind-konnector", map[string]string{"contents": "write", "metadata": "read"}),
		}
	}
}

// renewGit is another credential of the Git host for a konnector.
func (f *fixture) renewGit(t *testing.T, path, password string) (git restapi.GitCredential) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path+"/git", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("konnector", password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&git); err != nil || resp.StatusCode != http.StatusOK || git.Password == "" || git.RenewAfter.IsZero() {
		t.Fatalf("%s %+v %v", resp.Status, git, err)
	}
	return git
}
