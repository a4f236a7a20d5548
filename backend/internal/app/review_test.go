package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// testReview has Bob propose a change of a cluster of Alice's, and Carol approve it, each by
// what the control plane's RBAC lets them.
func (f *fixture) testReview(t *testing.T) {
	c := f.connect(t, env.Alice, "reviewed")
	const binding, branch = "revieweds.example.com", "changes/revieweds.example.com/team-a/one"
	if err := f.admin.Create(t.Context(), &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(c.ID), Name: binding, Labels: map[string]string{v1alpha1.LabelCluster: c.ID}},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "reviewed", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "revieweds"}},
	}); err != nil {
		t.Fatal(err)
	}
	path := "/v1/clusters/" + c.ID
	for user, role := range map[string]restapi.RepositoryRole{"bob@example.com": restapi.RepositoryPropose, "carol@example.com": restapi.RepositoryApprove} {
		eventually(t, "it is shared", func() error {
			if status, message := f.call(t, f.tokens[env.Alice], "POST", path+"/shares", restapi.Share{Role: role, User: user, Binding: binding, Namespace: "team-a"}, nil); status != http.StatusOK {
				return fmt.Errorf("%d %s", status, message)
			}
			return nil
		})
	}
	dir := filepath.Join(t.TempDir(), "clone")
	eventually(t, "Bob clones", func() error {
		if out, err := git(t, "", "clone", "-q", withCredential(c.RepositoryURL, "bob", f.tokens[env.Bob]), dir); err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	order := func(name string) {
		t.Helper()
		commit(t, dir, "bindings/"+binding+"/claims/team-a/"+name+".yaml")
		if out, err := git(t, dir, "push", "-q", "origin", "HEAD:"+branch); err != nil {
			t.Fatal(err, out)
		}
	}
	order("one")
	seen := func(user string) (change restapi.Change) {
		t.Helper()
		eventually(t, user+" looks at the change", func() error {
			if status, message := f.call(t, f.tokens[user], "GET", path+"/"+branch, nil, &change); status != http.StatusOK {
				return fmt.Errorf("%d %s", status, message)
			}
			return nil
		})
		return change
	}
	if change := seen(env.Bob); change.MayApprove || !change.MayComment || !strings.Contains(change.Blocked, "may not approve changes of binding "+binding+", namespace team-a") {
		t.Errorf("Bob is shown %+v", change)
	}
	if change := seen(env.Alice); !change.MayApprove || len(change.Files) != 1 || change.Files[0].Name != "one" || change.Files[0].Problem == "" {
		t.Errorf("Alice is shown %+v", change)
	}
	change := seen(env.Carol)
	approval := restapi.Review{Branch: branch, Head: change.Head, Effect: change.Effect, Verdict: restapi.VerdictApprove, Message: "Right so."}
	f.testNoReview(t, path, approval)

	// What Bob adds, Carol has not seen.
	order("two")
	if status, message := f.call(t, f.tokens[env.Carol], "POST", path+"/reviews", approval, nil); status != http.StatusConflict || !strings.Contains(message, "look again") {
		t.Errorf("approve what was not seen: %d %s", status, message)
	}
	change = seen(env.Carol)
	approval.Head, approval.Effect = change.Head, change.Effect
	events := f.listen(t, c.ID, c.Credential.Username, c.Credential.Password)
	var done restapi.Reviewed
	if status, message := f.call(t, f.tokens[env.Carol], "POST", path+"/reviews", approval, &done); status != http.StatusOK || done.Merged == "" {
		t.Fatalf("approve: %d %s", status, message)
	}
	for e := next(t, events); e.Ref != "refs/heads/main" || e.Hash != done.Merged; {
		e = next(t, events)
	}
	if out, err := git(t, dir, "pull", "-q", "--prune", "origin", "main"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := git(t, dir, "log", "-1", "--format=%H %an %ae"); err != nil || out != done.Merged+" oidc:carol@example.com oidc%3Acarol%40example.com@people.gitbind.dev\n" {
		t.Errorf("main: %v %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "bindings", binding, "claims/team-a/two.yaml")); err != nil {
		t.Error(err)
	}
	var left []restapi.Change
	if status, message := f.call(t, f.tokens[env.Carol], "GET", path+"/changes", nil, &left); status != http.StatusOK || len(left) > 0 {
		t.Errorf("left: %d %s %v", status, message, left)
	}
	if status, _ := f.call(t, f.tokens[env.Carol], "POST", path+"/reviews", approval, nil); status != http.StatusNotFound {
		t.Errorf("approve again: %d", status)
	}
	f.testNoReviewOfTwo(t, c.ID, dir, binding)
}

// testNoReviewOfTwo has Bob, who may propose in two namespaces, have Carol decide on what is proposed in the
// other one: with commits that his own take back.
func (f *fixture) testNoReviewOfTwo(t *testing.T, id, dir, binding string) {
	t.Helper()
	path, claims := "/v1/clusters/"+id, "bindings/"+binding+"/claims/"
	eventually(t, "it is shared", func() error {
		share := restapi.Share{Role: restapi.RepositoryPropose, User: "bob@example.com", Binding: binding, Namespace: "team-b"}
		if status, message := f.call(t, f.tokens[env.Alice], "POST", path+"/shares", share, nil); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
	run := func(args ...string) {
		t.Helper()
		if out, err := git(t, dir, args...); err != nil {
			t.Fatal(err, out)
		}
	}
	branch := "changes/" + binding + "/team-a/three"
	run("checkout", "-q", "-b", "theirs")
	commit(t, dir, claims+"team-b/one.yaml")
	run("checkout", "-q", "-b", "ours", "HEAD~1")
	commit(t, dir, claims+"team-a/three.yaml")
	run("-c", "user.name=bob", "-c", "user.email=bob@example.com", "merge", "-q", "-s", "ours", "-m", "Merge", "theirs")
	eventually(t, "Bob proposes both", func() error {
		out, err := git(t, dir, "push", "-q", "origin", "theirs:changes/"+binding+"/team-b/one", "ours:"+branch)
		if err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	var change restapi.Change
	const words = "namespace team-b, which its commits touch"
	if status, message := f.call(t, f.tokens[env.Carol], "GET", path+"/"+branch, nil, &change); status != http.StatusOK || change.MayApprove || !strings.Contains(change.Blocked, words) || len(change.Files) != 1 {
		t.Errorf("Carol is shown %d %s %+v", status, message, change)
	}
	approval := restapi.Review{Branch: branch, Head: change.Head, Effect: change.Effect, Verdict: restapi.VerdictApprove}
	if status, message := f.call(t, f.tokens[env.Carol], "POST", path+"/reviews", approval, nil); status != http.StatusForbidden || !strings.Contains(message, words) {
		t.Errorf("Carol approves: %d %s", status, message)
	}
	if status, message := f.call(t, f.tokens[env.Alice], "POST", path+"/reviews", approval, nil); status != http.StatusOK {
		t.Errorf("Alice approves: %d %s", status, message)
	}
}

// testNoReview has people approve what they may not.
func (f *fixture) testNoReview(t *testing.T, path string, approval restapi.Review) {
	t.Helper()
	if status, message := f.call(t, f.tokens[env.Bob], "POST", path+"/reviews", approval, nil); status != http.StatusForbidden {
		t.Errorf("Bob approves: %d %s", status, message)
	}
	if status, message := f.call(t, "", "POST", path+"/reviews", approval, nil); status != http.StatusUnauthorized {
		t.Errorf("nobody approves: %d %s", status, message)
	}
	other := f.connect(t, env.Bob, "nobody-elses")
	for _, at := range []string{"/changes", "/" + approval.Branch} {
		if status, message := f.call(t, f.tokens[env.Carol], "GET", "/v1/clusters/"+other.ID+at, nil, nil); status != http.StatusNotFound || !strings.Contains(message, "no such cluster") {
			t.Errorf("Carol looks at %s of Bob's cluster: %d %s", at, status, message)
		}
	}
	if status, message := f.call(t, f.tokens[env.Carol], "POST", "/v1/clusters/"+other.ID+"/reviews", approval, nil); status != http.StatusNotFound || !strings.Contains(message, "no such cluster") {
		t.Errorf("Carol reviews in Bob's cluster: %d %s", status, message)
	}
	for _, branch := range []string{"changes/..%2f..%2fmain", "changes/nothing", "changes/%00", "changes/-n"} {
		if status, message := f.call(t, f.tokens[env.Alice], "GET", path+"/"+branch, nil, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", branch, status, message)
		}
	}
	if status, message := f.call(t, f.tokens[env.Carol], "POST", path+"/reviews", `{"branch":"changes/x","approve":true}`, nil); status != http.StatusBadRequest {
		t.Errorf("an unknown field: %d %s", status, message)
	}
}
