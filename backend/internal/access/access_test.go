package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

const (
	cluster = "k3x9d2abqw"
	other   = "zz7d2abqwe"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// tokens are people's ID tokens, in a world without signatures.
type tokens map[string]login.Identity

func (t tokens) Verify(_ context.Context, raw string) (login.Identity, error) {
	id, ok := t[raw]
	if !ok {
		return login.Identity{}, refusal.New(refusal.Unauthenticated, "no token")
	}
	return id, nil
}

func secret(id, name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(id), Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

// gbk and gbb are tokens as long as real ones.
func gbk(s string) string { return credential.KonnectorPrefix + padded(s) }
func gbb(s string) string { return credential.BridgePrefix + padded(s) }

func padded(s string) string { return s + strings.Repeat("A", 43-len(s)) }

func binding(id, issuer, subject string) *v1alpha1.ClusterBinding {
	return &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.ClusterBindingSpec{Owner: v1alpha1.Owner{Issuer: issuer, Subject: subject, Username: "oidc:alice"}}}
}

func objects() []client.Object {
	konnector := func(id string, expires time.Time) *corev1.Secret {
		return secret(id, v1alpha1.KonnectorSecret, map[string]string{"username": "konnector", "sha256": credential.Hash(gbk(id)), "expires": expires.Format(time.RFC3339)})
	}
	return []client.Object{
		konnector(cluster, now.Add(time.Hour)), konnector(other, now),
		secret(cluster, v1alpha1.BridgeSecret, map[string]string{"username": "bridge", "password": gbb(cluster)}),
		secret(other, v1alpha1.BridgeSecret, map[string]string{"username": "bridge"}),
		binding(cluster, "https://issuer", "alice"), binding(other, "https://issuer", "bob"),
	}
}

func authenticator(t *testing.T, cached []client.Object, live client.Reader) *Authenticator {
	t.Helper()
	c := fakeapi.New(fakeapi.Builder().WithObjects(cached...))
	return &Authenticator{
		Clusters: c, Konnector: c, Bridge: c, Live: live,
		Login: tokens{
			"alice":   {Issuer: "https://issuer", Subject: "alice", Username: "oidc:alice@example.com"},
			"mallory": {Issuer: "https://other", Subject: "alice", Username: "oidc:alice@example.com"},
			"nobody":  {},
		},
		Now:       func() time.Time { return now },
		liveReads: newLiveReads(time.Millisecond),
	}
}

func TestAuthenticate(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
	a := authenticator(t, nil, live)
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	none := func(*http.Request) {}
	for _, c := range []struct {
		name    string
		cluster string
		with    func(*http.Request)
		role    Role
		kind    refusal.Kind
	}{
		{"the konnector", cluster, basic("konnector", gbk(cluster)), Konnector, 0},
		{"the bridge", cluster, basic("bridge", gbb(cluster)), Bridge, 0},
		{"the owner at the Git host", cluster, basic("anything", "alice"), Owner, 0},
		{"the owner at the events", cluster, bearer("alice"), Owner, 0},
		{"nobody", cluster, none, 0, refusal.Unauthenticated},
		{"no password", cluster, basic("konnector", ""), 0, refusal.Unauthenticated},
		{"an expired konnector", other, basic("konnector", gbk(other)), 0, refusal.Unauthenticated},
		{"another cluster's konnector", other, basic("konnector", gbk(cluster)), 0, refusal.Unauthenticated},
		{"another cluster's bridge", cluster, basic("bridge", gbb(other)), 0, refusal.Unauthenticated},
		{"a bridge without a password", other, basic("bridge", ""), 0, refusal.Unauthenticated},
		{"the konnector as bridge", cluster, basic("bridge", gbk(cluster)), 0, refusal.Unauthenticated},
		{"the bridge as konnector", cluster, basic("konnector", gbb(cluster)), 0, refusal.Unauthenticated},
		{"the hash as the token", cluster, basic("konnector", credential.Hash(gbk(cluster))), 0, refusal.Unauthenticated},
		{"a cluster that does not exist, as agent", "nosuch", basic("konnector", gbk(cluster)), 0, refusal.Unauthenticated},
		{"a cluster that does not exist, as person", "nosuch", bearer("alice"), 0, refusal.NotFound},
		{"somebody else's cluster", other, bearer("alice"), 0, refusal.NotFound},
		{"the same subject at another issuer", cluster, bearer("mallory"), 0, refusal.NotFound},
		{"an identity without a name", cluster, bearer("nobody"), 0, refusal.NotFound},
		{"an id that is none, as agent", "../" + cluster, basic("konnector", gbk(cluster)), 0, refusal.Unauthenticated},
		{"an id that is none, as person", "../" + cluster, bearer("alice"), 0, refusal.NotFound},
		{"a bad ID token", cluster, bearer("x"), 0, refusal.Unauthenticated},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		c.with(r)
		got, err := a.Authenticate(r, c.cluster)
		if c.kind != 0 {
			if !refusal.Is(err, c.kind) || got != (Caller{}) {
				t.Errorf("%s: got %+v, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got.Role != c.role || got.Cluster != c.cluster {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

func TestAgentsGoOnWhileTheAPIServerIsAway(t *testing.T) {
	away := interceptor.NewClient(fakeapi.New(fakeapi.Builder()), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
	})
	a := authenticator(t, objects(), away)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.SetBasicAuth("konnector", gbk(cluster))
	if _, err := a.Authenticate(r, cluster); err != nil {
		t.Errorf("known credential: %v", err)
	}
	r.SetBasicAuth("konnector", gbk("new"))
	if _, err := a.Authenticate(r, cluster); !refusal.Is(err, refusal.Unavailable) {
		t.Errorf("unknown credential: %v, want to be told to try again", err)
	}
}

func TestANewCredentialCountsBeforeTheCacheKnowsIt(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
	stale := secret(cluster, v1alpha1.KonnectorSecret, map[string]string{"sha256": credential.Hash(gbk("old")), "expires": now.Add(time.Hour).Format(time.RFC3339)})
	a := authenticator(t, []client.Object{stale}, live)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.SetBasicAuth("konnector", gbk(cluster))
	if _, err := a.Authenticate(r, cluster); err != nil {
		t.Error(err)
	}
}

func TestOnlyAKonnectorThatWasLetInWasSeen(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
	a := authenticator(t, nil, live)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	for _, c := range []struct{ user, password string }{{"konnector", gbk("wrong")}, {"bridge", gbb(cluster)}, {"person", "alice"}} {
		r.SetBasicAuth(c.user, c.password)
		_, _ = a.Authenticate(r, cluster)
		if at := a.KonnectorSeen(cluster); !at.IsZero() {
			t.Errorf("%s: seen at %s", c.user, at)
		}
	}
	r.SetBasicAuth("konnector", gbk(cluster))
	if _, err := a.Authenticate(r, cluster); err != nil || !a.KonnectorSeen(cluster).Equal(now) {
		t.Errorf("seen at %s, %v", a.KonnectorSeen(cluster), err)
	}
}

func TestH4_ClustersOfOneOwnerHaveTheSameOwner(t *testing.T) {
	a := authenticator(t, append(objects(), binding("k3second", "https://issuer", "alice"), binding("k3third", "https://other", "alice")), nil)
	of := func(id string) string { return a.OwnerOf(t.Context(), id) }
	if of(cluster) == "" || of(cluster) != of("k3second") || of(cluster) == of("k3third") || of(cluster) == of(other) || of("k3none") != "" {
		t.Errorf("%q, %q, %q, %q, %q", of(cluster), of("k3second"), of("k3third"), of(other), of("k3none"))
	}
}

func TestAClusterIsKnownUnlessThereIsNone(t *testing.T) {
	a := authenticator(t, objects(), nil)
	if !a.Knows(t.Context(), cluster) || a.Knows(t.Context(), "k3none") || a.Knows(t.Context(), "../etc") {
		t.Error("it knows others than there are")
	}
	a.Clusters = interceptor.NewClient(fakeapi.New(fakeapi.Builder()), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("it is not read yet")
		},
	})
	if !a.Knows(t.Context(), "k3none") {
		t.Error("what cannot be read is said not to be there")
	}
}
