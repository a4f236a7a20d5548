package renewal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is one Connection, and a backend that keeps the rules of credentials:
// which one counts, and which one is next.
type world struct {
	*Reconciler
	t   *testing.T
	now time.Time
	api client.WithWatch
	// mu is for what the backend and the test share: an answer that is lost does
	// not order them.
	mu            sync.Mutex
	current, next string
	issued        int
	// lost has the backend's answers to renewals not arrive.
	lost bool
	// fail, if set, is what the API server answers to an update of the Secret
	// that is meant, and unwritten to one that is no dry run.
	fail, unwritten error
	// refused is since when the repository refuses the credential, which a Connection says that
	// is read; zero if it does not.
	refused time.Time
	inUse   string
	// git has the repository on a Git host of its own.
	git bool
	// repositoryURL is of the repository that the backend says it gives a credential for.
	repositoryURL string
	// gitIssued is how many times that gave another credential by itself.
	gitIssued int
	// behind is how far the backend's clock is behind.
	behind time.Duration
	// down is what each request is answered by, or each POST to downAt; 0 for none.
	down   int
	downAt string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: start, current: "first", inUse: "first"}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	w.api = fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.Connection{}).WithObjects(
		&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.ConnectionSpec{
			BackendURL: server.URL, ClusterID: "k3x", SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "s"},
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "s"}, Data: map[string][]byte{
			"username": []byte("konnector"), "password": []byte("first"), "expires": []byte(start.Add(90 * time.Hour).Format(time.RFC3339)), "other": []byte("kept"),
		}},
	))
	c := interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if conn, ok := o.(*v1alpha1.Connection); ok && !w.refused.IsZero() {
				defer func() {
					conn.Status.Conditions = append(conn.Status.Conditions, metav1.Condition{
						Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "CredentialRefused", LastTransitionTime: metav1.NewTime(w.refused),
					})
				}()
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			var all client.UpdateOptions
			switch all.ApplyOptions(opts); {
			case w.fail != nil:
				return w.fail
			case w.unwritten != nil && len(all.DryRun) == 0:
				return w.unwritten
			}
			return c.Update(ctx, o, opts...)
		},
	})
	w.Reconciler = &Reconciler{Client: c, Namespace: "gitbind-system", InUse: func(string) string { return w.inUse }, Now: func() time.Time { return w.now }}
	return w
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, password, _ := r.BasicAuth()
	switch {
	case w.down != 0 && (w.downAt == "" || r.Method == http.MethodPost && r.URL.Path == "/v1/clusters/k3x/"+w.downAt):
		rw.WriteHeader(w.down)
		return
	case r.URL.Path == "/v1/clusters/k3x/credential/git" && r.Method == http.MethodPost && w.git:
		w.gitIssued++
		git := w.anHour(fmt.Sprint("git-", w.gitIssued))
		git.RepositoryURL = w.repositoryURL
		_ = json.NewEncoder(rw).Encode(git)
		return
	case r.URL.Path != "/v1/clusters/k3x/credential":
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(rw).Encode(restapi.Error{Message: "the repository is opened by the same credential"})
		return
	case password != "" && password == w.next:
		w.current, w.next = w.next, ""
	case password == "" || password != w.current:
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	c := restapi.Credential{Username: "konnector", Expires: start.Add(time.Duration(w.issued+1) * 90 * time.Hour)}
	if r.Method == http.MethodPost {
		w.issued++
		w.next = "renewed-" + string(rune('0'+w.issued))
		if w.git {
			c.Git = &restapi.GitCredential{Username: "there", Password: "git-" + w.next, RepositoryURL: w.repositoryURL}
		}
		c.Password, c.Expires = w.next, start.Add(time.Duration(w.issued+1)*90*time.Hour)
		if w.lost {
			panic(http.ErrAbortHandler)
		}
	}
	c.RenewAfter = c.Expires.Add(-30 * time.Hour)
	_ = json.NewEncoder(rw).Encode(c)
}

// anHour is what opens a Git host for an hour.
func (w *world) anHour(password string) restapi.GitCredential {
	return restapi.GitCredential{Username: "there", Password: password, Expires: w.now.Add(time.Hour - w.behind), RenewAfter: w.now.Add(40*time.Minute - w.behind)}
}

// lose has answers to renewals lost from now on, or not.
func (w *world) lose(lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}

// asked is how many renewals the backend was asked for.
func (w *world) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.issued
}

// run reconciles once, and gives when it is to be done again.
func (w *world) run() time.Duration {
	w.t.Helper()
	res, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.RequeueAfter
}

// restart is another process.
func (w *world) restart() { w.about = nil }

func (w *world) secret() (password, previous string) {
	w.t.Helper()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		w.t.Fatal(err)
	}
	if string(s.Data["other"]) != "kept" || string(s.Data["username"]) != "konnector" {
		w.t.Errorf("the Secret holds %v", s.Data)
	}
	return string(s.Data["password"]), string(s.Data[v1alpha1.PreviousPasswordKey])
}

func (w *world) holds(password, previous string) {
	w.t.Helper()
	if p, b := w.secret(); p != password || b != previous {
		w.t.Fatalf("the Secret holds %q and before it %q, want %q and %q", p, b, password, previous)
	}
}

func (w *world) says(status metav1.ConditionStatus, reason, text string) {
	w.t.Helper()
	var conn v1alpha1.Connection
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "c"}, &conn); err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(conn.Status.Conditions, v1alpha1.ConditionCredential)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
		w.t.Errorf("it says %+v, want %s %s %q", c, status, reason, text)
	}
	for _, secret := range []string{"first", "renewed-"} {
		if c != nil && strings.Contains(c.Message, secret) {
			w.t.Errorf("it tells a password: %s", c.Message)
		}
	}
}

// due brings the world to the moment before the step that renews.
func (w *world) due() {
	w.t.Helper()
	wait := w.run()
	w.holds("first", "")
	if wait < 60*time.Hour || wait > 63*time.Hour {
		w.t.Fatalf("renews in %s, want a little after 60 of 90 hours", wait)
	}
	w.says(metav1.ConditionTrue, "Valid", "until 2026-11-25T06:00:00Z")
	w.now = w.now.Add(wait)
}

func TestACredentialIsRenewedBeforeItIsUsed(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.run()
	w.holds("renewed-1", "first")
	if w.current != "first" {
		t.Fatal("the new one was used before the repository had it")
	}
	if wait := w.run(); wait != pollInterval || w.current != "first" {
		t.Fatalf("the repository works with the old one still, and in %s the old one ends", wait)
	}
	w.inUse = "renewed-1"
	w.run()
	w.holds("renewed-1", "")
	if w.current != "renewed-1" {
		t.Error("the first use ended nothing")
	}
	w.run()
	w.says(metav1.ConditionTrue, "Valid", "until 2026-11-29T")
}

// connect and rotate wait for it.
func TestItSaysUntilWhenTheCredentialCountsThatTheSecretHas(t *testing.T) {
	w := newWorld(t)
	expires := func() string {
		t.Helper()
		var conn v1alpha1.Connection
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "c"}, &conn); err != nil {
			t.Fatal(err)
		}
		if at := conn.Status.CredentialExpires; at != nil {
			return at.UTC().Format(time.RFC3339)
		}
		return ""
	}
	for _, c := range []struct {
		what, password string
		issued, down   int
		want           string
	}{
		{"one that counts", "first", 0, 0, "2026-11-25T06:00:00Z"},
		{"one that was rotated, and the backend is away", "second", 1, http.StatusServiceUnavailable, ""},
		{"one that was rotated", "second", 1, 0, "2026-11-29T00:00:00Z"},
		{"one that does not count", "third", 1, 0, ""},
	} {
		w.mu.Lock()
		if w.down, w.issued = c.down, c.issued; c.password != "third" {
			w.current = c.password
		}
		w.mu.Unlock()
		w.now = w.now.Add(time.Minute)
		var s corev1.Secret
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
			t.Fatal(err)
		}
		s.Data["password"] = []byte(c.password)
		if err := w.api.Update(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		w.run()
		if got := expires(); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.lose(true)
	wait := w.run()
	w.holds("first", "")
	w.says(metav1.ConditionTrue, "RenewalFails", "tried again")
	if wait < time.Second || wait > time.Minute {
		t.Errorf("it is tried again after %s", wait)
	}
	asked := w.asked()
	if w.run(); w.asked() != asked {
		t.Error("it is tried again at once")
	}
	w.lose(false)
	w.now = w.now.Add(wait)
	w.run()
	w.holds("renewed-2", "first")
}

func TestACrashAtAnyStepLeavesOneThatCounts(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.run()
	w.restart()
	w.inUse = ""
	if wait := w.run(); wait != again {
		t.Errorf("nothing is open, and it is looked again after %s", wait)
	}
	w.inUse = "renewed-1" // as the new process reads it
	w.run()
	w.holds("renewed-1", "")
	w.restart()
	w.run()
	w.says(metav1.ConditionTrue, "Valid", "until 2026-11-29T")
}

func TestARenewalThatWasNotTheLastOneIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.run()
	w.next = "of another one" // whose answer went elsewhere
	w.inUse = "renewed-1"
	w.run()
	w.holds("first", "")
	w.inUse = "first"
	w.run()
	w.says(metav1.ConditionTrue, "Valid", "")
}

func TestNothingIsRenewedThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.fail = errorsForbidden()
	w.run()
	if w.asked() != 0 {
		t.Error("it was asked for nevertheless")
	}
	w.says(metav1.ConditionTrue, "RenewalFails", "gitbind:credential:c")
}

// A webhook may deny with 409: that is no other version of the Secret, and asking on and on
// does not help.
func TestADenialIsNoConflict(t *testing.T) {
	w := newWorld(t)
	w.due()
	w.fail = webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: http.StatusConflict})
	if after := w.run(); after < time.Second {
		t.Errorf("it is asked again after %s", after)
	}
	w.says(metav1.ConditionTrue, "RenewalFails", "")
}

func TestWhatEndsACredentialIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		reason string
	}{"revoked": {time.Hour, "Revoked"}, "expired": {91 * time.Hour, "Expired"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.current = "unknown"
			w.now = w.now.Add(c.after)
			w.run()
			w.says(metav1.ConditionFalse, c.reason, "kubectl gitbind connect")
			// Rotated: the Secret is another one.
			w.current = "rotated"
			var s corev1.Secret
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
				t.Fatal(err)
			}
			s.Data["password"] = []byte("rotated")
			s.Data["expires"] = []byte(w.now.Add(90 * time.Hour).Format(time.RFC3339))
			if err := w.api.Update(t.Context(), &s); err != nil {
				t.Fatal(err)
			}
			w.run()
			if c.reason == "Revoked" {
				w.says(metav1.ConditionTrue, "Valid", "")
			}
		})
	}
}

// refuse has the repository refuse the credential from now on.
func (w *world) refuse() { w.refused = w.now }

func TestARefusalIsLookedIntoAtOnce(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.current = "unknown"
	w.now = w.now.Add(time.Hour)
	w.refuse()
	w.now = w.now.Add(time.Second)
	wait := w.run()
	w.says(metav1.ConditionFalse, "Revoked", "")
	if wait != again {
		t.Errorf("it is asked about again after %s", wait)
	}
}

func TestAClockThatIsWrongDoesNotRenewAllTheTime(t *testing.T) {
	k := known{password: "p", renewAfter: start, expires: start.Add(30 * time.Hour)}
	renewed := start.Add(1000 * time.Hour)
	if got := due(k.expires, k.renewAfter, renewed, "k3x"); !got.Equal(renewed.Add(3 * time.Hour)) {
		t.Errorf("renews at %s, and renewed at %s", got, renewed)
	}
	if got := due(k.expires, k.renewAfter, time.Time{}, "k3x"); got.After(k.expires) || got.Before(start) || got.Sub(start) > 3*time.Hour {
		t.Errorf("a process that begins late renews at %s", got)
	}
}

// The condition that it is refused keeps the time of the clock that was ahead.
func TestD13_ATokenThatIsRefusedSinceTomorrowIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.onGitHostForAnHour()
	w.run()
	w.now = w.now.Add(24 * time.Hour)
	w.refuse()
	w.now = w.now.Add(-22 * time.Hour)
	for range 5 {
		w.now = w.now.Add(max(w.run(), time.Minute))
	}
	if w.gitIssued != 1 {
		t.Errorf("%d tokens were issued", w.gitIssued)
	}
}

// gitHolds is what opens the repository on a Git host of its own.
func (w *world) gitHolds(username, password string) {
	w.t.Helper()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		w.t.Fatal(err)
	}
	if u, p := v1alpha1.GitCredential(s.Data); u != username || p != password {
		w.t.Errorf("the repository is opened by %s and %s, want %s and %s", u, p, username, password)
	}
}

func (w *world) onGitHost() {
	w.t.Helper()
	w.git = true
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		w.t.Fatal(err)
	}
	s.Data[v1alpha1.GitUsernameKey], s.Data[v1alpha1.GitPasswordKey] = []byte("there"), []byte("git-first")
	if err := w.api.Update(w.t.Context(), &s); err != nil {
		w.t.Fatal(err)
	}
}

// onGitHostForAnHour is onGitHost with a token that ends in an hour.
func (w *world) onGitHostForAnHour() {
	w.t.Helper()
	w.onGitHost()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		w.t.Fatal(err)
	}
	s.Data[v1alpha1.GitExpiresKey] = []byte(start.Add(time.Hour).Format(time.RFC3339))
	s.Data[v1alpha1.GitRenewAfterKey] = []byte(start.Add(40 * time.Minute).Format(time.RFC3339))
	if err := w.api.Update(w.t.Context(), &s); err != nil {
		w.t.Fatal(err)
	}
}

// TestAnOutageOfTheBackendDoesNotOutlastAToken has a backend that is away, or whose proxy knows
// none in a rollout, from when the token is to be renewed.
func TestAnOutageOfTheBackendDoesNotOutlastAToken(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		// to is when that ends, after the start.
		to      time.Duration
		restart bool
		// within is how long after the outage the token is renewed.
		within time.Duration
	}{
		"away":                     {http.StatusServiceUnavailable, 53 * time.Minute, false, 2 * time.Minute},
		"unknown to a proxy":       {http.StatusNotFound, 53 * time.Minute, false, 2 * time.Minute},
		"unknown at a start":       {http.StatusNotFound, 41 * time.Minute, true, 3 * time.Minute},
		"away until after its end": {http.StatusServiceUnavailable, 2 * time.Hour, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onGitHostForAnHour()
			if !c.restart {
				w.now = w.now.Add(w.run())
			}
			w.down = c.status
			tries := 0
			for w.now.Before(start.Add(c.to)) {
				w.now = w.now.Add(w.run())
				tries++
			}
			w.down = 0
			for range 3 {
				if at := w.run(); w.gitIssued == 0 {
					w.now = w.now.Add(at)
				}
			}
			if late := w.now.Sub(start.Add(c.to)); w.gitIssued != 1 || late > c.within {
				t.Errorf("%d were issued %s after the outage", w.gitIssued, late)
			}
			if tries > 100 {
				t.Errorf("it was tried %d times", tries)
			}
		})
	}
}

// leaveGitHost has the repositories on the backend, whose answer a Connection may not have got yet.
func (w *world) leaveGitHost(connected bool) {
	w.t.Helper()
	w.git = false
	var conn v1alpha1.Connection
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "c"}, &conn); err != nil {
		w.t.Fatal(err)
	}
	conn.Spec.RepositoryURL = "https://git.example.com/k3x.git"
	if connected {
		conn.Spec.RepositoryURL = conn.Spec.BackendURL + "/git/k3x.git"
	}
	if err := w.api.Update(w.t.Context(), &conn); err != nil {
		w.t.Fatal(err)
	}
}

// Whoever wrote the Secret, with what the Git host gave before: what opens the backend opens the
// repository, once that is there, and is shown to no other host.
func TestATokenOfAHostThatWasLeftIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		on        func(*world)
		connected bool
		renewals  int
		want      [2]string
	}{
		"connected again":                      {(*world).onGitHostForAnHour, true, 1, [2]string{"konnector", "renewed-1"}},
		"connected again, no end of its own":   {(*world).onGitHost, true, 1, [2]string{"konnector", "renewed-1"}},
		"not yet connected":                    {(*world).onGitHostForAnHour, false, 0, [2]string{"there", "git-first"}},
		"not yet connected, no end of its own": {(*world).onGitHost, false, 1, [2]string{"there", "git-first"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.on(w)
			w.run()
			w.leaveGitHost(c.connected)
			w.now = w.now.Add(2 * time.Hour)
			w.refuse()
			w.now = w.now.Add(time.Second)
			for range 20 {
				wait := w.run()
				w.inUse, _ = w.secret()
				w.now = w.now.Add(min(wait, time.Hour))
			}
			w.gitHolds(c.want[0], c.want[1])
			if w.asked() != c.renewals {
				t.Errorf("the backend's own was renewed %d times", w.asked())
			}
		})
	}
}

// The Connection names the host that was left, until its owner has connected the cluster again.
func TestWhatTheNextHostGivesIsForItsRepository(t *testing.T) {
	const before, next = "https://git.example.com/k3x.git", "https://git.example.org/k3x.git"
	w := newWorld(t)
	w.onGitHost()
	opens := func(repositoryURL, previous string) {
		t.Helper()
		var s corev1.Secret
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
			t.Fatal(err)
		}
		if got := string(s.Data["repository-url"]); got != repositoryURL {
			t.Errorf("it is for %q, want %q", got, repositoryURL)
		}
		if got := string(s.Data["previous-repository-url"]); got != previous {
			t.Errorf("the one before it is for %q, want %q", got, previous)
		}
	}
	taken := func(password string) {
		t.Helper()
		w.inUse = password
		w.run()
		w.holds(password, "")
	}
	w.repositoryURL = before
	w.due()
	w.run()
	opens(before, "")
	taken("renewed-1")
	opens(before, "")
	w.repositoryURL = next
	w.now = w.now.Add(w.run())
	w.run()
	opens(next, before)
	w.next = "of another one"
	w.inUse = "renewed-2"
	w.run()
	w.holds("renewed-1", "")
	opens(before, "")

	w = newWorld(t)
	w.onGitHostForAnHour()
	w.repositoryURL = next
	w.run()
	w.now = w.now.Add(50 * time.Minute)
	w.run()
	w.gitHolds("there", "git-1")
	opens(next, "")

	// Rotated, and back on the backend.
	w = newWorld(t)
	w.onGitHost()
	var s corev1.Secret
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		t.Fatal(err)
	}
	delete(s.Data, "git-username")
	delete(s.Data, "git-password")
	s.Data["repository-url"] = []byte(next)
	if err := w.api.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	w.leaveGitHost(false)
	w.due()
	w.run()
	opens(next, next)
	taken("renewed-1")
	opens(next, "")
}

// What an apply left of one is none.
func TestAPasswordWithoutAUsernameOpensNoGitHost(t *testing.T) {
	w := newWorld(t)
	w.onGitHostForAnHour()
	var s corev1.Secret
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		t.Fatal(err)
	}
	delete(s.Data, v1alpha1.GitUsernameKey)
	if err := w.api.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	w.gitHolds("konnector", "first")
	w.due()
	if w.gitIssued != 0 {
		t.Errorf("%d tokens were issued", w.gitIssued)
	}
}

func TestWhatOpensARepositoryElsewhereIsRenewedAndTakenBackWithTheRest(t *testing.T) {
	w := newWorld(t)
	w.onGitHost()
	w.due()
	w.run()
	w.gitHolds("there", "git-renewed-1")
	w.next = "of another one"
	w.inUse = "renewed-1"
	w.run()
	w.holds("first", "")
	w.gitHolds("there", "git-first")
	w.inUse = "first"
	w.now = w.now.Add(w.run())
	w.run()
	w.gitHolds("there", "git-renewed-2")
	w.inUse = "renewed-2"
	w.run()
	w.holds("renewed-2", "")
	w.gitHolds("there", "git-renewed-2")
}

// TestWhatTheGitHostLetGoOfIsReplaced has somebody remove the konnector's token there.
func TestWhatTheGitHostLetGoOfIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.onGitHost()
	w.run()
	w.now = w.now.Add(time.Hour)
	w.refuse()
	w.now = w.now.Add(time.Second)
	for range 3 {
		w.run()
		w.now = w.now.Add(again)
	}
	w.gitHolds("there", "git-renewed-1")
	w.inUse = "renewed-1"
	w.run()
	w.holds("renewed-1", "")
	// The host refuses that, too: it is not asked for without end.
	for range 5 {
		w.now = w.now.Add(again)
		w.run()
	}
	if w.asked() != 1 {
		t.Errorf("it was renewed %d times", w.asked())
	}
}

// TestWhatTheGitHostEndsByItselfIsRenewedAlone has a token of an hour beside a credential of
// days.
func TestWhatTheGitHostEndsByItselfIsRenewedAlone(t *testing.T) {
	w := newWorld(t)
	w.onGitHostForAnHour()
	for i := 1; i <= 3; i++ {
		wait := w.run()
		if wait < 39*time.Minute || wait > 43*time.Minute {
			t.Fatalf("it renews in %s, want a little after 40 minutes", wait)
		}
		w.now = w.now.Add(wait)
		w.run()
		w.gitHolds("there", fmt.Sprint("git-", i))
		w.holds("first", "")
	}
	w.says(metav1.ConditionTrue, "Valid", "until 2026-11-25T06:00:00Z")
	// By a clock that is an hour ahead each one should have been renewed already: it is asked
	// for a tenth of its last third apart.
	w.behind = time.Hour
	w.now = w.now.Add(43 * time.Minute)
	w.run()
	w.gitHolds("there", "git-4")
	if wait := w.run(); wait > 2*time.Minute || wait < time.Minute {
		t.Errorf("it renews in %s, want two minutes", wait)
	}
	w.behind = 0
	w.now = w.now.Add(2 * time.Minute)
	w.run()
	w.gitHolds("there", "git-5")
	// The backend was away for longer than the hour, and the host refuses what was kept.
	w.now = w.now.Add(time.Second)
	w.refuse()
	w.now = w.now.Add(time.Second)
	w.run()
	w.run()
	w.gitHolds("there", "git-6")
	if w.asked() != 0 {
		t.Errorf("the backend's own was renewed %d times", w.asked())
	}
}

// What was not written is not in use: the token that the Secret has is the one that is refused.
func TestATokenThatIsRefusedIsReplacedOnceItCanBeWritten(t *testing.T) {
	for name, unwritten := range map[string]error{
		"the API server is in trouble":     apierrors.NewInternalError(errors.New("no leader")),
		"the Secret was changed meanwhile": apierrors.NewConflict(corev1.Resource("secrets"), "s", errors.New("the object has been modified")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onGitHostForAnHour()
			w.run()
			w.refuse()
			w.now = w.now.Add(time.Second)
			w.run()
			w.unwritten = unwritten
			w.now = w.now.Add(w.run())
			w.gitHolds("there", "git-first")
			w.unwritten = nil
			for range 3 {
				w.now = w.now.Add(w.run())
			}
			w.gitHolds("there", fmt.Sprint("git-", w.gitIssued))
			if w.gitIssued != 2 {
				t.Errorf("%d tokens were issued", w.gitIssued)
			}
		})
	}
}

// A host that refuses whatever it is shown, for longer than a token lasts, takes the one that is
// kept when it is in order again.
func TestWhatIsRefusedIsRenewedWhenItIsDue(t *testing.T) {
	w := newWorld(t)
	w.onGitHostForAnHour()
	w.run()
	w.refuse()
	end := w.now.Add(10 * time.Hour)
	for w.now.Before(end) {
		w.now = w.now.Add(max(w.run(), time.Second))
	}
	// One at once, and then each time that 40 minutes and a little have passed.
	if w.gitIssued < 14 || w.gitIssued > 16 {
		t.Errorf("%d tokens were issued", w.gitIssued)
	}
	var s corev1.Secret
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
		t.Fatal(err)
	}
	if k := read(&s); !w.now.Before(k.git.Expires) {
		t.Errorf("at %s, it keeps one that has expired at %s", w.now, k.git.Expires)
	}
	if w.asked() != 0 {
		t.Errorf("the backend's own was renewed %d times", w.asked())
	}

	// So is the backend's own.
	w = newWorld(t)
	w.run()
	w.refuse()
	w.now = w.now.Add(63 * time.Hour)
	for range 3 {
		w.now = w.now.Add(w.run())
	}
	w.holds("renewed-1", "first")
}

// A Git host may have been left, and the Connection not say so yet.
func TestWhatIsNotRenewedKeepsTheOtherFromNothing(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		downAt  string
		refused bool
	}{
		"the Git host's, which is refused, is unknown": {http.StatusNotFound, "credential/git", true},
		"the Git host's, which is refused":             {http.StatusServiceUnavailable, "credential/git", true},
		"the Git host's":                               {http.StatusServiceUnavailable, "credential/git", false},
		"the backend's, and the Git host's is refused": {http.StatusServiceUnavailable, "credential", true},
		"the backend's":                                {http.StatusServiceUnavailable, "credential", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.onGitHostForAnHour()
			if c.status == http.StatusNotFound {
				w.leaveGitHost(false)
			}
			w.run()
			// When the backend's is due.
			w.now = w.now.Add(64 * time.Hour)
			if c.refused {
				w.refuse()
			}
			w.down, w.downAt = c.status, c.downAt
			renewed := func() bool { return w.asked() > 0 }
			if c.downAt == "credential" {
				renewed = func() bool { return w.gitIssued > 0 }
			}
			end := w.now.Add(time.Hour)
			for !renewed() && w.now.Before(end) {
				w.now = w.now.Add(max(w.run(), time.Second))
			}
			if !renewed() {
				t.Fatal("it is not renewed")
			}
			// What failed is renewed as well, once it can be.
			w.down = 0
			for range 10 {
				w.inUse, _ = w.secret()
				w.now = w.now.Add(max(w.run(), time.Second))
			}
			var s corev1.Secret
			if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "s"}, &s); err != nil {
				t.Fatal(err)
			}
			if git := read(&s).git.Password; w.asked() == 0 || w.git == (git == "git-first") {
				t.Errorf("the backend's was renewed %d times, and the Git host's is %s", w.asked(), git)
			}
		})
	}
}

func errorsForbidden() error {
	return apierrors.NewForbidden(corev1.Resource("secrets"), "s", errors.New("no"))
}
