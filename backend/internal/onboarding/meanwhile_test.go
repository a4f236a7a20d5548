package onboarding

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

const id = "k3x9d2abqw"

var (
	alice = login.Identity{Issuer: "https://dex", Subject: "a", Username: "alice"}
	bob   = login.Identity{Issuer: "https://dex", Subject: "b", Username: "bob"}
)

func ownerOf(who login.Identity) v1alpha1.Owner {
	return v1alpha1.Owner{Issuer: who.Issuer, Subject: who.Subject, Username: who.Username}
}

// world is a service with one cluster, which is alice's, and an API server that lets everybody
// do everything.
type world struct {
	*Service
	t   *testing.T
	api client.WithWatch
	// before, if set, is called once before a patch.
	before func()
	// fail is what the API server says of rights, nil to give them.
	fail error
}

func newWorld(t *testing.T, spec v1alpha1.ClusterBindingSpec) *world {
	t.Helper()
	spec.Owner = ownerOf(alice)
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id, UID: "u1"}, Spec: spec, Status: v1alpha1.ClusterBindingStatus{
		TenantNamespace: "gb-" + id, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
	}}
	w := &world{t: t, api: fakeapi.New(fakeapi.Builder().WithObjects(cb).WithStatusSubresource(cb))}
	c := interceptor.NewClient(w.api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			review, ok := o.(*authorizationv1.SubjectAccessReview)
			if !ok {
				return c.Create(ctx, o, opts...)
			}
			review.Status.Allowed = w.fail == nil
			return w.fail
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if before := w.before; before != nil {
				w.before = nil
				before()
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.Service = &Service{
		Client: c, Live: c, People: people{}, Host: host{}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		KonnectorSeen: func(string) time.Time { return time.Time{} },
	}
	return w
}

type people struct{ People }

func (people) Name(_ login.Identity, _ bool, name string) (string, error) { return name, nil }

type host struct{ githost.Host }

func (host) URL(string) string { return "https://git" }

// cluster is what the API server has.
func (w *world) cluster() *v1alpha1.ClusterBinding {
	w.t.Helper()
	var cb v1alpha1.ClusterBinding
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: id}, &cb); err != nil {
		w.t.Fatal(err)
	}
	return &cb
}

// What a person decides about a cluster is decided on the cluster as it was then: of two at the
// same time, the second is told. Its status is written all the time, and changes nothing of it.
func TestNothingIsDecidedOnAClusterThatChangedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		spec, meanwhile v1alpha1.ClusterBindingSpec
		do              func(ctx context.Context, w *world) error
	}{
		"who gave it away offers it again": {
			v1alpha1.ClusterBindingSpec{TransferTo: "bob"}, v1alpha1.ClusterBindingSpec{Owner: ownerOf(bob)},
			func(ctx context.Context, w *world) error {
				_, err := w.offerTransfer(ctx, alice, id, "carol")
				return err
			},
		},
		"what is not offered any more is accepted": {
			v1alpha1.ClusterBindingSpec{TransferTo: "bob"}, v1alpha1.ClusterBindingSpec{Owner: ownerOf(alice)},
			func(ctx context.Context, w *world) error { _, err := w.acceptTransfer(ctx, bob, id); return err },
		},
		"two clusters reclaim one": {
			v1alpha1.ClusterBindingSpec{ClusterUID: "old"}, v1alpha1.ClusterBindingSpec{Owner: ownerOf(alice), ClusterUID: "first"},
			func(ctx context.Context, w *world) error {
				_, err := w.claimBinding(ctx, alice, connectInput{clusterUID: "second", reclaim: id})
				return err
			},
		},
	} {
		for _, changes := range []bool{false, true} {
			w := newWorld(t, c.spec)
			w.before = func() {
				cb := w.cluster()
				cb.Status.Bridge = &v1alpha1.BridgeStatus{Epoch: "e"}
				if err := w.api.Status().Update(t.Context(), cb); err != nil {
					t.Error(err)
				}
				if !changes {
					return
				}
				cb.Spec = c.meanwhile
				if err := w.api.Update(t.Context(), cb); err != nil {
					t.Error(err)
				}
			}
			if err := c.do(t.Context(), w); (err != nil) != changes || err != nil && !refusal.Is(err, refusal.Conflict) {
				t.Errorf("%s, changes %v: %v", name, changes, err)
			}
			if got := w.cluster().Spec; changes && (got.Owner != c.meanwhile.Owner || got.TransferTo != "" || got.ClusterUID != c.meanwhile.ClusterUID) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

func TestRightsThatCannotBeAskedAboutAreNone(t *testing.T) {
	w := newWorld(t, v1alpha1.ClusterBindingSpec{})
	if err := w.mayConnect(t.Context(), alice); err != nil {
		t.Errorf("who has them: %v", err)
	}
	w.fail = errors.New("connection refused")
	if err := w.mayConnect(t.Context(), alice); !refusal.Is(err, refusal.Unavailable) {
		t.Errorf("connect: %v", err)
	}
	if ok, err := w.mayBind(t.Context(), alice, "pg"); ok || !refusal.Is(err, refusal.Unavailable) {
		t.Errorf("bind: %v, %v", ok, err)
	}
}

// full is a keyring that can issue nothing.
type full struct{ *keyring.Keyring }

func (full) Issue(context.Context, string) (*restapi.Credential, error) {
	return nil, errors.New("connection refused")
}

func TestACredentialCountsUntilItsRotationIsWritten(t *testing.T) {
	w := newWorld(t, v1alpha1.ClusterBindingSpec{})
	keys := &keyring.Keyring{Client: w.api, Live: w.api, Lifetime: time.Hour, Now: time.Now}
	if _, err := keys.Issue(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	ended := 0
	keys.Ended = func(string, []string, bool) { ended++ }
	w.Keys = full{keys}
	if cred, err := w.rotate(t.Context(), alice, id); cred != nil || err == nil || ended != 0 {
		t.Errorf("%v, %v, ended %d times", cred, err, ended)
	}
	w.Keys = keys
	if cred, err := w.rotate(t.Context(), alice, id); cred == nil || err != nil || ended != 1 {
		t.Errorf("%v, %v, ended %d times", cred, err, ended)
	}
}
