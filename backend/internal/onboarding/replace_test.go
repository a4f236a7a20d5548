package onboarding

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// replacing is a world whose cluster is connected, with its keyring.
type replacing struct {
	*world
	keys *keyring.Keyring
	host *accounts
	// old is the hash of the credential that the konnector has.
	old string
	// ended are the hashes that have ended, and cut tells whether their requests have, too.
	ended []string
	cut   bool
}

const builtAs = "u-1"

func newReplacing(t *testing.T) *replacing {
	t.Helper()
	r := &replacing{world: newWorld(t, v1alpha1.ClusterBindingSpec{ClusterUID: builtAs, DisplayName: "prod"}), host: &accounts{}}
	r.keys = &keyring.Keyring{Client: r.api, Live: r.api, Lifetime: time.Hour, Now: time.Now}
	cred, err := r.keys.Issue(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r.old = credential.Hash(cred.Password)
	r.keys.Ended = func(_ string, hashes []string, cut bool) { r.ended, r.cut = append(r.ended, hashes...), cut }
	r.Keys, r.Accounts, r.Copies = r.keys, r.host, copies.New(time.Now())
	return r
}

func (r *replacing) change(change func(*v1alpha1.ClusterBinding)) {
	r.t.Helper()
	cb := r.cluster()
	change(cb)
	if err := r.api.Update(r.t.Context(), cb); err != nil {
		r.t.Fatal(err)
	}
}

// verdict is what is kept of a credential.
func (r *replacing) verdict(hash string) credential.Verdict {
	r.t.Helper()
	var s corev1.Secret
	if err := r.api.Get(r.t.Context(), client.ObjectKey{Namespace: "gb-" + id, Name: v1alpha1.KonnectorSecret}, &s); err != nil {
		r.t.Fatal(err)
	}
	verdict, _ := credential.ReadRecord(s.Data).Judge(hash, time.Now())
	return verdict
}

// ways are those by which an owner replaces a credential.
var ways = map[string]func(context.Context, *replacing) (*restapi.Credential, error){
	"connect": func(ctx context.Context, r *replacing) (*restapi.Credential, error) {
		answer, err := r.connect(ctx, alice, connectInput{clusterUID: builtAs, displayName: "prod"})
		if err != nil {
			return nil, err
		}
		return answer.Credential, nil
	},
	"rotate": func(ctx context.Context, r *replacing) (*restapi.Credential, error) { return r.rotate(ctx, alice, id) },
}

func TestAGitHostThatGivesNoCredentialCutsNoKonnectorOff(t *testing.T) {
	for name, do := range ways {
		for _, fails := range []error{errors.New("connection refused"), &githost.RateLimitError{}, &githost.TooOftenError{}} {
			r := newReplacing(t)
			r.host.fails = fails
			if cred, err := do(t.Context(), r); cred != nil || !refusal.Is(err, refusal.Unavailable) {
				t.Errorf("%s: %v, %v", name, cred, err)
			}
			if r.verdict(r.old) != credential.Current || len(r.ended) != 0 {
				t.Errorf("%s: %v ended the credential from before: %v", name, fails, r.ended)
			}
			// The next one does not need the one before to end.
			r.host.fails = nil
			cred, err := do(t.Context(), r)
			if err != nil || cred.Git.Password != "opens" || r.verdict(credential.Hash(cred.Password)) != credential.Current {
				t.Fatalf("%s: %+v, %v", name, cred, err)
			}
			if r.verdict(r.old) != credential.Unknown || !r.cut {
				t.Errorf("%s: the credential from before counts, cut %v", name, r.cut)
			}
		}
	}
}

func TestAnOwnersCredentialSaysWhichRepositoryItOpens(t *testing.T) {
	t.Parallel()
	for name, do := range ways {
		for _, elsewhere := range []bool{false, true} {
			r := newReplacing(t)
			r.Host = places{}
			if !elsewhere {
				r.Accounts = nil
			}
			cred, err := do(t.Context(), r)
			if err != nil {
				t.Fatal(name, err)
			}
			at := cred.RepositoryURL
			if elsewhere {
				at = cred.Git.RepositoryURL
			}
			if at != r.Host.URL(id) || (cred.Git != nil) != elsewhere {
				t.Errorf("%s, elsewhere %t: it is for %q", name, elsewhere, at)
			}
		}
	}
}

// A transfer takes less time than a cluster takes to be ready, and than a Git host takes to
// answer.
func TestAConnectOfAFormerOwnerEndsNoCredentialOfTheNewOne(t *testing.T) {
	given := func(cb *v1alpha1.ClusterBinding) { cb.Spec.Owner = ownerOf(bob) }
	for name, c := range map[string]struct {
		elsewhere bool
		transfer  func(*replacing)
	}{
		"before it is ready": {false, func(r *replacing) {
			r.Client = &waiting{r.Client, func() { r.change(given) }}
		}},
		"before it is ready, on a Git host elsewhere": {true, func(r *replacing) {
			r.Client = &waiting{r.Client, func() { r.change(given) }}
		}},
		"while the Git host answers": {true, func(r *replacing) { r.host.while = func() { r.change(given) } }},
	} {
		r := newReplacing(t)
		if !c.elsewhere {
			r.Accounts = nil
		}
		c.transfer(r)
		answer, err := r.connect(t.Context(), alice, connectInput{clusterUID: builtAs, displayName: "prod"})
		if answer != nil || !refusal.Is(err, refusal.NotFound) {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
		if r.verdict(r.old) != credential.Current || len(r.ended) != 0 || r.cluster().Spec.AwaitsKeys {
			t.Errorf("%s: ended %v, awaits keys: %v", name, r.ended, r.cluster().Spec.AwaitsKeys)
		}
	}
}

// What the cache says of an owner may be from before a transfer.
func TestAFormerOwnerWhoStillOwnsByTheCacheDecidesNothing(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, r *replacing) error{
		"rotate": func(ctx context.Context, r *replacing) error { _, err := r.rotate(ctx, alice, id); return err },
		"revoke": func(ctx context.Context, r *replacing) error { return r.revoke(ctx, alice, id) },
	} {
		r := newReplacing(t)
		r.Client = lagging{r.Client, r.cluster()}
		r.change(func(cb *v1alpha1.ClusterBinding) { cb.Spec.Owner = ownerOf(bob) })
		if err := do(t.Context(), r); !refusal.Is(err, refusal.NotFound) || r.verdict(r.old) != credential.Current {
			t.Errorf("%s: %v, %v", name, err, r.verdict(r.old))
		}
	}
}

// lagging has heard of no change of a cluster.
type lagging struct {
	client.Client
	was *v1alpha1.ClusterBinding
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if cb, ok := o.(*v1alpha1.ClusterBinding); ok {
		l.was.DeepCopyInto(cb)
		return nil
	}
	return l.Client.Get(ctx, key, o, opts...)
}

// waiting calls a function before a cluster is read of the cache for the first time.
type waiting struct {
	client.Client
	before func()
}

func (w *waiting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*v1alpha1.ClusterBinding); ok && w.before != nil {
		w.before()
		w.before = nil
	}
	return w.Client.Get(ctx, key, o, opts...)
}

// A Git host has one limit for all clusters.
func TestH7_OneKonnectorDoesNotUseUpTheGitHostsLimitAndKeepsItsOwnerFromNothing(t *testing.T) {
	r := newReplacing(t)
	now := time.Now()
	r.Now = func() time.Time { return now }
	konnector := access.Caller{Cluster: id, Hash: r.old}
	refused := 0
	for range 60 {
		now = now.Add(renewEvery)
		if _, err := r.renewGit(t.Context(), konnector); refusal.Is(err, refusal.Unavailable) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if r.host.asked > 5 || refused != 60-r.host.asked {
		t.Errorf("in a minute it asked %d times, %d were refused", r.host.asked, refused)
	}
	if _, err := r.rotate(t.Context(), alice, id); err != nil {
		t.Errorf("its owner replaces its credential: %v", err)
	}
}

// TestH7_ARenewalThatMustWaitChangesNothing has a konnector ask for all of it: what has another hash
// has the Git host be asked what ended.
func TestH7_ARenewalThatMustWaitChangesNothing(t *testing.T) {
	t.Parallel()
	r := newReplacing(t)
	now := time.Now()
	r.Now = func() time.Time { return now }
	konnector := access.Caller{Cluster: id, Hash: r.old}
	written := map[string]bool{}
	for range 60 {
		now = now.Add(renewEvery)
		if _, err := r.renew(t.Context(), konnector); err != nil && !refusal.Is(err, refusal.Unavailable) {
			t.Fatal(err)
		}
		var s corev1.Secret
		if err := r.Live.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(id), Name: v1alpha1.KonnectorSecret}, &s); err != nil {
			t.Fatal(err)
		}
		written[s.ResourceVersion] = true
	}
	if n := len(written); n > 5 || n != r.host.asked {
		t.Errorf("in a minute its Secret was written %d times, and the host asked for %d credentials", n, r.host.asked)
	}
}
