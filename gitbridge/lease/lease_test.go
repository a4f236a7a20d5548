package lease

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is one on which writes may fail. How it is kept in a cluster is seen by
// the end-to-end tests.
type lock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
	during func()
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &l.record, nil, l.err
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.during != nil {
		l.during()
	}
	if l.err == nil {
		l.record = r
	}
	return l.err
}

func record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder}
}

func elected(o Options) (*Lease, *lock) {
	under := &lock{}
	o.Elect, o.Identity = true, "me"
	return &Lease{Interface: under, options: o, back: make(chan struct{})}, under
}

func TestHeldUntilAnotherMayTakeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const duration = 15 * time.Second
		l, under := elected(Options{Duration: duration})
		if l.Held() {
			t.Error("it is held before it was taken")
		}
		under.during = func() { time.Sleep(duration / 2) }
		began := time.Now()
		if err := l.Update(t.Context(), record("me")); err != nil {
			t.Fatal(err)
		}
		if !l.Held() {
			t.Fatal("it is not held after it was taken")
		}
		for l.Held() {
			if time.Since(began) > duration {
				// Others count from when they saw the renewal, which was written after
				// it was sent.
				t.Fatal("it is held for longer than its duration after the renewal was sent")
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// The monotonic clock does not tell that a machine was suspended, and the other one may be wrong.
func TestTimeIsLeftByBothClocks(t *testing.T) {
	now := time.Now()
	until := now.Add(15 * time.Second)
	for want, wall := range map[time.Duration]time.Time{15 * time.Second: now, -45 * time.Second: now.Add(time.Minute), 0: until} {
		if got := left(until, now, wall); got != want {
			t.Errorf("at %s it is %s, want %s", wall, got, want)
		}
	}
	if got := left(until, now, now.Add(-time.Hour)); got != 15*time.Second {
		t.Errorf("with a clock that was set back it is %s", got)
	}
	if got := left(until, until, now); got != 0 {
		t.Errorf("when it has come it is %s", got)
	}
}

func TestARenewalThatFailsRenewsNothing(t *testing.T) {
	l, under := elected(Options{Duration: time.Hour})
	if err := l.Update(t.Context(), record("me")); err != nil {
		t.Fatal(err)
	}
	l.until = l.until.Add(-time.Minute)
	before := l.until
	under.err = errors.New("no answer")
	if err := l.Update(t.Context(), record("me")); err == nil || l.until != before {
		t.Errorf("%v, and it is held until %s instead of %s", err, l.until, before)
	}
}

func TestALeaseThatIsFreshIsNotRenewedAgain(t *testing.T) {
	o := Options{Duration: 15 * time.Second, Renew: 10 * time.Second}
	l, under := elected(o)
	writes := 0
	under.during = func() { writes++ }
	ask := func(holder string, want int) {
		t.Helper()
		if err := l.Update(t.Context(), record(holder)); err != nil || writes != want {
			t.Errorf("%d writes, want %d, %v", writes, want, err)
		}
	}
	ask("me", 1)
	ask("me", 1)
	l.until = time.Now().Add(o.Duration - 2*time.Second - time.Millisecond)
	ask("me", 2)
	// Another one had it meanwhile.
	l.holder = "another"
	ask("me", 3)
	ask("", 4)
	if err := l.Update(t.Context(), record("me")); err != nil || writes != 5 || !l.Held() {
		t.Errorf("after the release: %d writes, %v", writes, err)
	}
}

func TestAHolderThatCannotRenewGivesUpBeforeAnotherTakesOver(t *testing.T) {
	for _, o := range []Options{Default(), {Duration: 4 * time.Second, Renew: 3 * time.Second}} {
		if left := o.Duration - o.pause() - o.Renew; left <= 0 {
			t.Errorf("%+v: it gives up %s too late", o, -left)
		}
	}
}

func TestNothingIsWrittenFromTheReleaseOn(t *testing.T) {
	l, under := elected(Options{Duration: time.Hour})
	if err := l.Update(t.Context(), record("me")); err != nil {
		t.Fatal(err)
	}
	under.during = func() {
		if l.Held() {
			t.Error("it is still held while the release is under way")
		}
	}
	if err := l.Update(t.Context(), record("")); err != nil || l.Held() {
		t.Errorf("released: %v, held: %t", err, l.Held())
	}
}

// hanging is a lock in a cluster that stops answering once, for longer than a Lease
// lasts; meanwhile another process takes the Lease.
type hanging struct {
	lock
	updates int
	hang    time.Duration
}

func (l *hanging) Identity() string   { return "me" }
func (l *hanging) Describe() string   { return "ns/l" }
func (l *hanging) RecordEvent(string) {}

func (l *hanging) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw := l.record, []byte(l.record.HolderIdentity)
	return &record, raw, ctx.Err()
}

func (l *hanging) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.updates++; l.updates == 2 {
		time.Sleep(l.hang)
		l.record = record("another")
		l.record.LeaderTransitions = r.LeaderTransitions + 1
		return errors.New("the object has been modified")
	}
	return l.lock.Update(ctx, r)
}

// With no holder, others would take the Lease for free while its holder works.
func TestAProcessThatHungDoesNotReleaseTheLeaseOfItsSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Default()
		under := &hanging{hang: o.Duration + time.Second}
		o.Identity = "me"
		l := &Lease{Interface: under, options: o, back: make(chan struct{})}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l, LeaseDuration: o.Duration, RenewDeadline: o.Renew, RetryPeriod: o.Retry, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		elector.Run(t.Context())
		if under.record.HolderIdentity != "another" || l.Held() {
			t.Errorf("%q holds the Lease, and this process thinks that it does: %t", under.record.HolderIdentity, l.Held())
		}
	})
}

func TestGuard(t *testing.T) {
	var passed int
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ }))
	defer server.Close()
	held, _ := elected(Options{Duration: time.Hour})
	held.until = time.Now().Add(time.Hour)
	lost, _ := elected(Options{Duration: time.Hour})
	lost.until = time.Now().Add(-time.Millisecond)
	for name, c := range map[string]struct {
		lease        *Lease
		method, path string
		want         bool
	}{
		"a write of who holds it":            {held, http.MethodPost, "/apis/x", true},
		"a write of who lost it":             {lost, http.MethodPost, "/apis/x", false},
		"a patch of who lost it":             {lost, http.MethodPatch, "/apis/x", false},
		"a delete of who lost it":            {lost, http.MethodDelete, "/apis/x", false},
		"a read of who lost it":              {lost, http.MethodGet, "/apis/x", true},
		"a fetch of who lost it":             {lost, http.MethodPost, "/git/x.git/git-upload-pack", true},
		"a push of who lost it":              {lost, http.MethodPost, "/git/x.git/git-receive-pack", false},
		"a push of who never had it":         {&Lease{options: Options{Elect: true}}, http.MethodPost, "/git/x.git/git-receive-pack", false},
		"a write of one that is not elected": {&Lease{}, http.MethodPost, "/apis/x", true},
	} {
		passed = 0
		client := &http.Client{Transport: c.lease.Guard(http.DefaultTransport)}
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (passed == 1) != c.want || !c.want && !errors.Is(err, ErrNotHeld) {
			t.Errorf("%s: passed %d times, %v", name, passed, err)
		}
	}
}

func TestAHolderOfALeaseThatWentBackEnds(t *testing.T) {
	l, under := elected(Options{Duration: 15 * time.Second, Renew: 10 * time.Second})
	written := func(at time.Time) resourcelock.LeaderElectionRecord {
		r := record("me")
		r.RenewTime = metav1.NewTime(at)
		return r
	}
	now := time.Now()
	if err := l.Update(t.Context(), written(now)); err != nil {
		t.Fatal(err)
	}
	under.record = written(now.Truncate(time.Microsecond))
	if _, _, err := l.Get(t.Context()); err != nil || !l.Held() {
		t.Fatalf("as it was written: %v", err)
	}
	under.record = record("another")
	if _, _, err := l.Get(t.Context()); err != nil {
		t.Fatalf("another one, whose clock may be wrong, has it: %v", err)
	}
	under.record = written(now.Add(-5 * time.Second))
	if _, _, err := l.Get(t.Context()); !errors.Is(err, errWentBack) || l.Held() {
		t.Fatalf("it went back: %v, held %t", err, l.Held())
	}
	// What was read could be renewed now.
	if err := l.Update(t.Context(), written(now.Add(time.Second))); !errors.Is(err, errWentBack) || l.Held() {
		t.Errorf("it is renewed: %v", err)
	}
	if err := l.Explain(errors.New("leader election lost")); !errors.Is(err, errWentBack) {
		t.Errorf("it ends with the words %v", err)
	}
}

func TestAHolderGoesOnWhenItsClockIsSetBack(t *testing.T) {
	l, _ := elected(Options{Duration: 15 * time.Second, Renew: 10 * time.Second})
	for _, at := range []time.Time{time.Now().Add(24 * time.Hour), time.Now()} {
		r := record("me")
		r.RenewTime = metav1.NewTime(at)
		l.until = time.Time{} // so that it is sent
		if err := l.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
}

// The caches of a process that stands by have seen newer versions, too.
func TestAStandbyNoticesThatTheLeaseWentBack(t *testing.T) {
	said := func(holder string, transitions int, second int) resourcelock.LeaderElectionRecord {
		r := record(holder)
		r.LeaderTransitions, r.RenewTime = transitions, metav1.NewTime(time.Unix(int64(1000+second), 0))
		return r
	}
	for name, c := range map[string]struct {
		then resourcelock.LeaderElectionRecord
		back bool
	}{
		"it is renewed":                         {said("a", 3, 12), false},
		"it is as it was":                       {said("a", 3, 10), false},
		"it is released":                        {said("", 3, 9), false},
		"another one, whose clock is late, has": {said("b", 4, -50), false},
		"it was renewed before":                 {said("a", 3, 5), true},
		"somebody had it before":                {said("b", 2, 50), true},
	} {
		l, under := elected(Options{Duration: 15 * time.Second, Renew: 10 * time.Second})
		for _, under.record = range []resourcelock.LeaderElectionRecord{said("b", 2, 5), said("a", 3, 10)} {
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatalf("%s: before: %v", name, err)
			}
		}
		under.record = c.then
		_, _, err := l.Get(t.Context())
		select {
		case <-l.back:
		default:
			if c.back {
				t.Errorf("%s: nobody is told", name)
			}
		}
		if errors.Is(err, errWentBack) != c.back {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExplain(t *testing.T) {
	ended := errors.New("leader election lost")
	o := Options{Namespace: "gitbind-system", Name: "gitbind-konnector", Duration: 15 * time.Second, Renew: 10 * time.Second}
	for name, c := range map[string]struct {
		until  time.Duration
		holder string
		want   string
	}{
		"taken":             {-time.Minute, "another", "was lost to another, so this process ends"},
		"not renewed":       {4 * time.Second, "me", "was not renewed for 11s, so this process ends"},
		"something else":    {14 * time.Second, "me", "leader election lost"},
		"before the others": {0, "another", "leader election lost"},
	} {
		l, _ := elected(o)
		l.holder = c.holder
		if c.until != 0 {
			l.until = time.Now().Add(c.until)
		}
		err := l.Explain(ended)
		if !errors.Is(err, ended) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if c.want == ended.Error() && err != ended { //nolint:errorlint // that it is the same one
			t.Errorf("%s: %v says more than is known", name, err)
		}
	}
	if err := (&Lease{options: Options{Elect: true}}).Explain(nil); err != nil {
		t.Error(err)
	}
}

func TestOptions(t *testing.T) {
	if err := Default().validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if d := Default(); time.Duration(2.2*float64(d.Retry)) > 2*time.Second {
		t.Errorf("who stands by looks every %s only: a successor takes too long", d.Retry)
	}
	for name, change := range map[string]func(*Options){
		"no duration":                 func(o *Options) { o.Duration = 0 },
		"parts of a second":           func(o *Options) { o.Duration += time.Millisecond },
		"renewed until after its end": func(o *Options) { o.Renew = o.Duration },
		"never tried":                 func(o *Options) { o.Retry = 0 },
		"tried once only":             func(o *Options) { o.Retry = o.Renew },
	} {
		o := Default()
		if change(&o); o.validate() == nil {
			t.Errorf("%s is accepted", name)
		}
		if o.Elect = false; o.validate() != nil {
			t.Errorf("%s matters though nobody is elected", name)
		}
	}
}
