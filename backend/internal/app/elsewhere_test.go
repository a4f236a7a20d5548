package app

import (
	"context"
	"errors"
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
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/notify"
	"gitbind.dev/test/env"
	"gitbind.dev/test/github"
	"gitbind.dev/test/gitlab"
)

// fakeHost is a fake of somebody's Git host.
type fakeHost struct {
	// name is what /readyz calls it.
	name    string
	options func(*options)
	// page is below which its repositories are, and lifetime how long it lets a credential
	// count.
	page     string
	lifetime time.Duration
	// refuses is in what it says to a push that it refuses.
	refuses string
	archive func(cluster string, archived bool)
	limit   func(time.Duration) // 0 for no limit
	tokens  func(cluster string) int
	// shown are the words that commits show.
	shown func(cluster string) []string
}

// TestRepositoriesElsewhere runs the backend on a real API server, with the repositories on
// fakes of hosts that cannot be had.
func TestRepositoriesElsewhere(t *testing.T) {
	t.Parallel()
	hub, lab := github.New(t), gitlab.New(t, 0)
	for _, h := range []fakeHost{
		{
			name: "github", options: onGitHub(t, hub), page: hub.URL + "/" + hub.Organization, lifetime: time.Hour, refuses: "GH013",
			archive: hub.SetArchived, tokens: hub.Tokens, shown: hub.Titles,
			limit: func(d time.Duration) {
				if d == 0 {
					hub.SetAnswer(nil)
					return
				}
				hub.SetAnswer(github.Limited(time.Now().Add(d)))
			},
		},
		{
			name: "gitlab", options: onGitLab(t, lab), page: lab.Server.URL + "/" + lab.Group, lifetime: 60 * 24 * time.Hour, refuses: "GitLab: You are not allowed to force push",
			archive: lab.SetArchived, limit: lab.Limit, tokens: func(cluster string) int { return len(lab.Tokens(cluster)) },
			shown: lab.Descriptions,
		},
	} {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			h.test(t)
		})
	}
}

func (h fakeHost) test(t *testing.T) {
	f := start(t, h.options)
	c := f.connect(t, env.Alice, "elsewhere")
	path := "/v1/clusters/" + c.ID + "/credential"
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: c.ID}}
	ready := func(want metav1.ConditionStatus) *metav1.Condition {
		t.Helper()
		return f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, want)
	}
	ready(metav1.ConditionTrue)
	lives := func(expires time.Time) bool {
		left := time.Until(expires)
		return left > h.lifetime/2 && left <= h.lifetime
	}
	if c.RepositoryURL != h.page+"/"+c.ID+".git" || c.Credential.Git == nil || !lives(c.Credential.Git.Expires) {
		t.Fatalf("connected: %+v", c)
	}
	if status, words := f.healthOf("/readyz"); status != http.StatusOK || !strings.Contains(words, "[+] "+h.name+": ok") {
		t.Errorf("/readyz: %d %s", status, words)
	}
	bridge := func() restapi.GitCredential {
		t.Helper()
		var s corev1.Secret
		if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(c.ID), Name: v1alpha1.BridgeSecret}, &s); err != nil {
			t.Fatal(err)
		}
		expires, err := time.Parse(time.RFC3339, string(s.Data[v1alpha1.GitExpiresKey]))
		if err != nil || !lives(expires) {
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
			if out, err := git(t, dir, "push", "-q", url(by), "+HEAD~1:refs/heads/main"); err == nil || !strings.Contains(out, h.refuses) {
				t.Errorf("main was set back by %s: %s", by.Username, out)
			}
		}
		head, _ := git(t, dir, "rev-parse", "HEAD")
		for e := next(t, events); e.Ref != "refs/heads/main" || e.Hash != strings.TrimSpace(head); {
			e = next(t, events)
		}
		// Before the host tells of it, an agent does.
		pushed := notify.AnnouncementsFor(f.url, c.RepositoryURL)
		go notify.Listen(t.Context(), notify.Options{
			URL: f.url, ClusterID: c.ID, OnEvent: func(string, store.Hash) {}, Announcements: pushed,
			Credentials: func(context.Context) (string, string, error) {
				return c.Credential.Username, c.Credential.Password, nil
			},
		})
		said := strings.Repeat("a1", 20)
		pushed.Add("main", store.Hash(said))
		for e := next(t, events); e.Hash != said; {
			e = next(t, events)
		}
	})
	t.Run("that a quota has no room is shown until it has", func(t *testing.T) {
		f.testQuota(t, c, bridge(), konnector, h.shown)
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
		h.archive(c.ID, true)
		look(1)
		eventually(t, "that it is archived is said", func() error {
			// What was under way then may have met a refusal of something else.
			if said := ready(metav1.ConditionFalse); said.Reason != "RepositoryArchived" {
				return fmt.Errorf("archived: %+v", said)
			}
			return nil
		})
		h.limit(3 * time.Second)
		look(2)
		eventually(t, "a rate limit is said", func() error {
			if said := ready(metav1.ConditionFalse); said.Reason != "GitHostRateLimit" || regexp.MustCompile(`[0-9]`).MatchString(said.Message) {
				return fmt.Errorf("limited: %+v", said)
			}
			return nil
		})
		h.archive(c.ID, false)
		h.limit(0)
		ready(metav1.ConditionTrue) // by itself
	})
	t.Run("what is gone has no credentials", func(t *testing.T) {
		f.kubectl(t, "delete", "clusterbinding", c.ID, "--wait=false")
		eventually(t, "no token opens the repository", func() error {
			if n := h.tokens(c.ID); n > 0 {
				return fmt.Errorf("%d do", n)
			}
			return nil
		})
	})
}

// testQuota has a claim proposed for which there is no room, by what the bridge says.
func (f *fixture) testQuota(t *testing.T, c restapi.Cluster, bridge, konnector restapi.GitCredential, shown func(cluster string) []string) {
	const binding = "postgresqlinstances.anynines.com"
	file, err := os.ReadFile("../../../gitbridge/internal/export/testdata/postgresqlinstances.export.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api := v1alpha1.ExportedAPI{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
	quota := &v1alpha1.Quota{Cluster: &v1alpha1.QuotaLimit{Claims: new(int64(5))}}
	export := &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(c.ID), Name: binding}, Spec: v1alpha1.APIServiceExportSpec{Template: "offer", API: api},
	}
	for _, o := range []client.Object{
		&v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: "offer"}, Spec: v1alpha1.APIServiceExportTemplateSpec{API: api, Quota: quota}},
		export,
	} {
		if err := f.admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	// counted is what the bridge does.
	counted := func(claims int64) {
		t.Helper()
		was := export.DeepCopy()
		export.Status.Quota = &v1alpha1.QuotaUsage{QuotaHash: quota.Hash(), Claims: claims, Weight: claims}
		if err := (status.Part{Owner: "bridge", Fields: []string{"quota"}}).Write(t.Context(), f.admin, was, export); err != nil {
			t.Fatal(err)
		}
	}
	counted(5)
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := git(t, "", "clone", "-q", withCredential(c.RepositoryURL, bridge.Username, bridge.Password), dir); err != nil {
		t.Fatal(err, out)
	}
	push := func(as restapi.GitCredential, path, data, ref string) {
		t.Helper()
		file := filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"add", "."}, {"-c", "user.name=agent", "-c", "user.email=a@example.org", "commit", "-q", "-m", "Order"},
			{"push", "-q", withCredential(c.RepositoryURL, as.Username, as.Password), "HEAD:" + ref},
		} {
			if out, err := git(t, dir, args...); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
	}
	key := contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
	push(bridge, contract.ExportPath(binding), string(file), "refs/heads/status")
	if out, err := git(t, dir, "checkout", "-q", "-B", "order", "origin/main"); err != nil {
		t.Fatal(err, out)
	}
	push(konnector, key.Path(), "apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: orders, namespace: team-a}\nspec: {service: a9s-postgresql13, plan: postgresql-single-nano}\n",
		"refs/heads/changes/"+binding+"/team-a/orders")
	// Nobody tries it here, which is waited for first.
	untried := strings.NewReplacer(", being tried on the control plane", "", ", not tried on the control plane", "")
	last := func(want string) {
		t.Helper()
		eventually(t, "it is shown", func() error {
			if all := shown(c.ID); len(all) == 0 || untried.Replace(all[len(all)-1]) != want {
				return fmt.Errorf("%q", all)
			}
			return nil
		})
	}
	last("It orders 1 service, but team-a/orders would wait: this cluster has 5 claims of this API, and may have 5. Delete one, or ask the platform's operator for more")
	counted(4)
	last("It orders 1 service")
	if out, err := git(t, dir, "push", "-q", withCredential(c.RepositoryURL, konnector.Username, konnector.Password), ":refs/heads/changes/"+binding+"/team-a/orders"); err != nil {
		t.Fatal(err, out)
	}
}

// onGitLab has the repositories on a fake GitLab, as docs/gitlab.md asks for.
func onGitLab(t *testing.T, f *gitlab.Fake) func(*options) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, f.Person("gitbind", gitlab.Maintainer, "api"))
	return func(o *options) {
		o.remote.gitlab = gitlabOptions{tokenOptions: tokenOptions{url: f.Server.URL, tokenFile: file, approvals: 1}, group: f.Group}
	}
}
