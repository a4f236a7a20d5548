package keyring

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

const cluster = "k3x9d2abqw"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type world struct {
	*Keyring
	t     *testing.T
	api   client.WithWatch
	ended []string
	cut   bool
	// before, if set, is called once before a write.
	before func()
	fail   error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, api: fakeapi.New(fakeapi.Builder())}
	c := interceptor.NewClient(w.api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if w.fail != nil {
				return w.fail
			}
			if before := w.before; before != nil {
				w.before = nil
				before()
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	w.Keyring = &Keyring{Client: c, Live: w.api, Lifetime: 90 * time.Minute, Now: func() time.Time { return now }}
	w.Ended = func(_ string, hashes []string, cut bool) { w.ended, w.cut = append(w.ended, hashes...), cut }
	return w
}

func (w *world) must(cred *restapi.Credential, err error) string {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return credential.Hash(cred.Password)
}

func (w *world) promote(hash string) bool {
	w.t.Helper()
	ok, err := w.Promote(w.t.Context(), cluster, hash)
	if err != nil {
		w.t.Fatal(err)
	}
	return ok
}

// kept is what is in the Secret: which hashes count.
func (w *world) kept(want ...string) {
	w.t.Helper()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gb-" + cluster, Name: v1alpha1.KonnectorSecret}, &s); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, key := range []string{"sha256", "next-sha256", "prepared-sha256"} {
		if h := string(s.Data[key]); h != "" {
			got = append(got, h)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("kept (-want +got)\n%s", diff)
	}
}

func TestTheOneBeforeARenewalCountsUntilTheFirstUse(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.must(w.Issue(ctx, cluster))
	lost := w.must(w.Renew(ctx, cluster, first))
	w.kept(first, lost)
	second := w.must(w.Renew(ctx, cluster, first))
	w.kept(first, second)
	if diff := cmp.Diff([]string{lost}, w.ended); diff != "" {
		t.Errorf("ended (-want +got)\n%s", diff)
	}
	for range 2 {
		if !w.promote(second) {
			t.Error("what was used does not count")
		}
	}
	w.kept(second)
	if diff := cmp.Diff([]string{lost, first}, w.ended); diff != "" || w.cut {
		t.Errorf("ended, cut %v (-want +got)\n%s", w.cut, diff)
	}
	if w.promote(lost) || w.promote(first) {
		t.Error("what has ended counts")
	}
	w.kept(second)
}

func TestRotateAndRevokeEndAll(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.must(w.Issue(ctx, cluster))
	next := w.must(w.Renew(ctx, cluster, first))
	rotated := w.must(w.Issue(ctx, cluster))
	w.kept(rotated)
	if diff := cmp.Diff([]string{first, next}, w.ended); diff != "" || !w.cut {
		t.Errorf("ended, cut %v (-want +got)\n%s", w.cut, diff)
	}
	if err := w.Revoke(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	w.kept()
	if w.ended[2] != rotated || w.promote(rotated) {
		t.Errorf("revoked, and ended are %v", w.ended)
	}
	if again := w.must(w.Issue(ctx, cluster)); again == rotated {
		t.Error("the same token twice")
	}
}

func TestAPreparedCredentialEndsTheOthersWhenItReplacesThem(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	replace := func(hash string) bool {
		t.Helper()
		ok, err := w.Replace(ctx, cluster, hash)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	first := w.must(w.Issue(ctx, cluster))
	lost := w.must(w.Prepare(ctx, cluster))
	prepared := w.must(w.Prepare(ctx, cluster))
	next := w.must(w.Renew(ctx, cluster, first))
	w.kept(first, next, prepared)
	if cred, err := w.Renew(ctx, cluster, prepared); err == nil || w.promote(prepared) {
		t.Errorf("a credential that opens nothing renews %v", cred)
	}
	if ok, err := w.Counts(ctx, cluster, prepared); !ok || err != nil {
		t.Errorf("what the Git host is to give for: %v, %v", ok, err)
	}
	if replace(lost) || replace("") {
		t.Error("what has ended, or is none, takes the place of the others")
	}
	if diff := cmp.Diff([]string{lost}, w.ended); diff != "" {
		t.Errorf("ended (-want +got)\n%s", diff)
	}
	w.before = func() { w.promote(next) }
	for range 2 {
		if !replace(prepared) {
			t.Error("a first use at the same time keeps it out")
		}
	}
	w.kept(prepared)
	if diff := cmp.Diff([]string{lost, first, next}, w.ended); diff != "" || !w.cut {
		t.Errorf("ended, cut %v (-want +got)\n%s", w.cut, diff)
	}
	revoked := w.must(w.Prepare(ctx, cluster))
	w.before = func() {
		if err := w.Revoke(ctx, cluster); err != nil {
			t.Error(err)
		}
	}
	if replace(revoked) {
		t.Error("what was revoked counts")
	}
	w.kept()
}

func TestARotationDuringAFirstUseWins(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	next := w.must(w.Renew(ctx, cluster, w.must(w.Issue(ctx, cluster))))
	var rotated string
	w.before = func() { rotated = w.must(w.Issue(ctx, cluster)) }
	if w.promote(next) {
		t.Error("a renewed credential counts that was rotated away")
	}
	w.kept(rotated)
}

func TestAFirstUseDuringARotationEnds(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.must(w.Issue(ctx, cluster))
	next := w.must(w.Renew(ctx, cluster, first))
	w.before = func() { w.promote(next) }
	rotated := w.must(w.Issue(ctx, cluster))
	w.kept(rotated)
	if diff := cmp.Diff([]string{first, next}, w.ended); diff != "" {
		t.Errorf("ended (-want +got)\n%s", diff)
	}
}

func TestWhatHasEndedRenewsNothing(t *testing.T) {
	for name, end := range map[string]func(w *world) []string{
		"revoked": func(w *world) []string {
			if err := w.Revoke(w.t.Context(), cluster); err != nil {
				w.t.Fatal(err)
			}
			return nil
		},
		"rotated": func(w *world) []string { return []string{w.must(w.Issue(w.t.Context(), cluster))} },
	} {
		for _, meanwhile := range []bool{false, true} {
			w := newWorld(t)
			first := w.must(w.Issue(t.Context(), cluster))
			var want []string
			if meanwhile {
				w.before = func() { want = end(w) }
			} else {
				want = end(w)
			}
			cred, err := w.Renew(t.Context(), cluster, first)
			if cred != nil || !refusal.Is(err, refusal.Unauthenticated) {
				t.Errorf("%s, meanwhile %v: %v, %v", name, meanwhile, cred, err)
			}
			w.kept(want...)
		}
	}
	w := newWorld(t)
	w.must(w.Issue(t.Context(), cluster))
	if cred, err := w.Renew(t.Context(), cluster, ""); err == nil {
		t.Errorf("nobody renewed %v", cred)
	}
}

func TestARenewalByTheNextOneLeavesIt(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.must(w.Issue(ctx, cluster))
	second := w.must(w.Renew(ctx, cluster, first))
	third := w.must(w.Renew(ctx, cluster, second))
	w.kept(second, third)
	if diff := cmp.Diff([]string{first}, w.ended); diff != "" || w.cut {
		t.Errorf("ended, cut %v (-want +got)\n%s", w.cut, diff)
	}
}

func TestNothingEndsThatCouldNotBeWritten(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.must(w.Issue(ctx, cluster))
	w.fail = errors.New("connection refused")
	if cred, err := w.Issue(ctx, cluster); err == nil || cred != nil {
		t.Errorf("%v, %v", cred, err)
	}
	if err := w.Revoke(ctx, cluster); err == nil {
		t.Error("no error")
	}
	w.kept(first)
	if w.ended != nil {
		t.Errorf("ended: %v", w.ended)
	}
}

func TestRevokingWhatIsNotThereMakesNothing(t *testing.T) {
	w := newWorld(t)
	if err := w.Revoke(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	var all corev1.SecretList
	if err := w.api.List(t.Context(), &all); err != nil || len(all.Items) != 0 {
		t.Errorf("%v, %v", all.Items, err)
	}
}

func TestACredentialIsRenewedWhenAThirdOfItsLifeIsLeft(t *testing.T) {
	w := newWorld(t)
	cred, err := w.Issue(t.Context(), cluster)
	if err != nil || !cred.Expires.Equal(now.Add(90*time.Minute)) || !cred.RenewAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v, %v", cred, err)
	}
}

func TestOfTenAtTheSameTimeEachGetsThrough(t *testing.T) {
	w := newWorld(t)
	w.must(w.Issue(t.Context(), cluster))
	others := 9
	var first func()
	first = func() {
		var s corev1.Secret
		key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: v1alpha1.KonnectorSecret}
		if err := w.api.Get(t.Context(), key, &s); err != nil {
			t.Fatal(err)
		}
		s.Labels = map[string]string{"by": "another"}
		s.Data["another"] = []byte{byte(others)}
		if err := w.api.Update(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		if others--; others > 0 {
			w.before = first
		}
	}
	w.before = first
	if w.must(w.Issue(t.Context(), cluster)); others != 0 {
		t.Errorf("%d others were not first", others)
	}
}
