package app

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// testShare shares a cluster of Alice's with Bob, by the control plane's own RBAC.
func (f *fixture) testShare(t *testing.T) {
	c := f.connect(t, env.Alice, "shared")
	const binding = "shareds.example.com"
	if err := f.admin.Create(t.Context(), &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(c.ID), Name: binding, Labels: map[string]string{v1alpha1.LabelCluster: c.ID}},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "shared", API: v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: "shareds"}},
	}); err != nil {
		t.Fatal(err)
	}
	path := "/v1/clusters/" + c.ID + "/shares"
	share := func(s restapi.Share) (given restapi.Share) {
		t.Helper()
		eventually(t, "the share is given", func() error {
			if status, message := f.call(t, f.tokens[env.Alice], "POST", path, s, &given); status != http.StatusOK {
				return fmt.Errorf("%d %s", status, message)
			}
			return nil
		})
		return given
	}
	f.testNotShared(t, c)
	f.testNoShare(t, path)

	propose := share(restapi.Share{Role: restapi.RepositoryPropose, User: "bob@example.com", Binding: "shareds", Namespace: "team-a"})
	if propose.ID == "" || propose.User != "oidc:bob@example.com" || propose.Binding != binding {
		t.Errorf("given: %+v", propose)
	}
	dir := filepath.Join(t.TempDir(), "clone")
	eventually(t, "Bob clones", func() error {
		out, err := git(t, "", "clone", "-q", withCredential(c.RepositoryURL, "bob", f.tokens[env.Bob]), dir)
		if err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	commit(t, dir, "bindings/"+binding+"/claims/team-a/one.yaml")
	if out, err := git(t, dir, "push", "-q", "origin", "HEAD:changes/"+binding+"/team-a/one"); err != nil {
		t.Errorf("propose: %v %s", err, out)
	}
	if out, err := git(t, dir, "push", "-q", "origin", "HEAD:main"); err == nil || !strings.Contains(out, "you (oidc:bob@example.com) may not write") {
		t.Errorf("write: %v %s", err, out)
	}
	if status, message := f.call(t, f.tokens[env.Bob], "GET", "/v1/events?cluster="+c.ID, nil, nil); status != http.StatusForbidden {
		t.Errorf("events: %d %s", status, message)
	}

	write := share(restapi.Share{Role: restapi.RepositoryWrite, User: "oidc:bob@example.com", Namespace: "team-a"})
	if again := share(restapi.Share{Role: restapi.RepositoryWrite, User: "bob@example.com", Namespace: "team-a"}); again != write {
		t.Errorf("given twice: %+v, %+v", again, write)
	}
	eventually(t, "Bob writes", func() error {
		if out, err := git(t, dir, "push", "-q", "origin", "HEAD:main"); err != nil {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	f.testSharesAreSeen(t, c, path, write, propose)

	for _, s := range []restapi.Share{write, propose} {
		if status, message := f.call(t, f.tokens[env.Alice], "DELETE", path+"/"+s.ID, nil, nil); status != http.StatusOK {
			t.Errorf("take back: %d %s", status, message)
		}
		if status, _ := f.call(t, f.tokens[env.Alice], "DELETE", path+"/"+s.ID, nil, nil); status != http.StatusNotFound {
			t.Errorf("take back again: %d", status)
		}
	}
	eventually(t, "Bob is out", func() error {
		if out, err := gitRemote(t, c.RepositoryURL, "bob", f.tokens[env.Bob]); err == nil || !strings.Contains(out, "not found") {
			return fmt.Errorf("%w %s", errors.Join(err, errors.New("he still reads")), out)
		}
		return nil
	})
	var roles rbacv1.RoleList
	if err := f.admin.List(t.Context(), &roles, client.InNamespace(v1alpha1.TenantNamespace(c.ID)), client.HasLabels{v1alpha1.LabelShare}); err != nil || len(roles.Items) > 0 {
		t.Errorf("left: %v %v", roles.Items, err)
	}
}

// testNotShared has Bob try before he may.
func (f *fixture) testNotShared(t *testing.T, c restapi.Cluster) {
	t.Helper()
	if out, err := gitRemote(t, c.RepositoryURL, "bob", f.tokens[env.Bob]); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("read: %v %s", err, out)
	}
	shares := "/v1/clusters/" + c.ID + "/shares"
	mine := restapi.Share{Role: restapi.RepositoryWrite, User: "bob@example.com"}
	for _, try := range []struct {
		method, path string
		body         any
	}{{"GET", shares, nil}, {"POST", shares, mine}, {"DELETE", shares + "/abcdefghijkl", nil}} {
		if status, _ := f.call(t, f.tokens[env.Bob], try.method, try.path, try.body, nil); status != http.StatusNotFound {
			t.Errorf("%s %s: %d", try.method, try.path, status)
		}
	}
}

// testNoShare asks for shares that are none.
func (f *fixture) testNoShare(t *testing.T, path string) {
	t.Helper()
	for words, s := range map[string]restapi.Share{
		"role: it is one of":               {Role: "own", User: "bob"},
		"name one of them":                 {Role: restapi.RepositoryView},
		"user, group":                      {Role: restapi.RepositoryView, User: "bob", Group: "all"},
		"it has shareds.example.com":       {Role: restapi.RepositoryWrite, User: "bob", Binding: "databases"},
		"no name of a binding":             {Role: restapi.RepositoryWrite, User: "bob", Binding: "shareds:team-a"},
		"no name of a namespace":           {Role: restapi.RepositoryWrite, User: "bob", Namespace: "*"},
		"read as a whole":                  {Role: restapi.RepositoryView, User: "bob", Namespace: "team-a"},
		`"system:masters" is no name`:      {Role: restapi.RepositoryView, Group: "system:masters"},
		`"system:authenticated" is no nam`: {Role: restapi.RepositoryView, Group: "system:authenticated"},
	} {
		eventually(t, words, func() error {
			if status, message := f.call(t, f.tokens[env.Alice], "POST", path, s, nil); status < 400 || !strings.Contains(message, words) {
				return fmt.Errorf("%d %s", status, message)
			}
			return nil
		})
	}
}

func (f *fixture) testSharesAreSeen(t *testing.T, c restapi.Cluster, path string, want ...restapi.Share) {
	t.Helper()
	var shares []restapi.Share
	f.call(t, f.tokens[env.Alice], "GET", path, nil, &shares)
	if len(shares) != 2 || shares[0] != want[0] || shares[1] != want[1] {
		t.Errorf("shares: %+v, want %+v", shares, want)
	}
	eventually(t, "Bob sees it among his clusters", func() error {
		var bobs []restapi.Cluster
		f.call(t, f.tokens[env.Bob], "GET", "/v1/clusters", nil, &bobs)
		for _, b := range bobs {
			if b.ID == c.ID && b.Owner == "oidc:alice@example.com" && b.RepositoryURL == c.RepositoryURL {
				return nil
			}
		}
		return fmt.Errorf("his are %+v", bobs)
	})
	if status, _ := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/"+c.ID+"/credential/rotate", nil, nil); status != http.StatusNotFound {
		t.Errorf("Bob rotates its credential: %d", status)
	}
}

// commit commits a file as Bob.
func commit(t *testing.T, dir, path string) {
	t.Helper()
	file := filepath.Join(dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("plan: small\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "."}, {"-c", "user.name=Bob", "-c", "user.email=bob@example.com", "commit", "-q", "-m", "Order"}} {
		if out, err := git(t, dir, args...); err != nil {
			t.Fatal(err, out)
		}
	}
}

// testTransfer hands a cluster of Alice's over to Bob.
func (f *fixture) testTransfer(t *testing.T) {
	c := f.connect(t, env.Alice, "handed-over")
	path := "/v1/clusters/" + c.ID + "/transfer"
	as := func(user, path string, body any) (status int, message string) {
		t.Helper()
		eventually(t, path+" is answered", func() error {
			if status, message = f.call(t, f.tokens[user], "POST", path, body, nil); refusal.Passes(status) {
				return errors.New(message)
			}
			return nil
		})
		return status, message
	}
	for what, try := range map[string]struct {
		user, path string
		body       any
		want       int
	}{
		"somebody else's offer":   {env.Bob, path, restapi.TransferRequest{To: "bob@example.com"}, http.StatusNotFound},
		"nothing is offered":      {env.Bob, path + "/accept", nil, http.StatusNotFound},
		"no such cluster":         {env.Bob, "/v1/clusters/nosuchid/transfer/accept", nil, http.StatusNotFound},
		"a name that is reserved": {env.Alice, path, restapi.TransferRequest{To: "system:admin"}, http.StatusBadRequest},
	} {
		if status, message := as(try.user, try.path, try.body); status != try.want {
			t.Errorf("%s: %d %s", what, status, message)
		}
	}
	offer := func(to string, want string) {
		t.Helper()
		if status, message := as(env.Alice, path, restapi.TransferRequest{To: to}); status != http.StatusOK {
			t.Fatalf("offer: %d %s", status, message)
		}
		if got := f.binding(t, c.ID).Spec.TransferTo; got != want {
			t.Errorf("offered to %q, want %q", got, want)
		}
	}
	offer("bob@example.com", "oidc:bob@example.com")
	if status, _ := as(env.Carol, path+"/accept", nil); status != http.StatusNotFound {
		t.Errorf("Carol accepts what is offered to Bob: %d", status)
	}
	offer("", "")
	if status, _ := as(env.Bob, path+"/accept", nil); status != http.StatusNotFound {
		t.Errorf("Bob accepts what was withdrawn: %d", status)
	}
	offer("bob@example.com", "oidc:bob@example.com")
	if status, message := as(env.Bob, path+"/accept", nil); status != http.StatusOK {
		t.Fatalf("Bob accepts: %d %s", status, message)
	}
	if cb := f.binding(t, c.ID); cb.Spec.Owner.Username != "oidc:bob@example.com" || cb.Spec.TransferTo != "" || cb.Spec.ClusterUID != "handed-over" {
		t.Errorf("the cluster: %+v", cb.Spec)
	}
	eventually(t, "Bob has it and Alice has not", func() error {
		_, bobs := gitRemote(t, c.RepositoryURL, "bob", f.tokens[env.Bob])
		_, alices := gitRemote(t, c.RepositoryURL, "alice", f.tokens[env.Alice])
		if bobs != nil || alices == nil {
			return fmt.Errorf("Bob: %w, Alice: %w", bobs, alices)
		}
		return nil
	})
	if out, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password); err != nil {
		t.Errorf("the konnector: %v %s", err, out)
	}
	if again := f.connect(t, env.Bob, "handed-over"); again.ID != c.ID {
		t.Errorf("Bob connects it again: %s, want %s", again.ID, c.ID)
	}
}
