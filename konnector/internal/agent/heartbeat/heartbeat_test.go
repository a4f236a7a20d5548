package heartbeat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
)

// world is a Connection, and a backend that answers what the test says.
type world struct {
	*testing.T
	*Reconciler
	api    client.Client
	now    time.Time
	inUse  string
	status int
	// page is what something in front of the backend answers in its place, if not "".
	page    string
	answer  restapi.HeartbeatAnswer
	heard   []restapi.Heartbeat
	shown   []string
	sent    []time.Time
	changes int
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC), inUse: "first", status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	w.api = fakeapi.New(fakeapi.Builder().WithObjects(
		&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.ConnectionSpec{
			BackendURL: server.URL, ClusterID: "k3x", SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "s"},
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "s"}, Data: map[string][]byte{
			"username": []byte("konnector"), "password": []byte("not in use yet"),
		}},
	))
	w.Reconciler = &Reconciler{
		Client: w.api, InUse: func(string) string { return w.inUse }, GoneAfter: 15 * time.Second,
		Changed: func(string) { w.changes++ }, Now: func() time.Time { return w.now },
	}
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	var in restapi.Heartbeat
	if r.Method != http.MethodPut || r.URL.Path != "/v1/clusters/k3x/heartbeat" || json.NewDecoder(r.Body).Decode(&in) != nil {
		w.Errorf("asked %s %s", r.Method, r.URL.Path)
	}
	_, password, _ := r.BasicAuth()
	w.heard, w.shown, w.sent = append(w.heard, in), append(w.shown, password), append(w.sent, w.now)
	if w.page != "" {
		rw.Header().Set("Content-Type", "text/html")
		rw.WriteHeader(w.status)
		_, _ = rw.Write([]byte(w.page))
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(w.status)
	if w.status == http.StatusNotFound {
		_ = json.NewEncoder(rw).Encode(restapi.Error{Message: "there is nothing at PUT /v1/clusters/k3x/heartbeat"})
		return
	}
	_ = json.NewEncoder(rw).Encode(w.answer)
}

// next goes on to when it is to be looked again, and sends a heartbeat if one is due.
func (w *world) next() time.Duration {
	w.Helper()
	result, err := w.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
	if err != nil {
		w.Fatal(err)
	}
	w.now = w.now.Add(result.RequeueAfter)
	return result.RequeueAfter
}

func (w *world) stands(what string, want repository.Standing) {
	w.Helper()
	got := w.Standing("c")
	if got.Alone != want.Alone || (got.Copied == "") != (want.Copied == "") || !strings.Contains(got.Copied, want.Copied) {
		w.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestL5_AKonnectorActsOnWhatTheBackendAnswersToItsHeartbeats(t *testing.T) {
	w := newWorld(t)
	w.stands("before the first", repository.Standing{})
	w.answer = restapi.HeartbeatAnswer{Heard: "x.1"}
	if wait := w.next(); wait != time.Second {
		t.Errorf("while removals wait: %s", wait)
	}
	w.stands("another one may be live", repository.Standing{})
	w.answer = restapi.HeartbeatAnswer{Heard: "x.2", Alone: true}
	if wait := w.next(); wait != 5*time.Second {
		t.Errorf("confirmed: %s", wait)
	}
	w.stands("confirmed", repository.Standing{Alone: true})
	w.answer = restapi.HeartbeatAnswer{Heard: "x.3"}
	if wait := w.next(); wait != time.Second {
		t.Errorf("a newcomer waits for proof: %s", wait)
	}
	w.stands("a backend that was started again", repository.Standing{Alone: true})
	w.status = http.StatusServiceUnavailable
	w.next()
	w.stands("a backend that is away", repository.Standing{Alone: true})
	w.status, w.answer = http.StatusOK, restapi.HeartbeatAnswer{Heard: "x.5", Copied: true}
	w.next()
	w.stands("copied", repository.Standing{Alone: true, Copied: "--reclaim k3x"})
	w.status = http.StatusServiceUnavailable
	w.next()
	w.stands("copied, and the backend is away", repository.Standing{Alone: true, Copied: "--reclaim k3x"})
	w.status, w.answer = http.StatusOK, restapi.HeartbeatAnswer{Heard: "x.7", Alone: true}
	w.next()
	w.stands("it was decided", repository.Standing{Alone: true})

	heard := []string{}
	for _, b := range w.heard {
		heard = append(heard, b.Heard)
		if b.Process == "" || b.Process != w.heard[0].Process || b.GoneAfter.Duration != 15*time.Second || b.Ending {
			t.Errorf("heartbeat %+v", b)
		}
	}
	if got := strings.Join(heard, " "); got != " x.1 x.2 x.3 x.3 x.5 x.5" {
		t.Errorf("heard %q", got)
	}
	if w.changes != 3 {
		t.Errorf("%d changes were told", w.changes)
	}
}

func TestL5_TheCopyThatDoesNotGoOnSaysSo(t *testing.T) {
	w := newWorld(t)
	w.status = http.StatusUnauthorized
	w.next()
	w.stands("refused, and nothing is known", repository.Standing{})
	w.status, w.answer = http.StatusOK, restapi.HeartbeatAnswer{Copied: true}
	w.next()
	w.status = http.StatusUnauthorized
	w.next()
	w.stands("the other one goes on", repository.Standing{Copied: "Tear this one down"})
	w.next()
	w.stands("the other one goes on, still", repository.Standing{Copied: "Tear this one down"})
	// Connected again: another credential is tried at once.
	w.status, w.answer, w.inUse = http.StatusOK, restapi.HeartbeatAnswer{Alone: true}, "second"
	w.now = w.now.Add(-time.Second)
	w.next()
	w.stands("this one goes on after all", repository.Standing{Alone: true})
	if got := strings.Join(w.shown, " "); got != "first first first first second" {
		t.Errorf("shown %q", got)
	}
}

func TestACredentialThatIsRefusedIsShownSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.status = http.StatusUnauthorized
	for len(w.sent) < 10 {
		w.next()
	}
	if first, all := w.sent[1].Sub(w.sent[0]), w.sent[9].Sub(w.sent[0]); first != w.interval() || all < 5*time.Minute {
		t.Errorf("again after %s, ten in %s", first, all)
	}
	// Another one is tried at once, and nothing tells that it is in use.
	w.status, w.inUse = http.StatusOK, "second"
	w.next()
	if w.shown[len(w.shown)-1] != "second" || w.now.Sub(w.sent[9]) > 2*w.interval() {
		t.Errorf("shown %q until %s after", w.shown, w.now.Sub(w.sent[9]))
	}
	// One that is refused later is shown again soon.
	w.status = http.StatusUnauthorized
	for len(w.sent) < 13 {
		w.next()
	}
	if again := w.sent[12].Sub(w.sent[11]); again != w.interval() {
		t.Errorf("refused once, shown again after %s", again)
	}
}

func TestL5_WithoutABackendThatKnowsHeartbeatsAKonnectorIsAlone(t *testing.T) {
	w := newWorld(t)
	w.status = http.StatusNotFound
	for len(w.sent) < 2 {
		w.next()
	}
	if wait := w.sent[1].Sub(w.sent[0]); wait != unsupportedWait {
		t.Errorf("asked again after %s", wait)
	}
	w.stands("an older backend", repository.Standing{Alone: true})

	w = newWorld(t)
	conn := &v1alpha1.Connection{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: "c"}, conn); err != nil {
		t.Fatal(err)
	}
	conn.Spec.BackendURL = ""
	if err := w.api.Update(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	w.next()
	w.stands("no backend", repository.Standing{Alone: true})
	if len(w.heard) > 0 {
		t.Errorf("heard %+v", w.heard)
	}
}

// A proxy answers in the place of a backend that is away.
func TestL5_WhatIsInFrontOfABackendEndsNoHold(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusOK, http.StatusBadGateway} {
		w := newWorld(t)
		w.status, w.page = status, "<html>Maintenance</html>"
		w.next()
		w.stands(fmt.Sprint(status, " at a start"), repository.Standing{})
		w.status, w.page, w.answer = http.StatusOK, "", restapi.HeartbeatAnswer{Copied: true}
		w.next()
		w.status, w.page = status, "<html>Maintenance</html>"
		w.next()
		w.stands(fmt.Sprint(status, " while there are two"), repository.Standing{Copied: "Two live copies"})
	}
}

func TestL5_ACleanEndIsToldToTheBackend(t *testing.T) {
	w := newWorld(t)
	w.answer = restapi.HeartbeatAnswer{Heard: "x.1", Alone: true}
	w.next()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (farewell{w.Reconciler}).Start(ctx); err != nil {
		t.Fatal(err)
	}
	last := w.heard[len(w.heard)-1]
	if len(w.heard) != 2 || !last.Ending || last.Process != w.heard[0].Process {
		t.Errorf("heard %+v", w.heard)
	}
}

func TestL5_NothingIsSentBeforeTheRepositoryIsOpen(t *testing.T) {
	w := newWorld(t)
	w.inUse = ""
	if wait := w.next(); wait != openingPoll || len(w.heard) > 0 {
		t.Errorf("heard %+v, again after %s", w.heard, wait)
	}
}
