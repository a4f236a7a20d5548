package access

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/test/fakeapi"
)

// counting is an API server that counts what is read of it.
func counting(t *testing.T, reads *atomic.Int64) client.WithWatch {
	t.Helper()
	return fakeapi.New(fakeapi.Builder().WithObjects(objects()...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads.Add(1)
			return c.Get(ctx, key, o, opts...)
		},
	})
}

func as(a *Authenticator, cluster, user, password string) error {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	_, err := a.Authenticate(r, cluster)
	return err
}

func TestH7_AThousandGuessedTokensAreFewReads(t *testing.T) {
	for _, c := range []struct {
		name    string
		cluster func(i int) string
		token   func(i int) string
		most    int64
		kinds   []refusal.Kind
	}{
		{"what cannot be a token", func(int) string { return cluster }, func(i int) string { return fmt.Sprint("gbk_", i) }, 0, []refusal.Kind{refusal.Unauthenticated}},
		{"a token of another kind", func(int) string { return cluster }, func(int) string { return credential.New(credential.BridgePrefix) }, 0, []refusal.Kind{refusal.Unauthenticated}},
		{"one cluster", func(int) string { return cluster }, func(int) string { return credential.New(credential.KonnectorPrefix) }, 10, []refusal.Kind{refusal.Unauthenticated}},
		{"one token, again and again", func(int) string { return cluster }, func(int) string { return gbk("wrong") }, 2, []refusal.Kind{refusal.Unauthenticated}},
		{"a thousand clusters", func(i int) string { return fmt.Sprint("c", i) }, func(int) string { return credential.New(credential.KonnectorPrefix) }, readsAtOnce,
			[]refusal.Kind{refusal.Unauthenticated, refusal.Unavailable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				a := authenticator(t, nil, counting(t, &reads))
				a.liveReads = newLiveReads(readEvery)
				var all sync.WaitGroup
				for i := range 1000 {
					all.Go(func() {
						err := as(a, c.cluster(i), "konnector", c.token(i))
						for _, kind := range c.kinds {
							if refusal.Is(err, kind) {
								return
							}
						}
						t.Errorf("got %v", err)
					})
				}
				all.Wait()
				if got := reads.Load(); got > c.most {
					t.Errorf("%d reads", got)
				}
				// Who has a token that no cache knows yet is let in all the same.
				eventual := time.Now().Add(time.Minute)
				for err := as(a, cluster, "konnector", gbk(cluster)); err != nil; err = as(a, cluster, "konnector", gbk(cluster)) {
					if !refusal.Is(err, refusal.Unavailable) || time.Now().After(eventual) {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		})
	}
}

// Anybody who may sign in can make up clusters' ids, and no cache knows these.
func TestH7_OnePersonsMadeUpClustersAreFewReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		a := authenticator(t, objects(), counting(t, &reads))
		bob := login.Identity{Issuer: "https://issuer", Subject: "bob", Username: "oidc:bob@example.com"}
		refused := 0
		for i := range 300 {
			if _, err := a.Person(t.Context(), fmt.Sprint("c", i), bob); refusal.Is(err, refusal.TooMany) {
				refused++
			} else if !refusal.Is(err, refusal.NotFound) {
				t.Fatal(err)
			}
		}
		if got := reads.Load(); got > askAtOnce || refused < 300-askAtOnce {
			t.Errorf("%d reads, %d refused", got, refused)
		}
		if who, err := a.Person(t.Context(), other, bob); err != nil || who.Role != Owner {
			t.Errorf("to a cluster of their own: %+v, %v", who, err)
		}
	})
}

func TestH7_ACredentialThatWasIssuedWhileStrangersGuessCounts(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder())
	a := authenticator(t, nil, live)
	a.liveReads = newLiveReads(50 * time.Millisecond)
	stop := make(chan struct{})
	var guessing sync.WaitGroup
	guessing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = as(a, cluster, "konnector", credential.New(credential.KonnectorPrefix))
			}
		}
	})
	defer guessing.Wait()
	defer close(stop)
	if err := as(a, cluster, "konnector", gbk("other")); err == nil {
		t.Fatal("let in before there is a Secret")
	}
	if err := live.Create(t.Context(), objects()[0]); err != nil {
		t.Fatal(err)
	}
	if err := as(a, cluster, "konnector", gbk(cluster)); err != nil {
		t.Errorf("issued a moment ago: %v", err)
	}
}
