package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

var onGitea = flag.Bool("gitea", false, "run the tests that have a Gitea, which is built first (6 minutes)")

// company has two people of a team.
type company struct{ *platform.Company }

const ada, ben, password = "ada", "ben", platform.PeoplePassword

// api asks as a person, and gives the status of a refusal.
func (g *company) api(t *testing.T, user, method, path string, body, out any) int {
	t.Helper()
	err := g.As(t.Context(), user, method, path, body, out)
	var refused *env.GiteaError
	switch {
	case errors.As(err, &refused):
		t.Logf("%v", err)
		return refused.Status
	case err != nil:
		t.Fatal(err)
	}
	return http.StatusOK
}

func (g *company) must(t *testing.T, user, method, path string, body, out any) {
	t.Helper()
	if status := g.api(t, user, method, path, body, out); status != http.StatusOK {
		t.Fatalf("%s %s as %s: %d", method, path, user, status)
	}
}

// proposed has Ada propose a change, and gives its path and commit.
func (g *company) proposed(t *testing.T, c *tenant, branch, message string, change func(dir string)) (pull, commit string) {
	t.Helper()
	git := func(args ...string) { t.Helper(); must(t)(c.Git(t.Context(), c.user, c.clone, args...)) }
	git("fetch", "--quiet")
	git("checkout", "--quiet", "-B", branch, "origin/main")
	change(c.clone)
	git("add", "--all")
	git("commit", "--quiet", "--message", message)
	git("push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	return must(t)(g.Open(t.Context(), ada, branch, message)), strings.TrimSpace(must(t)(c.Git(t.Context(), c.user, c.clone, "rev-parse", "HEAD")))
}

// says waits for what the control plane says of a commit.
func (g *company) says(t *testing.T, commit, state, words string) {
	t.Helper()
	eventually(t, "the pull request says "+words, func(ctx context.Context) (string, bool) {
		is, says, err := g.Says(ctx, ada, strings.TrimSpace(commit))
		return fmt.Sprint(is, ": ", says, err), is == state && strings.Contains(says, words)
	})
}

// merged has Ada propose a change, and Ben approve and merge it. Its commit says words before,
// and then outcome.
func (g *company) merged(t *testing.T, c *tenant, branch, message, words, outcome string, change func(dir string)) (at time.Time) {
	t.Helper()
	path, commit := g.proposed(t, c, branch, message, change)
	g.says(t, commit, "success", words)
	if status := g.api(t, ada, http.MethodPost, path+"/merge", map[string]any{"Do": "merge"}, nil); status == http.StatusOK {
		t.Errorf("Ada merged her own change, which nobody had approved")
	}
	at = g.mergedByBen(t, path)
	g.says(t, commit, "success", outcome)
	return at
}

// mergedByBen has Ben approve and merge, and tells when he asked for it.
func (g *company) mergedByBen(t *testing.T, path string) time.Time {
	t.Helper()
	if err := g.Approve(t.Context(), ben, path); err != nil {
		t.Fatal(err)
	}
	at, err := g.Merge(t.Context(), ben, path)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// reviewsKubectl has somebody use kubectl where changes are reviewed, and Ben close and merge
// what comes of it.
func (g *company) reviewsKubectl(t *testing.T, c *tenant) {
	ctx := t.Context()
	must(t)(c.Kubectl(ctx, c.admin(), "create", "namespace", "team-reviewed"))
	must(t)(c.Kubectl(ctx, c.admin(), "label", "namespace", "team-reviewed", "gitbind.dev/changes=PullRequest"))
	condition := func(kind, reason, words string) {
		t.Helper()
		eventually(t, kind+" is "+reason, func(ctx context.Context) (string, bool) {
			out, err := c.Kubectl(ctx, c.admin(), "get", "postgresqlinstance", "by-kubectl", "-n", "team-reviewed", "-o",
				`jsonpath={.status.gitbind.conditions[?(@.type=="`+kind+`")].reason}: {.status.gitbind.conditions[?(@.type=="`+kind+`")].message}`)
			return out, err == nil && strings.HasPrefix(out, reason+": ") && strings.Contains(out, words)
		})
	}
	pull := func(title string) string {
		t.Helper()
		return eventually(t, "there is a pull request", func(ctx context.Context) (string, bool) {
			var open []struct {
				Number int64
				Title  string
			}
			err := g.API(ctx, ben, password, http.MethodGet, "/repos"+g.Repository+"/pulls?state=open", nil, &open)
			for _, p := range open {
				if strings.HasPrefix(p.Title, title) {
					return fmt.Sprint(p.Number), true
				}
			}
			return fmt.Sprint(open, err), false
		})
	}
	order := func(plan string) {
		c.apply(t, strings.Replace(manifest("by-kubectl", plan), "team-a", "team-reviewed", 1))
	}
	order(nano)
	number := pull("claim: create team-reviewed/by-kubectl")
	condition("AwaitingReview", "Proposed", g.Repository+"/pulls/"+number)
	g.must(t, ben, http.MethodPatch, "/repos"+g.Repository+"/pulls/"+number, map[string]any{"state": "closed"}, nil)
	condition("Held", "Rejected", "rejected this change")

	order(small)
	next := pull("claim: create team-reviewed/by-kubectl")
	if next == number {
		t.Fatal("what was closed is open again")
	}
	condition("AwaitingReview", "Proposed", g.Repository+"/pulls/"+next)
	path := "/repos" + g.Repository + "/pulls/" + next
	g.mergedByBen(t, path)
	c.until(t, c.control, "what is merged is on the control plane", has("by-kubectl", small))
	condition("Committed", "Committed", "")
	condition("AwaitingReview", "None", "")
	eventually(t, "the branch is gone", func(ctx context.Context) (string, bool) {
		out, err := c.Git(ctx, c.user, c.clone, "ls-remote", g.CloneURL(ada, password), "refs/heads/changes/*")
		return out, err == nil && !strings.Contains(out, "by-kubectl")
	})
}

// rendered is Markdown as people see it, in HTML.
func (g *company) rendered(t *testing.T, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"Text": text, "Mode": "gfm"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/api/v1/markdown", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(ben, password)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	html, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(html)
}

// TestOnGitea plays a company that has its repositories on a Gitea of its own.
func TestOnGitea(t *testing.T) {
	t.Parallel()
	if !*onGitea {
		t.Skip("needs a Gitea: make test-gitea")
	}
	ctx := t.Context()
	p := start(t, platform.Options{AppClusters: []string{env.App}, Gitea: true})
	c := register(t, p, env.Alice, env.App)
	g := &company{&platform.Company{Gitea: p.Gitea, Repository: "/" + platform.Organization + "/" + c.id}}
	if url := must(t)(p.CloneURL(ctx, env.App)); url != g.URL+g.Repository+".git" {
		t.Fatalf("the repository is at %s", url)
	}
	if err := g.Hire(ctx, ada, ben); err != nil {
		t.Fatal(err)
	}
	c.cloneFrom(t, g.CloneURL(ada, password))
	c.bindPostgresql(t)

	t.Run("kubectl apply is mirrored to it and answered", func(t *testing.T) {
		c.apply(t, manifest("orders", nano))
		c.until(t, c.control, "the claim is on the control plane", c.there("orders", nano))
		c.get(t, "orders")
	})
	t.Run("a pull request orders and changes and cancels", func(t *testing.T) {
		path := claims + "team-a/by-pull.yaml"
		// Others stay: the second removal that is half of a binding would be held.
		for i := range 3 {
			c.apply(t, manifest(fmt.Sprint("stays-", i), nano))
		}
		g.merged(t, c, "order", "Order it", "It orders 1 service", "team-a/by-pull is applied", func(dir string) { write(t, dir, path, manifest("by-pull", nano)) })
		c.until(t, c.control, "the claim is on the control plane", c.there("by-pull", nano))
		c.until(t, c.app, "the claim is in the app cluster", has("by-pull", nano))
		merged := g.merged(t, c, "change", "Change it", "It changes 1 service", "team-a/by-pull is applied", func(dir string) { write(t, dir, path, manifest("by-pull", small)) })
		there := c.until(t, c.control, "the control plane follows", c.there("by-pull", small))
		here := c.until(t, c.app, "the app cluster follows", has("by-pull", small))
		t.Logf("after the merge was asked for it took %s to the control plane, and %s to the app cluster", there.At.Sub(merged), here.At.Sub(merged))
		g.merged(t, c, "cancel", "Cancel it", "It cancels 1 service", "team-a/by-pull is deleted", func(dir string) {
			if err := os.Remove(filepath.Join(dir, path)); err != nil {
				t.Fatal(err)
			}
		})
		gone := func(e platform.Event) bool { return e.Type == watch.Deleted && e.Object.GetName() == "by-pull" }
		c.until(t, c.control, "the service is gone", gone)
		c.until(t, c.app, "the claim is gone", gone)
	})
	t.Run("a pull request says what the control plane would refuse", func(t *testing.T) {
		pull, commit := g.proposed(t, c, "too-much", "Order too much", func(dir string) { write(t, dir, claims+"team-a/huge.yaml", manifest("huge", "huge")) })
		g.says(t, commit, "failure", `spec.plan: Unsupported value: "huge"`)
		comments := func(word string) string {
			t.Helper()
			return eventually(t, "one comment says "+word, func(ctx context.Context) (string, bool) {
				var all []struct{ Body string }
				err := g.API(ctx, ben, password, http.MethodGet, strings.Replace(pull, "/pulls/", "/issues/", 1)+"/comments", nil, &all)
				if len(all) != 1 {
					return fmt.Sprint(all, err), false
				}
				return all[0].Body, strings.Contains(all[0].Body, word)
			})
		}
		comments("would be refused")
		out := must(t)(c.Plugin(ctx, c.user, c.admin(), "review", "pull-"+filepath.Base(pull)))
		for _, want := range []string{"huge", "would be refused", g.URL + g.Repository} {
			if !strings.Contains(out, want) {
				t.Errorf("it lacks %q:\n%s", want, out)
			}
		}
		write(t, c.clone, claims+"team-a/huge.yaml", manifest("huge", nano))
		must(t)(c.Git(ctx, c.user, c.clone, "commit", "--quiet", "--all", "--message", "Order less"))
		must(t)(c.Git(ctx, c.user, c.clone, "push", "--quiet", "origin", "HEAD:refs/heads/too-much"))
		g.says(t, must(t)(c.Git(ctx, c.user, c.clone, "rev-parse", "HEAD")), "success", "It orders 1 service")
		html := g.rendered(t, comments("**It orders 1 service.**"))
		for _, want := range []string{"<strong>It orders 1 service.</strong>", "<td>orders <code>PostgresqlInstance team-a/huge</code></td>", "<td><code>spec.plan</code></td>", "<td><code>" + nano + "</code></td>"} {
			if !strings.Contains(html, want) {
				t.Errorf("the comment lacks %s:\n%s", want, html)
			}
		}
		g.must(t, ada, http.MethodPatch, pull, map[string]any{"state": "closed"}, nil)
	})
	t.Run("E2_what kubectl changes is a pull request", func(t *testing.T) { g.reviewsKubectl(t, c) })
	t.Run("nobody pushes to what is others'", func(t *testing.T) {
		konnector := must(t)(c.Kubectl(ctx, c.admin(), "get", "secret", "-n", "gitbind-system", "-o", `go-template={{range .items}}{{with index .data "git-password"}}{{.|base64decode}}{{end}}{{end}}`))
		bridge := must(t)(c.Kubectl(ctx, c.Control(), "get", "secret", "-n", "gb-"+c.id, "-o", `go-template={{range .items}}{{with index .data "git-password"}}{{.|base64decode}}{{end}}{{end}}`))
		for _, tc := range []struct{ who, url, ref string }{
			{"Ada to main", g.CloneURL(ada, password), "main"},
			{"Ada to status", g.CloneURL(ada, password), "status"},
			{"the konnector to status", g.CloneURL("x", konnector), "status"},
			{"the bridge to main", g.CloneURL("x", bridge), "main"},
		} {
			must(t)(c.Git(ctx, c.user, c.clone, "fetch", "--quiet", "origin"))
			must(t)(c.Git(ctx, c.user, c.clone, "checkout", "--quiet", "-B", "forged", "origin/"+tc.ref))
			must(t)(c.Git(ctx, c.user, c.clone, "commit", "--quiet", "--allow-empty", "--message", "Forged"))
			if out, err := c.Git(ctx, c.user, c.clone, "push", tc.url, "HEAD:refs/heads/"+tc.ref); err == nil {
				t.Errorf("%s: it was taken\n%s", tc.who, out)
			}
			if out, err := c.Git(ctx, c.user, c.clone, "push", tc.url, "+HEAD~1:refs/heads/"+tc.ref); err == nil && !strings.Contains(out, "up-to-date") {
				t.Errorf("%s: main was rewritten\n%s", tc.who, out)
			}
		}
		// An agent's token is for this repository, and for nothing else.
		for _, path := range []string{"/user", "/admin/users", "/orgs/" + platform.Organization + "/teams"} {
			var refused *env.GiteaError
			if err := g.API(ctx, "x", konnector, http.MethodGet, path, nil, nil); !errors.As(err, &refused) {
				t.Errorf("the konnector's token gets %s: %v", path, err)
			}
		}
	})
	t.Run("a credential that was rotated ends there", func(t *testing.T) {
		secret := func() string {
			return must(t)(c.Kubectl(ctx, c.admin(), "get", "secret", "-n", "gitbind-system", "-o", `go-template={{range .items}}{{with index .data "git-password"}}{{.|base64decode}}{{end}}{{end}}`))
		}
		old := secret()
		c.plugin(t, "rotate")
		if secret() == old {
			t.Fatal("it is the same")
		}
		eventually(t, "the old one is refused", func(ctx context.Context) (string, bool) {
			out, err := c.Git(ctx, c.user, c.clone, "ls-remote", g.CloneURL("x", old))
			return out, err != nil
		})
		c.apply(t, manifest("after", nano))
		c.until(t, c.control, "the konnector goes on with the new one", c.there("after", nano))
		// Somebody removes its tokens on the host: it gets another one by itself.
		var tokens []struct {
			ID int64 `json:"id"`
		}
		account := "/users/gitbind-konnector-" + c.id + "/tokens"
		g.must(t, g.User, http.MethodGet, account, nil, &tokens)
		if len(tokens) != 1 {
			t.Errorf("it has the tokens %v", tokens)
		}
		for _, token := range tokens {
			g.must(t, g.User, http.MethodDelete, fmt.Sprint(account, "/", token.ID), nil, nil)
		}
		c.apply(t, manifest("again", nano))
		c.until(t, c.control, "the konnector has another one", c.there("again", nano))
	})
	t.Run("the doctor finds nothing wrong", func(t *testing.T) {
		if out, err := c.Plugin(ctx, c.user, c.admin(), "doctor"); err != nil || !strings.Contains(out, "the Git host takes it") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("it is down and comes back", func(t *testing.T) {
		if err := p.Gitea.Process.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		c.apply(t, manifest("meanwhile", nano))
		if err := p.Gitea.Process.Start(ctx); err != nil {
			t.Fatal(err)
		}
		c.until(t, c.control, "what was applied meanwhile arrives", c.there("meanwhile", nano))
	})
	t.Run("nobody is let in here", func(t *testing.T) {
		for _, args := range [][]string{{"share", "view", "--user", env.Bob, "--yes"}} {
			out, err := c.Plugin(ctx, c.user, c.admin(), args...)
			if err == nil || !strings.Contains(out+err.Error(), g.URL+g.Repository) {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
		}
	})
	t.Run("what is gone has no credentials", func(t *testing.T) {
		must(t)(c.Kubectl(ctx, c.Control(), "delete", "clusterbinding", c.id, "--wait=false"))
		for _, agent := range []string{"konnector", "bridge"} {
			eventually(t, agent+" has no token", func(ctx context.Context) (string, bool) {
				var tokens []any
				err := g.API(ctx, g.User, g.Password, http.MethodGet, "/users/gitbind-"+agent+"-"+c.id+"/tokens", nil, &tokens)
				return fmt.Sprint(tokens, err), err == nil && len(tokens) == 0
			})
		}
	})
}
