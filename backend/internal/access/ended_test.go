package access

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// promoter plays the keyring.
type promoter struct {
	calls  int
	counts bool
	err    error
}

func (p *promoter) Promote(context.Context, string, string) (bool, error) {
	p.calls++
	return p.counts, p.err
}

func renewed() client.Object {
	return secret(cluster, v1alpha1.KonnectorSecret, map[string]string{
		"sha256": credential.Hash(gbk("old")), "expires": now.Add(time.Hour).Format(time.RFC3339),
		"next-sha256": credential.Hash(gbk("new")), "next-expires": now.Add(2 * time.Hour).Format(time.RFC3339),
	})
}

func asKonnector(a *Authenticator, token string) error {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("konnector", token)
	_, err := a.Authenticate(r, cluster)
	return err
}

func TestTheFirstUseOfARenewedCredentialIsToldOnce(t *testing.T) {
	keys := &promoter{counts: true}
	a := authenticator(t, []client.Object{renewed()}, fakeapi.New(fakeapi.Builder()))
	a.Keys, a.Log = keys, slog.New(slog.DiscardHandler)
	for _, token := range []string{gbk("old"), gbk("new"), gbk("new"), gbk("new")} {
		if err := asKonnector(a, token); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
	if keys.calls != 1 {
		t.Errorf("told %d times, want once: the cache has not heard of it yet", keys.calls)
	}
	a.End(cluster, []string{credential.Hash(gbk("old"))}, false)
	if err := asKonnector(a, gbk("old")); !refusal.Is(err, refusal.Unauthenticated) {
		t.Errorf("the one before it, which a cache still knows: %v", err)
	}
}

func TestARenewedCredentialCountsWhileItsFirstUseCannotBeWritten(t *testing.T) {
	keys := &promoter{err: errors.New("connection refused")}
	at := now
	a := authenticator(t, []client.Object{renewed()}, fakeapi.New(fakeapi.Builder()))
	a.Keys, a.Log, a.Now = keys, slog.New(slog.DiscardHandler), func() time.Time { return at }
	for range 3 {
		if err := asKonnector(a, gbk("new")); err != nil {
			t.Error(err)
		}
	}
	if keys.calls != 1 {
		t.Errorf("tried %d times within a moment", keys.calls)
	}
	at = at.Add(promoteAgain)
	if err := asKonnector(a, gbk("new")); err != nil || keys.calls != 2 {
		t.Errorf("after a while: %v, tried %d times", err, keys.calls)
	}
}

func TestARenewedCredentialThatWasRotatedMeanwhileIsRefused(t *testing.T) {
	a := authenticator(t, []client.Object{renewed()}, fakeapi.New(fakeapi.Builder()))
	a.Keys, a.Log = &promoter{}, slog.New(slog.DiscardHandler)
	if err := asKonnector(a, gbk("new")); !refusal.Is(err, refusal.Unauthenticated) {
		t.Error(err)
	}
}

// serve lets requests in and then does what the test wants, until the request
// ends. It gives what the client saw.
func serve(t *testing.T, a *Authenticator, handle func(w http.ResponseWriter, r *http.Request)) (ended chan error) {
	t.Helper()
	admitted := make(chan struct{})
	ended = make(chan error, 1)
	server := httptest.NewServer(a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := a.Authenticate(r, cluster); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		close(admitted)
		handle(w, r)
	})))
	t.Cleanup(func() {
		a.underway.endIf(cluster, func(*request) bool { return true })
		server.Close()
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// A body that never comes to its end.
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic %s\r\nContent-Length: 1000000\r\n\r\nbegin",
		base64.StdEncoding.EncodeToString([]byte("konnector:"+gbk(cluster))))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		ended <- err
	}()
	<-admitted
	return ended
}

func stream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, ": hello\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func readBody(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func TestRequestsUnderWayEndWithTheirCredential(t *testing.T) {
	for name, handle := range map[string]func(http.ResponseWriter, *http.Request){"an open stream": stream, "a push that is being sent": readBody} {
		for how, end := range map[string]func(*Authenticator, client.Client){
			"by the backend": func(a *Authenticator, _ client.Client) {
				a.End(cluster, []string{credential.Hash(gbk(cluster))}, true)
			},
			"by an operator who deletes the Secret": func(a *Authenticator, live client.Client) {
				if err := live.Delete(t.Context(), secret(cluster, v1alpha1.KonnectorSecret, nil)); err != nil {
					t.Error(err)
				}
				a.SecretChanged(t.Context(), cluster, Konnector)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
				a := authenticator(t, nil, live)
				a.Log = slog.New(slog.DiscardHandler)
				ended := serve(t, a, handle)
				// What ends others ends not this one.
				a.End(cluster, []string{credential.Hash(gbk("other"))}, true)
				a.SecretChanged(t.Context(), cluster, Konnector)
				a.SecretChanged(t.Context(), cluster, Bridge)
				select {
				case err := <-ended:
					t.Fatalf("it ended for nothing: %v", err)
				case <-time.After(20 * time.Millisecond):
				}
				end(a, live)
				select {
				case err := <-ended:
					if err == nil || strings.Contains(err.Error(), "gbk_") {
						t.Errorf("the client saw %v, want an end that is no answer, and no token", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it goes on")
				}
			})
		}
	}
}

func TestARequestEndsWhenItsCredentialExpires(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
	a := authenticator(t, nil, live)
	a.Now = func() time.Time { return now.Add(time.Hour - 50*time.Millisecond) }
	ended := serve(t, a, stream)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

func TestAPushFinishesThoughARenewalEndsItsCredential(t *testing.T) {
	live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
	a := authenticator(t, nil, live)
	a.Log = slog.New(slog.DiscardHandler)
	ended := serve(t, a, stream)
	a.End(cluster, []string{credential.Hash(gbk(cluster))}, false)
	if err := live.Delete(t.Context(), secret(cluster, v1alpha1.KonnectorSecret, nil)); err != nil {
		t.Fatal(err)
	}
	a.SecretChanged(t.Context(), cluster, Konnector)
	select {
	case err := <-ended:
		t.Errorf("it was cut: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := asKonnector(a, gbk(cluster)); !refusal.Is(err, refusal.Unauthenticated) {
		t.Errorf("the next request: %v", err)
	}
}
