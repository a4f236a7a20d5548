package onboarding

import (
	"context"
	"errors"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// keeping is a Git host that keeps whose its repositories are, by id.
type keeping struct {
	host
	owners map[string]string
	fails  error
}

func (k *keeping) Owner(_ context.Context, id string) (string, error) { return k.owners[id], k.fails }

func (k *keeping) SetOwner(_ context.Context, id, owner string) error {
	k.owners[id] = owner
	return nil
}

// Its ClusterBinding was deleted after alice had given it to bob, and the repository has what
// is bob's.
func TestAFormerOwnerWhoConnectsAgainGetsNoRepositoryOfTheNewOne(t *testing.T) {
	w := newWorld(t, v1alpha1.ClusterBindingSpec{ClusterUID: "another"})
	kept := &keeping{owners: map[string]string{}}
	w.Host = kept
	connect := func(who login.Identity) string {
		t.Helper()
		cb, err := w.claimBinding(t.Context(), who, connectInput{clusterUID: builtAs, displayName: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.api.Delete(t.Context(), cb); err != nil {
			t.Fatal(err)
		}
		return cb.Name
	}
	id := func(n int) string { return clusterID(alice.Issuer, alice.Subject, builtAs, n) }
	for _, c := range []struct{ owner, want string }{
		{"", id(0)}, // of no repository, and of one from before owners were kept
		{githost.OwnerDigest(alice.Issuer, alice.Subject), id(0)},
		{githost.OwnerDigest(bob.Issuer, bob.Subject), id(1)},
		{githost.OwnerDigest("https://other", alice.Subject), id(1)},
	} {
		kept.owners[id(0)] = c.owner
		if got := connect(alice); got != c.want {
			t.Errorf("of %q she gets %s, want %s", c.owner, got, c.want)
		}
	}
	kept.fails = errors.New("input/output error")
	if cb, err := w.claimBinding(t.Context(), alice, connectInput{clusterUID: builtAs, displayName: "prod"}); err == nil {
		t.Errorf("not known whose it is: %v", cb)
	}
}
