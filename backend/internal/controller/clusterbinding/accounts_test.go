package clusterbinding

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// tokens are those of a Git host that keeps them in memory, by agent and name.
type tokens struct {
	githost.Accounts
	of map[string]map[string]string
	// between is called after the tokens were listed.
	between func()
	// expires is when what is issued expires; renewed a while before.
	expires time.Time
	issued  int
	// asked is how often it was asked whether the repository is there, or for an agent's tokens.
	asked int
	// trouble is what is wrong with the repository, notReady with the host, refusal with giving
	// credentials and keeping with ending them; gone says that it shows no repository.
	trouble, notReady, refusal, keeping error
	gone                                bool
	// url is where the host is.
	url string
}

func (t *tokens) Exists(context.Context, string) (bool, error) {
	t.asked++
	return !t.gone, nil
}

func (t *tokens) Ready(context.Context) error { return t.notReady }

func (t *tokens) Create(context.Context, string) error { return t.trouble }

func (t *tokens) URL(id string) string { return cmp.Or(t.url, "https://git.example.com/") + id }

func (t *tokens) Issue(_ context.Context, _, agent, name string) (githost.Credential, error) {
	if t.refusal != nil {
		return githost.Credential{}, t.refusal
	}
	if t.of[agent] == nil {
		t.of[agent] = map[string]string{}
	}
	t.of[agent][name] = "opens-" + name
	t.issued++
	c := githost.Credential{Username: "account-of-" + agent, Password: t.of[agent][name]}
	if !t.expires.IsZero() {
		c.Expires, c.RenewAfter = t.expires, t.expires.Add(-20*time.Minute)
	}
	return c, nil
}

func (t *tokens) Retain(ctx context.Context, _, agent string, counting func(context.Context) ([]string, error)) error {
	t.asked++
	if t.keeping != nil {
		return t.keeping
	}
	listed := slices.Collect(maps.Keys(t.of[agent]))
	if t.between != nil {
		t.between()
	}
	names, err := counting(ctx)
	for _, name := range listed {
		if !slices.Contains(names, name) {
			delete(t.of[agent], name)
		}
	}
	return err
}

func (t *tokens) names(agent string) []string { return slices.Sorted(maps.Keys(t.of[agent])) }

func TestWhatOpensARepositoryElsewhereFollowsWhatOpensTheBackend(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	api := fakeapi.New(fakeapi.Builder())
	host := &tokens{of: map[string]map[string]string{}}
	r := &Reconciler{Client: api, Live: api, Host: host, Accounts: host, Now: func() time.Time { return now }}
	key := client.ObjectKey{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.BridgeSecret}
	bridge := func() credential.Bridge {
		t.Helper()
		if err := r.bridgeCredential(t.Context(), cluster()); err != nil {
			t.Fatal(err)
		}
		if err := r.endCredentials(t.Context(), cluster(), true); err != nil {
			t.Fatal(err)
		}
		var s corev1.Secret
		if err := api.Get(t.Context(), key, &s); err != nil {
			t.Fatal(err)
		}
		return credential.ReadBridge(s.Data)
	}
	is := func(agent string, passwords ...string) {
		t.Helper()
		var want []string
		for _, p := range passwords {
			want = append(want, credential.Hash(p))
		}
		slices.Sort(want)
		if got := host.names(agent); !slices.Equal(got, want) {
			t.Errorf("the %s has %v, want %v", agent, got, want)
		}
	}

	// One from before the host was this one gets what opens it.
	if err := api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: map[string][]byte{
		"username": []byte("bridge"), "password": []byte("old"), "expires": []byte(now.Add(bridgeLifetime).Format(time.RFC3339)),
	}}); err != nil {
		t.Fatal(err)
	}
	first := bridge()
	if first.GitUsername != "account-of-bridge" || first.GitPassword != "opens-"+credential.Hash(first.Password) {
		t.Errorf("%+v", first)
	}
	now = now.Add(bridgeOverlap)
	bridge()
	is("bridge", first.Password)

	// A renewal overlaps, and ends.
	now = now.Add(bridgeLifetime - bridgeLeft)
	second := bridge()
	is("bridge", first.Password, second.Password)
	now = now.Add(bridgeOverlap)
	bridge()
	is("bridge", second.Password)

	// The konnector's follow its Secret. One that is issued meanwhile stays.
	record := credential.Record{Hash: credential.Hash("current"), Expires: now.Add(time.Hour)}
	konnector := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: v1alpha1.KonnectorSecret}, Data: map[string][]byte{}}
	record.WriteTo(konnector.Data)
	if err := api.Create(t.Context(), konnector); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"revoked", "current"} {
		_, _ = host.Issue(t.Context(), "", "konnector", credential.Hash(password))
	}
	host.between = func() {
		host.between = nil
		record.Offered(credential.Hash("next"), now.Add(time.Hour)).WriteTo(konnector.Data)
		if err := api.Update(t.Context(), konnector); err != nil {
			t.Fatal(err)
		}
		_, _ = host.Issue(t.Context(), "", "konnector", credential.Hash("next"))
	}
	bridge()
	is("konnector", "current", "next")

	// A cluster that is gone has none.
	if err := api.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(key.Namespace)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "k3x9d2abqw"}}); err != nil {
		t.Fatal(err)
	}
	is("konnector")
	is("bridge")
}

// TestWhatTheHostEndsByItselfIsRenewedInTime has a host whose tokens live for an hour.
func TestWhatTheHostEndsByItselfIsRenewedInTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	api := fakeapi.New(fakeapi.Builder())
	host := &tokens{of: map[string]map[string]string{}, expires: now.Add(time.Hour)}
	r := &Reconciler{Client: api, Live: api, Host: host, Accounts: host, Now: func() time.Time { return now }}
	bridge := func(issued int, again time.Duration) credential.Bridge {
		t.Helper()
		if err := r.bridgeCredential(t.Context(), cluster()); err != nil {
			t.Fatal(err)
		}
		if got, err := r.lookAgain(t.Context(), cluster()); got != again || err != nil {
			t.Errorf("it looks again in %s, %v; want %s", got, err, again)
		}
		var s corev1.Secret
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.BridgeSecret}, &s); err != nil {
			t.Fatal(err)
		}
		if host.issued != issued {
			t.Errorf("%d were issued, want %d", host.issued, issued)
		}
		return credential.ReadBridge(s.Data)
	}
	first := bridge(1, 40*time.Minute)
	if !first.GitExpires.Equal(host.expires) {
		t.Errorf("it expires %s", first.GitExpires)
	}
	now = now.Add(39 * time.Minute)
	bridge(1, time.Minute)
	now, host.expires = now.Add(time.Minute), now.Add(time.Hour+time.Minute)
	second := bridge(2, 40*time.Minute)
	if second.Password != first.Password || second.Previous != "" || !second.GitExpires.Equal(host.expires) {
		t.Errorf("%+v after %+v", second, first)
	}
	// The host gives one that stays, such as after a move to another.
	now, host.expires = now.Add(40*time.Minute), time.Time{}
	if third := bridge(3, bridgeLook); !third.GitExpires.IsZero() {
		t.Errorf("it expires %s", third.GitExpires)
	}
}

// world is a control plane with one ClusterBinding, a Git host of its own whose tokens live for
// an hour, and a clock.
type world struct {
	*Reconciler
	t    *testing.T
	api  client.Client
	host *tokens
	now  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	w.api = fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.ClusterBinding{}).WithObjects(cluster()))
	w.host = &tokens{of: map[string]map[string]string{}, expires: w.now.Add(time.Hour)}
	w.Reconciler = &Reconciler{Client: w.api, Live: w.api, Host: w.host, Accounts: w.host, Now: func() time.Time { return w.now }}
	return w
}

// run reconciles once, and gives when it is done again and the condition Ready.
func (w *world) run() (again time.Duration, ready metav1.Condition) {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "k3x9d2abqw"}})
	if err != nil {
		w.t.Logf("reconcile: %v", err)
	}
	var cb v1alpha1.ClusterBinding
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "k3x9d2abqw"}, &cb); err != nil {
		w.t.Fatal(err)
	}
	for _, c := range cb.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			ready = c
		}
	}
	return result.RequeueAfter, ready
}

func TestWhatIsWrongWithARepositoryHoldsUpNoCredential(t *testing.T) {
	for name, c := range map[string]struct {
		trouble error
		reason  string
	}{
		"archived":     {githost.ErrArchived, "RepositoryArchived"},
		"renamed":      {githost.ErrRenamed, "RepositoryRenamed"},
		"its webhook":  {githost.ErrWebhook, "GitHostRefusesWebhook"},
		"its rules":    {githost.ErrCredential, "GitHostRefuses"},
		"its accounts": {&githost.AccountTakenError{Name: "gitbind-konnector-k3x9d2abqw"}, "InTheWay"},
		"what it is":   {errors.New("internal error"), "Failed"},
		"a rate limit": {&githost.RateLimitError{Until: time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)}, "Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if again, ready := w.run(); again != 40*time.Minute || ready.Reason != "Ready" {
				t.Fatalf("again in %s: %+v", again, ready)
			}
			_, _ = w.host.Issue(t.Context(), "", "konnector", "revoked")
			w.host.issued, w.host.trouble = 0, c.trouble
			again, ready := w.run()
			if len(w.host.names("konnector")) != 0 {
				t.Error("what was revoked opens the repository")
			}
			if ready.Reason != c.reason {
				t.Errorf("it says %+v", ready)
			}
			if again > 40*time.Minute {
				t.Errorf("it looks again in %s, after the bridge's credential is to be renewed", again)
			}
			w.now = w.now.Add(40 * time.Minute)
			if w.run(); w.host.issued != 1 {
				t.Errorf("%d were issued", w.host.issued)
			}
		})
	}
	// One that was never there gets none.
	w := newWorld(t)
	w.host.trouble = githost.ErrCredential
	if w.run(); w.host.issued != 0 {
		t.Errorf("%d were issued", w.host.issued)
	}
}

// TestARepositoryThatIsNotShownMayBeThere has the backend's account lose its right to see it.
func TestARepositoryThatIsNotShownMayBeThere(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.host.gone = true
	for _, c := range []struct {
		notReady error
		reason   string
	}{
		{fmt.Errorf("%w (on selected repositories only)", githost.ErrCredential), "GitHostRefuses"},
		{errors.New("no answer"), "Failed"},
		{nil, "RepositoryGone"},
	} {
		w.host.notReady = c.notReady
		if _, ready := w.run(); ready.Reason != c.reason {
			t.Errorf("%v: it says %+v", c.notReady, ready)
		}
	}
}

func TestE13_ARateLimitIsWaitedFor(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &Reconciler{Now: func() time.Time { return now }}
	for until, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, -time.Minute: time.Second} {
		for _, limit := range []error{&githost.RateLimitError{Until: now.Add(until)}, &githost.TooOftenError{Until: now.Add(until)}} {
			all := map[time.Duration]bool{}
			for range 10 {
				got, err := r.later(fmt.Errorf("repository: %w", errors.Join(errors.New("other"), limit)))
				if all[got.RequeueAfter] = true; err != nil || got.RequeueAfter < want || got.RequeueAfter > want*6/5 {
					t.Errorf("until %s: %v, %v", until, got, err)
				}
			}
			if len(all) == 1 {
				t.Errorf("until %s: all clusters go on at once", until)
			}
		}
	}
}

// TestACredentialThatIsOverdueIsAskedForOnceAMinute has a host that gives none for an hour.
func TestACredentialThatIsOverdueIsAskedForOnceAMinute(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.now = w.now.Add(40 * time.Minute)
	limit := &githost.RateLimitError{Until: w.now.Add(time.Hour)}
	for _, c := range []struct{ trouble, refusal error }{{nil, limit}, {limit, errors.New("no answer")}, {githost.ErrArchived, githost.ErrCredential}} {
		w.host.trouble, w.host.refusal = c.trouble, c.refusal
		if again, _ := w.run(); again != time.Minute {
			t.Errorf("%v, %v: again in %s", c.trouble, c.refusal, again)
		}
	}
}

// TestARateLimitChangesNothingThatIsSaid has one that is used up for all clusters at once.
func TestARateLimitChangesNothingThatIsSaid(t *testing.T) {
	for reason, limit := range map[string]error{
		"GitHostRateLimit": &githost.RateLimitError{Until: time.Date(2026, 11, 21, 12, 30, 0, 0, time.UTC)},
		"CredentialWaits":  &githost.TooOftenError{Until: time.Date(2026, 11, 21, 12, 2, 0, 0, time.UTC)},
	} {
		w := newWorld(t)
		w.host.trouble = limit
		if _, ready := w.run(); ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			t.Errorf("one that was not ready: %+v", ready)
		}
		w.host.trouble = nil
		_, before := w.run()
		w.now, w.host.trouble = w.now.Add(time.Minute), limit
		if _, ready := w.run(); ready != before || ready.Status != metav1.ConditionTrue {
			t.Errorf("one that was ready: %+v", ready)
		}
	}
}

func TestE14_ARepositoryIsMovedBeforeItsPlaceIsSaid(t *testing.T) {
	w := newWorld(t)
	w.run()
	at := func() string {
		t.Helper()
		var cb v1alpha1.ClusterBinding
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "k3x9d2abqw"}, &cb); err != nil {
			t.Fatal(err)
		}
		return cb.Status.Repository.URL
	}
	was, moves := at(), 0
	w.Move = func(context.Context, string) (bool, error) { moves++; return false, nil }
	if w.run(); moves != 0 {
		t.Error("a repository is moved to where it is")
	}

	w.host.url, w.host.gone = "https://next.example.com/", true
	if _, ready := w.run(); ready.Reason != "RepositoryGone" || at() != was {
		t.Errorf("with nothing to move: %+v at %s", ready, at())
	}
	w.Move = func(context.Context, string) (bool, error) { return true, githost.ErrOtherHistory }
	if again, ready := w.run(); ready.Reason != "AnotherRepository" || at() != was || again > time.Minute {
		t.Errorf("with another one in its place: %+v at %s, again in %s", ready, at(), again)
	}
	// The bridge has asked for some.
	w.now = w.now.Add(10 * time.Minute)
	w.host.issued, moves = 0, 0
	w.Move = func(context.Context, string) (bool, error) { moves++; w.host.gone = false; return true, nil }
	for range 2 {
		if _, ready := w.run(); ready.Reason != "Ready" || at() != "https://next.example.com/k3x9d2abqw" {
			t.Errorf("moved: %+v at %s", ready, at())
		}
	}
	if moves != 1 || w.host.issued != 1 {
		t.Errorf("it was moved %d times, and %d credentials were issued", moves, w.host.issued)
	}

	// Back to the embedded host, which takes what opens the backend.
	w.Accounts = nil
	w.run()
	var s corev1.Secret
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.BridgeSecret}, &s); err != nil {
		t.Fatal(err)
	}
	if b := credential.ReadBridge(s.Data); b.GitPassword != "" || !b.GitExpires.IsZero() || b.Password == "" {
		t.Errorf("%+v", b)
	}
}

// bridge is what the bridge's Secret has.
func (w *world) bridge() map[string][]byte {
	w.t.Helper()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.BridgeSecret}, &s); err != nil {
		w.t.Fatal(err)
	}
	return s.Data
}

// TestAMoveThatFailsLeavesTheBridgeItsCredential has the bridge go on with the host that is left,
// which is to see nothing of the next one.
func TestAMoveThatFailsLeavesTheBridgeItsCredential(t *testing.T) {
	t.Parallel()
	for reason, next := range map[string]func(w *world){
		"AnotherRepository": func(w *world) {
			w.Move = func(context.Context, string) (bool, error) { return true, githost.ErrOtherHistory }
		},
		"GitHostRefusesBranches": func(w *world) {
			w.Move = func(context.Context, string) (bool, error) { return true, &githost.MoveRefusedError{Words: "no"} }
		},
		"GitHostRefusesWebhook": func(w *world) { w.host.trouble = githost.ErrWebhook },
		"RepositoryGone":        func(w *world) { w.host.gone, w.Accounts = true, nil }, // to the embedded host
		"Failed":                func(w *world) { w.host.keeping = errors.New("it is away") },
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.host.expires = time.Time{}
			w.run()
			before, was, accounts := w.bridge(), w.host.url, w.Accounts
			if at := string(before[v1alpha1.RepositoryURLKey]); at != "https://git.example.com/k3x9d2abqw" {
				t.Errorf("it is of %q", at)
			}
			w.host.url, w.host.issued = "https://next.example.com/", 0
			w.Move = func(context.Context, string) (bool, error) { return true, nil }
			next(w)
			for range 3 {
				w.now = w.now.Add(2 * time.Minute)
				again, ready := w.run()
				if ready.Reason != reason {
					t.Errorf("%+v", ready)
				}
				// All of the repository is sent each time: that backs off.
				if reason == "GitHostRefusesBranches" && again != 0 {
					t.Errorf("it is tried again after %s, each time", again)
				}
			}
			if is := w.bridge(); !maps.EqualFunc(is, before, bytes.Equal) || w.host.issued != 0 {
				t.Errorf("%d were issued, and it has %q instead of %q", w.host.issued, is, before)
			}
			// The operator takes it back.
			w.host.url, w.host.gone, w.host.trouble, w.host.keeping, w.Accounts = was, false, nil, nil, accounts
			if _, ready := w.run(); ready.Reason != "Ready" || !maps.EqualFunc(w.bridge(), before, bytes.Equal) {
				t.Errorf("taken back: %+v", ready)
			}
		})
	}
}

// TestAMoveThatIsTakenBackGivesTheBridgeACredentialOfItsHost has one that ended between the
// bridge's Secret and what the ClusterBinding says.
func TestAMoveThatIsTakenBackGivesTheBridgeACredentialOfItsHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.expires = time.Time{}
	w.run()
	next := func(url string, accounts githost.Accounts) {
		t.Helper()
		var cb v1alpha1.ClusterBinding
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "k3x9d2abqw"}, &cb); err != nil {
			t.Fatal(err)
		}
		w.host.url, w.Accounts, w.host.issued = url, accounts, 0
		if err := w.bridgeCredential(t.Context(), &cb); err != nil {
			t.Fatal(err)
		}
	}
	for _, accounts := range []githost.Accounts{w.host, nil} {
		next("https://next.example.com/", accounts)
		if at := string(w.bridge()[v1alpha1.RepositoryURLKey]); at != "https://next.example.com/k3x9d2abqw" {
			t.Errorf("it is of %q", at)
		}
		w.host.url, w.Accounts, w.host.issued = "", w.host, 0
		w.now = w.now.Add(time.Hour)
		w.run()
		if is := w.bridge(); string(is[v1alpha1.RepositoryURLKey]) != "https://git.example.com/k3x9d2abqw" || len(is[v1alpha1.GitPasswordKey]) == 0 || w.host.issued != 1 {
			t.Errorf("%d were issued, and it has %q", w.host.issued, is)
		}
	}
}

// TestH7_AHostIsNotAskedForAllThatAKonnectorDoes has one that registers other keys all the time,
// which has its ClusterBinding be looked at.
func TestH7_AHostIsNotAskedForAllThatAKonnectorDoes(t *testing.T) {
	t.Parallel()
	for reason, trouble := range map[string]error{"Ready": nil, "RepositoryArchived": githost.ErrArchived} {
		w := newWorld(t)
		w.run()
		w.host.trouble, w.host.asked = trouble, 0
		const minutes = 2
		for range minutes * 60 {
			w.now = w.now.Add(time.Second)
			if again, ready := w.run(); ready.Reason != reason || again <= 0 {
				t.Fatalf("again in %s: %+v", again, ready)
			}
		}
		if most := 3 * (hostLookBurst + minutes*int(time.Minute/hostLookEvery)); w.host.asked > most {
			t.Errorf("%s: in %d minutes it was asked %d times, want at most %d", reason, minutes, w.host.asked, most)
		}
		// What is revoked ends at once.
		_, _ = w.host.Issue(t.Context(), "", "konnector", credential.Hash("current"))
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-k3x9d2abqw", Name: v1alpha1.KonnectorSecret}, Data: map[string][]byte{}}
		credential.Record{Hash: credential.Hash("current"), Expires: w.now.Add(time.Hour)}.WriteTo(s.Data)
		if err := w.api.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if w.run(); len(w.host.names("konnector")) != 1 {
			t.Error("what counts has ended")
		}
		credential.Record{}.WriteTo(s.Data)
		if err := w.api.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if w.run(); len(w.host.names("konnector")) != 0 {
			t.Error("what was revoked opens the repository")
		}
	}
}

// owned is a Git host that keeps whose a repository is.
type owned struct {
	*tokens
	owner string
}

func (o *owned) Owner(context.Context, string) (string, error) { return o.owner, nil }

func (o *owned) SetOwner(_ context.Context, _, owner string) error {
	o.owner = owner
	return nil
}

func TestTheHostIsToldWhoseARepositoryIs(t *testing.T) {
	w := newWorld(t)
	host := &owned{tokens: w.host}
	w.Host = host
	for _, subject := range []string{"alice", "bob"} {
		var cb v1alpha1.ClusterBinding
		if err := w.api.Get(t.Context(), client.ObjectKey{Name: "k3x9d2abqw"}, &cb); err != nil {
			t.Fatal(err)
		}
		cb.Spec.Owner = v1alpha1.Owner{Issuer: "https://dex", Subject: subject, Username: subject}
		if err := w.api.Update(t.Context(), &cb); err != nil {
			t.Fatal(err)
		}
		if w.run(); host.owner != githost.OwnerDigest("https://dex", subject) {
			t.Errorf("of %s's it keeps %q", subject, host.owner)
		}
	}
}
