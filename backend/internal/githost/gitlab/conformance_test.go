package gitlab

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/hosttest"
	"gitbind.dev/backend/internal/githost/pulls"
	fake "gitbind.dev/test/gitlab"
)

var (
	realURL   = flag.String("gitlab-url", "", "URL of a real GitLab, on which projects are made and deleted")
	realGroup = flag.String("gitlab-group", "", "path of a group there")
	realToken = flag.String("gitlab-token-file", "", "file with a personal access token, with the scope api, of an Owner of the group")
)

func TestConformance(t *testing.T) {
	t.Parallel()
	f := fake.New(t, 20*time.Millisecond)
	conforms(t, hostOf(f, f.Person("gitbind", fake.Owner, "api")).cfg, false)
}

// TestOnARealGitLab is what somebody with an account runs: make test-gitlab.
func TestOnARealGitLab(t *testing.T) {
	if *realURL == "" {
		t.Skip("needs a GitLab: make test-gitlab GITLAB_URL=… GITLAB_GROUP=… GITLAB_TOKEN_FILE=…")
	}
	conforms(t, Config{
		URL: strings.TrimSuffix(*realURL, "/"), Group: *realGroup, Hooks: "https://gitbind.example.com/v1/webhooks/gitlab/",
		Token: func() (string, error) {
			data, err := os.ReadFile(*realToken)
			return strings.TrimSpace(string(data)), err
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}, true)
}

func conforms(t *testing.T, cfg Config, isReal bool) {
	w := world(t, cfg, isReal)
	hosttest.Run(t, w)
	t.Run("a developer merges what is proposed", func(t *testing.T) {
		t.Parallel()
		merging(t, w)
	})
	t.Run("neither the instance's nor the group's runners run what is pushed", func(t *testing.T) {
		t.Parallel()
		runners(t, w)
	})
}

// world is a host that the backend is an Owner on. People are a token of the group, with the
// role Developer.
func world(t *testing.T, cfg Config, isReal bool) hosttest.World {
	t.Helper()
	owner := New(cfg)
	developers := cfg
	secret := groupToken(t, owner, developer)
	developers.Token = func() (string, error) { return secret, nil }
	key, err := cfg.Token()
	must(t, err)
	return hosttest.World{
		People: &people{Host: New(developers), owner: owner, secret: secret},
		Start:  func() hosttest.Host { return New(cfg) },
		At: func(url string) hosttest.Host {
			at := cfg
			at.URL = url
			return New(at)
		},
		Key:  key,
		Sign: func(r *http.Request, _ []byte, secret string) { r.Header.Set("X-Gitlab-Token", secret) },
		// Rules by role do not tell the agents apart.
		Taken: []string{"the bridge pushes to main", "the konnector makes status", "the konnector pushes to status"},
		Few:   isReal,
	}
}

// merging has a Developer merge a change, by when the host has made its own rule for main, if
// it does.
func merging(t *testing.T, w hosttest.World) {
	p, id := w.People.(*people), "tmerging"+strings.ToLower(rand.Text()[:7])
	must(t, w.Start().Create(t.Context(), id))
	t.Cleanup(func() { w.Delete(t, id) })
	c, err := w.Start().Issue(t.Context(), id, konnector, "k")
	must(t, err)
	must(t, push(t, p.URL(id), clone(t, p.URL(id), c.Password), c.Password, "refs/heads/larger"))
	number := p.Propose(t, id, "larger", "More connections")
	// It may still be looking whether that can be merged.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		err := p.send(t.Context(), http.MethodPut, p.merges(id).one(number)+"/merge", map[string]any{}, nil)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if all := p.Pulls(t, id); len(all) != 1 || !all[0].Merged {
		t.Errorf("%+v", all)
	}
	must(t, w.Start().Create(t.Context(), id))
	for _, want := range rules {
		if shown, err := p.owner.rule(t.Context(), id, want.Name); err != nil || shown == nil || !want.is(shown) {
			t.Errorf("the rule of %s is %+v: %v", want.Name, shown, err)
		}
	}
}

// runners looks whether the host keeps what a project is made with.
func runners(t *testing.T, w hosttest.World) {
	p, id := w.People.(*people), "trunners"+strings.ToLower(rand.Text()[:7])
	must(t, w.Start().Create(t.Context(), id))
	t.Cleanup(func() { w.Delete(t, id) })
	var settings map[string]any
	must(t, p.owner.get(t.Context(), p.project(id), &settings))
	for _, name := range []string{"shared_runners_enabled", "group_runners_enabled", "auto_devops_enabled"} {
		if settings[name] != false {
			t.Errorf("%s is %v", name, settings[name])
		}
	}
}

// people are a Developer, and an Owner for what a Developer may not do.
type people struct {
	*Host
	owner  *Host
	secret string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *people) Credential() (username, password string) { return "ada", p.secret }

// named is a rule or a webhook.
type named struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

func (p *people) surroundings(t *testing.T, cluster string) (rules, hooks []named) {
	t.Helper()
	rules, err := list[named](t.Context(), p.owner, p.project(cluster)+"/protected_branches", "")
	must(t, err)
	hooks, err = list[named](t.Context(), p.owner, p.project(cluster)+"/hooks", "")
	must(t, err)
	return rules, hooks
}

func (p *people) Surroundings(t *testing.T, cluster string) int {
	rules, hooks := p.surroundings(t, cluster)
	return len(rules) + len(hooks)
}

func (p *people) Loosen(t *testing.T, cluster string) {
	rules, hooks := p.surroundings(t, cluster)
	for _, r := range rules {
		must(t, p.owner.send(t.Context(), http.MethodDelete, p.project(cluster)+"/protected_branches/"+r.Name, nil, nil))
	}
	for _, h := range hooks {
		must(t, p.owner.send(t.Context(), http.MethodDelete, fmt.Sprintf("%s/hooks/%d", p.project(cluster), h.ID), nil, nil))
	}
}

func (p *people) Propose(t *testing.T, cluster, branch, title string) int64 {
	var m merge
	must(t, p.send(t.Context(), http.MethodPost, p.project(cluster)+"/merge_requests", map[string]any{
		"source_branch": branch, "target_branch": "main", "title": title,
	}, &m))
	return m.Number
}

func (p *people) Close(t *testing.T, cluster string, number int64) {
	must(t, p.send(t.Context(), http.MethodPut, p.merges(cluster).one(number), map[string]any{"state_event": "close"}, nil))
}

func (p *people) Pulls(t *testing.T, cluster string) (all []pulls.Pull) {
	for n, more := 1, true; more; n++ {
		some, next, err := p.merges(cluster).Pulls(t.Context(), false, pulls.Page{Number: n, Size: pulls.PageSize})
		must(t, err)
		all, more = append(all, some...), next
	}
	return all
}

func (p *people) Comment(t *testing.T, cluster string, number int64, text string) {
	must(t, p.merges(cluster).AddComment(t.Context(), number, text))
}

func (p *people) Comments(t *testing.T, cluster string, number int64) (said []string) {
	for n, more := 1, true; more; n++ {
		some, next, err := p.merges(cluster).Comments(t.Context(), number, pulls.Page{Number: n, Size: pulls.PageSize})
		must(t, err)
		for _, c := range some {
			said = append(said, c.Body)
		}
		more = next
	}
	return said
}

func (p *people) Shown(t *testing.T, cluster, commit string) []githost.Check {
	type status struct {
		ID          int    `json:"id"`
		Name        string `json:"name"`
		Status      string `json:"status"`
		Description string `json:"description"`
		URL         string `json:"target_url"`
	}
	all, err := list[status](t.Context(), p.Host, p.project(cluster)+"/repository/commits/"+commit+"/statuses", "")
	must(t, err)
	all = slices.DeleteFunc(all, func(s status) bool { return s.Name != "gitbind" })
	if len(all) == 0 {
		return nil
	}
	// There is one for each branch that the commit is on.
	last := slices.MaxFunc(all, func(a, b status) int { return a.ID - b.ID })
	return []githost.Check{{Commit: commit, OK: last.Status == "success", Pending: last.Status == "pending", Words: last.Description, URL: last.URL}}
}

func (p *people) Rename(t *testing.T, cluster, to string) {
	must(t, p.owner.send(t.Context(), http.MethodPut, p.project(cluster), map[string]any{"path": to}, nil))
}

func (p *people) Archive(t *testing.T, cluster string) {
	must(t, p.owner.send(t.Context(), http.MethodPost, p.project(cluster)+"/archive", nil, nil))
}

// Delete deletes a project at once. The host would keep it for days.
func (p *people) Delete(t *testing.T, cluster string) {
	ctx := context.WithoutCancel(t.Context())
	var there project
	err := p.owner.get(ctx, p.project(cluster), &there)
	if code := status(err); code == http.StatusNotFound || code == http.StatusMovedPermanently {
		return
	}
	must(t, err)
	byID := fmt.Sprint("/projects/", there.ID)
	must(t, p.owner.send(ctx, http.MethodDelete, byID, nil, nil))
	if err := p.owner.get(ctx, byID, &there); err == nil && there.Deleted != "" {
		must(t, p.owner.send(ctx, http.MethodDelete, byID+"?permanently_remove=true&full_path="+url.QueryEscape(there.Path), nil, nil))
	}
}
