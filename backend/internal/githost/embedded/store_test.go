package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
)

// agent is a role's store, as the agents use it.
func (s *served) agent(t testing.TB, role access.Role, password string) *gitstore.Repository {
	t.Helper()
	name, email := contract.ComponentIdentity(contract.Konnector, cluster)
	if role == access.Bridge {
		name, email = contract.BridgeIdentity()
	}
	r, err := gitstore.Open(gitstore.Options{
		URL:         s.URL(cluster),
		Credentials: func(context.Context) (string, string, error) { return role.String(), password, nil },
		Committer:   store.Signature{Name: name, Email: email},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func put(email, path, content string) store.Edit {
	return store.Edit{
		Author: store.Signature{Name: "alice", Email: email}, Subject: "claim: update " + path,
		Apply: func(tree *store.Tree) error { return tree.Write(path, []byte(content)) },
	}
}

func TestAgentsWorkOnTheHostThroughTheStore(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, user := contract.Identity("oidc:alice@example.com", cluster)
	_, bridge := contract.BridgeIdentity()
	konnector := s.agent(t, access.Konnector, "konnector-"+cluster)
	gitbridge := s.agent(t, access.Bridge, "bridge-"+cluster)

	snap, err := konnector.Branch("main").Update(t.Context(), put(user, claimPath, "plan: small\n"))
	if err != nil {
		t.Fatal(err)
	}
	if last := s.moves.list()[0]; last.Hash != string(snap.Head()) {
		t.Errorf("announced %s, want %s", last.Hash, snap.Head())
	}
	seen, err := gitbridge.Branch("main").Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := seen.Read(claimPath); string(b) != "plan: small\n" {
		t.Errorf("the bridge reads %q, %v", b, err)
	}
	if _, err := gitbridge.Branch("status").Update(t.Context(), put(bridge, "observed.yaml", "commit: x\n")); err != nil {
		t.Errorf("the bridge makes the branch status: %v", err)
	}

	// Several writers, among them a person, on one branch.
	person := s.clone(t, access.Owner)
	var wg sync.WaitGroup
	for w := range 4 {
		b := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
		wg.Go(func() {
			for i := range 5 {
				if _, err := b.Update(t.Context(), put(user, fmt.Sprintf("bindings/b/claims/w%d/c%d.yaml", w, i), "x: 1\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	person.git("pull", "-q", "--rebase", "origin", "main")
	if got := strings.Count(person.git("ls-files"), "bindings/b/claims/w"); got != 20 {
		t.Errorf("%d files, want 20", got)
	}
	s.fsck(t)
}

func TestWhatTheStoreMakesOfARefusal(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, user := contract.Identity("alice", cluster)
	konnector := s.agent(t, access.Konnector, "konnector-"+cluster)
	for _, c := range []struct {
		name   string
		branch store.Branch
		edit   store.Edit
		want   error
		words  string
	}{
		{"a path outside", konnector.Branch("main"), put(user, "README.md", "x"), store.ErrRejected, "below bindings/"},
		{"another's branch", konnector.Branch("status"), put(user, claimPath, "x"), store.ErrRejected, "only the bridge writes it"},
		{"another's identity", konnector.Branch("main"), put("alice@example.com", claimPath, "x"), store.ErrRejected, "commits as"},
		{"a wrong password", s.agent(t, access.Konnector, "x").Branch("main"), put(user, claimPath, "x"), store.ErrUnauthorized, ""},
		{"somebody else's repository", s.agent(t, access.Owner, "owner-"+other).Branch("main"), put(user, claimPath, "x"), store.ErrRepositoryNotFound, ""},
	} {
		if _, err := c.branch.Update(t.Context(), c.edit); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.words)
		}
	}
}
