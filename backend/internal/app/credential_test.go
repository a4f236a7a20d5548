package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// asks makes a request with an agent's credential.
func (f *fixture) asks(t *testing.T, method, path, user, password string) (c restapi.Credential, status int, words string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var e restapi.Error
		if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
			t.Fatal(err)
		}
		return c, resp.StatusCode, e.Message
	}
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c, resp.StatusCode, ""
}

// streamEnds waits for the end of a stream of events. It is not the next comment of the stream
// that ends it, of which there is one an hour here.
func streamEnds(t *testing.T, what string, events <-chan restapi.RefEvent, since time.Time) {
	t.Helper()
	for {
		select {
		case _, open := <-events:
			if open {
				continue
			}
			t.Logf("%s: the stream ended after %s", what, time.Since(since).Round(time.Millisecond))
			return
		case <-time.After(patience):
			t.Fatalf("%s: the stream goes on", what)
		}
	}
}

// testCredentials is what the backend does for D12.
func (f *fixture) testCredentials(t *testing.T) {
	c := f.connect(t, env.Alice, "credentials")
	path := "/v1/clusters/" + c.ID + "/credential"
	token := func(c *restapi.Credential) string { return c.Password }
	counts := func(what, password string, want bool) {
		t.Helper()
		if out, err := gitRemote(t, c.RepositoryURL, "konnector", password); (err == nil) != want {
			t.Errorf("%s: counts %v, want %v: %s", what, err == nil, want, out)
		}
	}
	first := token(c.Credential)

	t.Run("it says until when it counts", func(t *testing.T) {
		got, status, _ := f.asks(t, "GET", path, "konnector", first)
		if status != 200 || got.Password != "" || !got.Expires.Equal(c.Credential.Expires) || !got.RenewAfter.Equal(got.Expires.Add(-20*time.Minute)) {
			t.Errorf("%d %+v, connected with %+v", status, got, c.Credential)
		}
	})
	t.Run("only the konnector of the cluster renews", func(t *testing.T) {
		other := f.connect(t, env.Bob, "credentials")
		for name, who := range map[string][2]string{
			"another cluster's konnector": {"konnector", other.Credential.Password}, "the bridge": {"bridge", f.bridgeSecret(t, c.ID)},
			"the owner": {"alice", f.tokens[env.Alice]}, "another person": {"bob", f.tokens[env.Bob]}, "nobody": {"konnector", "x"},
		} {
			if _, status, words := f.asks(t, "POST", path, who[0], who[1]); status < 400 || status >= 500 {
				t.Errorf("%s: %d %s", name, status, words)
			}
		}
		for _, route := range []string{"POST " + path + "/rotate", "DELETE " + path} {
			method, path, _ := strings.Cut(route, " ")
			if status, _ := f.call(t, f.tokens[env.Bob], method, path, nil, nil); status != http.StatusNotFound {
				t.Errorf("another person at %s: %d", route, status)
			}
			if _, status, _ := f.asks(t, method, path, "konnector", first); status != http.StatusUnauthorized {
				t.Errorf("the konnector at %s: %d", route, status)
			}
		}
		counts("after all that", first, true)
	})

	var second string
	t.Run("the one before a renewal counts until the first use", func(t *testing.T) {
		next, status, words := f.asks(t, "POST", path, "konnector", first)
		if status != 200 || !strings.HasPrefix(next.Password, "gbk_") || next.Password == first {
			t.Fatalf("%d %s", status, words)
		}
		counts("the one before, not used yet", first, true)
		counts("the first use", next.Password, true)
		// Where that could not be written at once, a later use ends it.
		eventually(t, "the one before ends with a use of the next one", func() error {
			if out, err := gitRemote(t, c.RepositoryURL, "konnector", next.Password); err != nil {
				t.Fatalf("the next one: %v %s", err, out)
			}
			if _, err := gitRemote(t, c.RepositoryURL, "konnector", first); err == nil {
				return errors.New("it counts")
			}
			return nil
		})
		counts("the second use", next.Password, true)
		second = next.Password
	})
	t.Run("rotating ends open streams at once", func(t *testing.T) {
		events := f.listen(t, c.ID, "konnector", second)
		var rotated restapi.Credential
		if status, words := f.call(t, f.tokens[env.Alice], "POST", path+"/rotate", nil, &rotated); status != 200 {
			t.Fatalf("%d %s", status, words)
		}
		streamEnds(t, "rotated", events, time.Now())
		counts("the one before", second, false)
		counts("the new one", rotated.Password, true)
		second = rotated.Password
	})
	t.Run("revoking ends all at once", func(t *testing.T) {
		events := f.listen(t, c.ID, "konnector", second)
		if status, words := f.call(t, f.tokens[env.Alice], "DELETE", path, nil, nil); status != 200 {
			t.Fatalf("%d %s", status, words)
		}
		streamEnds(t, "revoked", events, time.Now())
		counts("it", second, false)
		if _, status, _ := f.asks(t, "POST", path, "konnector", second); status != http.StatusUnauthorized {
			t.Errorf("a revoked credential renews itself: %d", status)
		}
		again := f.connect(t, env.Alice, "credentials")
		counts("connected again", again.Credential.Password, true)
		second = again.Credential.Password
	})
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(c.ID), Name: name}}
	}
	t.Run("an operator who deletes the Secret revokes", func(t *testing.T) {
		events := f.listen(t, c.ID, "konnector", second)
		if err := f.admin.Delete(t.Context(), secret(v1alpha1.KonnectorSecret)); err != nil {
			t.Fatal(err)
		}
		streamEnds(t, "Secret deleted", events, time.Now())
		counts("it", second, false)
	})
	t.Run("one that has expired is refused with words", func(t *testing.T) {
		c := f.connect(t, env.Alice, "credentials")
		events := f.listen(t, c.ID, "konnector", c.Credential.Password)
		s := secret(v1alpha1.KonnectorSecret)
		past := fmt.Sprintf(`{"stringData":{"expires":%q}}`, time.Now().Add(-time.Second).UTC().Format(time.RFC3339))
		if err := f.admin.Patch(t.Context(), s, client.RawPatch("application/merge-patch+json", []byte(past))); err != nil {
			t.Fatal(err)
		}
		streamEnds(t, "expired", events, time.Now())
		if _, status, words := f.asks(t, "GET", path, "konnector", c.Credential.Password); status != http.StatusUnauthorized || !strings.Contains(words, "kubectl gitbind connect") {
			t.Errorf("%d %s", status, words)
		}
	})
	t.Run("the bridge's is rotated at once", func(t *testing.T) {
		for name, rotate := range map[string]func(*corev1.Secret) error{
			"deleted": func(s *corev1.Secret) error { return f.admin.Delete(t.Context(), s) },
			"annotated": func(s *corev1.Secret) error {
				return f.admin.Patch(t.Context(), s, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"gitbind.dev/rotate":"true"}}}`)))
			},
		} {
			before := f.bridgeSecret(t, c.ID)
			events := f.listen(t, c.ID, "bridge", before)
			if err := rotate(secret(v1alpha1.BridgeSecret)); err != nil {
				t.Fatal(err)
			}
			streamEnds(t, name, events, time.Now())
			eventually(t, name+": there is another one", func() error {
				s := secret(v1alpha1.BridgeSecret)
				if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
				if p := string(s.Data["password"]); p == "" || p == before || len(s.Annotations) > 0 {
					return fmt.Errorf("annotations %v", s.Annotations)
				}
				return nil
			})
			if _, err := gitRemote(t, c.RepositoryURL, "bridge", before); err == nil {
				t.Errorf("%s: the one before counts", name)
			}
			if out, err := gitRemote(t, c.RepositoryURL, "bridge", f.bridgeSecret(t, c.ID)); err != nil {
				t.Errorf("%s: the new one: %s", name, out)
			}
		}
	})
}
