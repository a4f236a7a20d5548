package onboarding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/copies"
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

// Its id is no hash of the app cluster that has it now, so that only the repository tells
// whose it is.
func TestAReclaimedClusterWhoseClusterBindingIsGoneGetsItsRepository(t *testing.T) {
	const lost = "k3x9d2abqwzr4t6m"
	digest := githost.OwnerDigest(alice.Issuer, alice.Subject)
	for _, c := range []struct {
		what  string
		owner string
		in    connectInput
		stray bool
		bobs  bool
		full  bool
		want  string
		err   string
	}{
		{what: "handed over a moment ago", owner: digest, in: connectInput{reclaim: lost}, bobs: true, err: "you have no cluster"},
		{what: "reclaimed again", owner: digest, in: connectInput{reclaim: lost}, want: lost},
		{what: "as the Connection says", owner: digest, in: connectInput{connectedAs: lost}, want: lost},
		{what: "one that was connected again meanwhile", owner: digest, in: connectInput{reclaim: lost}, stray: true, err: "this cluster was connected as cluster aaa"},
		{what: "somebody else's, reclaimed", owner: githost.OwnerDigest(bob.Issuer, bob.Subject), in: connectInput{reclaim: lost}, err: "you have no cluster"},
		{what: "somebody else's, connected", owner: githost.OwnerDigest(bob.Issuer, bob.Subject), in: connectInput{connectedAs: lost}, err: "which is not yours"},
		{what: "somebody else's, connected by one who may have no more", owner: githost.OwnerDigest(bob.Issuer, bob.Subject), in: connectInput{connectedAs: lost}, full: true, err: "which is not yours"},
		{what: "reclaimed by one who may have no more", owner: digest, in: connectInput{reclaim: lost}, full: true, err: "you have 1 clusters"},
		{what: "of which nobody is kept", in: connectInput{reclaim: lost}, err: "you have no cluster"},
		{what: "a name that is no id", owner: digest, in: connectInput{reclaim: "../" + lost}, err: "you have no cluster"},
	} {
		w := newWorld(t, v1alpha1.ClusterBindingSpec{ClusterUID: "another"})
		w.Host, w.Copies = &keeping{owners: map[string]string{lost: c.owner, "../" + lost: c.owner}}, copies.New(time.Now())
		if c.full {
			w.MaxClusters = 1
		}
		if c.stray {
			if err := w.api.Create(t.Context(), &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "aaa"}, Spec: v1alpha1.ClusterBindingSpec{Owner: ownerOf(alice), ClusterUID: builtAs}}); err != nil {
				t.Fatal(err)
			}
		}
		if c.bobs {
			if err := w.api.Create(t.Context(), &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: lost}, Spec: v1alpha1.ClusterBindingSpec{Owner: ownerOf(bob), ClusterUID: builtAs}}); err != nil {
				t.Fatal(err)
			}
		}
		c.in.clusterUID, c.in.displayName = builtAs, "prod"
		cb, err := w.claimBinding(t.Context(), alice, c.in)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.what, err, c.err)
			}
			continue
		}
		if err != nil || cb.Name != c.want || cb.Spec.ClusterUID != builtAs {
			t.Errorf("%s: %v, %v", c.what, cb, err)
			continue
		}
		if again, err := w.claimBinding(t.Context(), alice, c.in); err != nil || again.Name != c.want {
			t.Errorf("%s, and again: %v, %v", c.what, again, err)
		}
	}
}
