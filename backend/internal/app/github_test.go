package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
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

// TestRepositoriesOnGitHub runs the backend on a real API server, with the repositories on a
// fake GitHub.
func TestRepositoriesOnGitHub(t *testing.T) {
	t.Parallel()
	g := github.New(t)
	f := start(t, onGitHub(t, g))
	c := f.connect(t, env.Alice, "on-github")
	path := "/v1/clusters/" + c.ID + "/credential"
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: c.ID}}
	ready := func(want metav1.ConditionStatus) *metav1.Condition {
		t.Helper()
		return f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, want)
	}
	ready(metav1.ConditionTrue)
	if c.RepositoryURL != g.URL+"/"+g.Organization+"/"+c.ID+".git" || c.Credential.Git == nil || time.Until(c.Credential.Git.Expires) > time.Hour {
		t.Fatalf("connected: %+v", c)
	}
	if status, words := f.healthOf("/readyz"); status != http.StatusOK || !strings.Contains(words, "[+] github: ok") {
		t.Errorf("/readyz: %d %s", status, words)
	}
	bridge := func() restapi.GitCredential {
		t.Helper()
		var s corev1.Secret
		if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(c.ID), Name: v1alpha1.BridgeSecret}, &s); err != nil {
			t.Fatal(err)
		}
		expires, err := time.Parse(time.RFC3339, string(s.Data[v1alpha1.GitExpiresKey]))
		if err != nil || time.Until(expires) > time.Hour {
			t.Errorf("the bridge's expires %s: %v", expires, err)
		}
		user, password := v1alpha1.GitCredential(s.Data)
		return restapi.GitCredential{Username: user, Password: password}
	}
	ends := func(what string, git restapi.GitCredential) {
		t.Helper()
		eventually(t, what+" ends", func() error {
			if out, err := gitRemote(t, c.RepositoryURL, git.Username, git.Password); err == nil {
				return fmt.Errorf("it opens the repository: %s", out)
			}
			return nil
		})
	}
	konnector := *c.Credential.Git

	t.Run("each agent pushes to its branch and that is told", func(t *testing.T) {
		events := f.listen(t, c.ID, c.Credential.Username, c.Credential.Password)
		dir := filepath.Join(t.TempDir(), "clone")
		url := func(git restapi.GitCredential) string {
			return withCredential(c.RepositoryURL, git.Username, git.Password)
		}
		for _, args := range [][]string{
			{"clone", "-q", url(konnector), dir},
			{"-C", dir, "-c", "user.name=konnector", "-c", "user.email=k@example.org", "commit", "-q", "--allow-empty", "-m", "hello"},
			{"-C", dir, "push", "-q", url(konnector), "HEAD:main"},
			{"-C", dir, "push", "-q", url(bridge()), "HEAD:refs/heads/status"},
		} {
			if out, err := git(t, "", args...); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		for _, by := range []restapi.GitCredential{konnector, bridge()} {
			if out, err := git(t, dir, "push", "-q", url(by), "+HEAD~1:refs/heads/main"); err == nil || !strings.Contains(out, "GH013") {
				t.Errorf("main was set back by %s: %s", by.Username, out)
			}
		}
		head, _ := git(t, dir, "rev-parse", "HEAD")
		for e := next(t, events); e.Ref != "refs/heads/main" || e.Hash != strings.TrimSpace(head); {
			e = next(t, events)
		}
	})
	t.Run("D12_the Git host's part is renewed by itself and ends with the rest", func(t *testing.T) {
		if _, status, words := f.asks(t, "POST", path+"/git", "bridge", f.bridgeSecret(t, c.ID)); status < 400 || status >= 500 {
			t.Errorf("the bridge gets the konnector's: %d %s", status, words)
		}
		next := f.renewGit(t, path, c.Credential.Password)
		for what, git := range map[string]restapi.GitCredential{"the one before": konnector, "the next one": next} {
			if out, err := gitRemote(t, c.RepositoryURL, git.Username, git.Password); err != nil {
				t.Errorf("%s: %v\n%s", what, err, out)
			}
		}
		var rotated restapi.Credential
		if status, words := f.call(t, f.tokens[env.Alice], "POST", path+"/rotate", nil, &rotated); status != 200 || rotated.Git == nil {
			t.Fatalf("%d %s", status, words)
		}
		ends("the one before", konnector)
		ends("the next one", next)
		if out, err := gitRemote(t, c.RepositoryURL, rotated.Git.Username, rotated.Git.Password); err != nil {
			t.Errorf("the rotated one: %v\n%s", err, out)
		}
		before := bridge()
		f.kubectl(t, "annotate", "secret", "-n", v1alpha1.TenantNamespace(c.ID), v1alpha1.BridgeSecret, v1alpha1.RotateAnnotation+"=yes")
		ends("the bridge's before it was rotated", before)
		if status, words := f.call(t, f.tokens[env.Alice], "DELETE", path, nil, nil); status != 200 {
			t.Fatalf("%d %s", status, words)
		}
		ends("the revoked one", *rotated.Git)
		if _, status, _ := f.asks(t, "POST", path+"/git", "konnector", rotated.Password); status != http.StatusUnauthorized {
			t.Errorf("what was revoked gets another one: %d", status)
		}
	})
	// look has the ClusterBinding's controller ask the host.
	look := func(n int) {
		t.Helper()
		f.kubectl(t, "label", "--overwrite", "namespace", v1alpha1.TenantNamespace(c.ID), fmt.Sprintf("example.org/look=%d", n))
	}
	t.Run("what is the host's is said in the condition", func(t *testing.T) {
		ready(metav1.ConditionTrue)
		g.SetArchived(c.ID, true)
		look(1)
		if said := ready(metav1.ConditionFalse); said.Reason != "RepositoryArchived" {
			t.Errorf("archived: %+v", said)
		}
		g.SetArchived(c.ID, false)
		look(2)
		ready(metav1.ConditionTrue)

		g.SetAnswer(github.Limited(time.Now().Add(3 * time.Second)))
		look(3)
		if said := ready(metav1.ConditionFalse); said.Reason != "GitHostRateLimit" || regexp.MustCompile(`[0-9]`).MatchString(said.Message) {
			t.Errorf("limited: %+v", said)
		}
		g.SetAnswer(nil)
		ready(metav1.ConditionTrue) // by itself
	})
	t.Run("what is gone has no credentials", func(t *testing.T) {
		f.kubectl(t, "delete", "clusterbinding", c.ID, "--wait=false")
		eventually(t, "no token opens the repository", func() error {
			if n := g.Tokens(c.ID); n > 0 {
				return fmt.Errorf("%d do", n)
			}
			return nil
		})
	})
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
