package repository

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

const (
	api     = "postgresqlinstances.anynines.com"
	cluster = "k3x9d2abqw"
)

var orders = contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}

// world is a remote, a person and a bridge who push to it, and the repository
// that follows it.
type world struct {
	*testing.T
	remote *memstore.Remote
	repo   *Repository
	person store.Branch
	bridge store.Branch

	mu      sync.Mutex
	saved   []Checkpoint
	now     time.Time
	changes []Change
	moved   *sync.Cond
}

func newWorld(t *testing.T, accepted store.Hash, remote *memstore.Remote) *world {
	return newWorldWith(t, Checkpoint{Accepted: accepted}, remote)
}

func newWorldWith(t *testing.T, last Checkpoint, remote *memstore.Remote) *world {
	w := &world{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), T: t, remote: remote, person: remote.Branch("main"), bridge: remote.Branch("status")}
	w.moved = sync.NewCond(&w.mu)
	name, email := contract.ComponentIdentity(contract.Konnector, cluster)
	remote.Committer = store.Signature{Name: name, Email: email}
	w.repo = New(Options{
		Remote:     Remote{Main: remote.Branch("main"), Status: remote.Branch("status"), Branch: remote.Branch},
		Connection: "default", ConnectionUID: "c1", ClusterID: cluster, Checkpoint: last,
		Limits: breaker.Default(),
		Save: func(_ context.Context, c Checkpoint) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.saved = append(w.saved, c)
			return nil
		},
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		OnState: func() { w.signal(nil) },
	})
	remote.Committer = store.Signature{Name: "Ada", Email: "ada@example.org"}
	t.Cleanup(w.repo.Subscribe(api, w.signal2))
	return w
}

func (w *world) signal(add func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if add != nil {
		add()
	}
	w.moved.Broadcast()
}

func (w *world) signal2(c Change) { w.signal(func() { w.changes = append(w.changes, c) }) }

func (w *world) run() { w.runIn(w.Context()) }

func (w *world) runIn(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.repo.Run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-done
	})
}

// until waits for a condition that is looked at whenever something happened.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	late := time.AfterFunc(time.Minute, func() { w.signal(nil) })
	defer late.Stop()
	start := time.Now()
	for {
		if ok() {
			return
		}
		if time.Since(start) > 59*time.Second {
			w.Fatalf("never: %s; health %+v", what, w.repo.Health())
		}
		w.mu.Lock()
		timer := time.AfterFunc(50*time.Millisecond, func() { w.signal(nil) })
		w.moved.Wait()
		w.mu.Unlock()
		timer.Stop()
	}
}

func (w *world) put(b store.Branch, path, content string, trailers ...store.Trailer) store.Hash {
	w.Helper()
	s, err := b.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "put " + path, Trailers: trailers,
		Apply: func(t *store.Tree) error {
			if content == "" {
				return t.Remove(path)
			}
			return t.Write(path, []byte(content))
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return s.Head()
}

func (w *world) view() View {
	w.Helper()
	v, err := w.repo.View(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return v
}

func TestNothingIsKnownBeforeFirstContact(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	if _, err := w.repo.View(t.Context()); !errors.Is(err, ErrNotContacted) {
		t.Errorf("got %v", err)
	}
	w.run()
	w.until("contact with an empty repository", func() bool { return w.repo.Health().Contacted })
	if v := w.view(); v.Main.Head() != "" || v.Replaced != "" {
		t.Errorf("got %+v", v)
	}
}

func TestSubscribersHearWhatChanged(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	w.put(w.person, orders.Path(), "1")
	w.put(w.person, "bindings/backups.anynines.com/claims/team-a/x.yaml", "of another binding")
	w.run()
	heard := func(c Change) func() bool {
		return func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, got := range w.changes {
				if cmp.Equal(got, c) {
					return true
				}
			}
			return false
		}
	}
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.until("the file that was there", heard(Change{Claims: []contract.Key{orders}, First: true}))
	other := contract.Key{Binding: api, Namespace: "team-a", Name: "other"}
	w.repo.moved("refs/heads/main", w.put(w.person, other.Path(), "1"))
	w.until("a new file", heard(Change{Claims: []contract.Key{other}}))
	w.repo.moved("refs/heads/status", w.put(w.bridge, contract.ExportPath(api), "crd"))
	w.until("an export", heard(Change{Export: true}))
	creds := contract.SecretKey{Binding: api, Namespace: "team-a", Name: "creds"}
	w.repo.moved("refs/heads/status", w.put(w.bridge, creds.Path(), "1"))
	w.until("a Secret", heard(Change{Secrets: []contract.SecretKey{creds}}))
	w.put(w.bridge, contract.ObservedPath, "observed")
	w.repo.moved("", "")
	w.until("what the control plane has seen", heard(Change{Observed: true}))
}

func TestMainThatContinuesIsAccepted(t *testing.T) {
	remote := memstore.New()
	first := newWorld(t, "", remote).put(remote.Branch("main"), "a", "1")
	w := newWorld(t, first, remote)
	w.put(w.person, "a", "2")
	head := w.put(w.person, "a", "3")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	if v := w.view(); v.Replaced != "" || v.Main.Head() != head {
		t.Errorf("got %+v", v)
	}
	for range 2 {
		if err := w.repo.Checkpoints.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]Checkpoint{{Accepted: head}}, w.saved); diff != "" {
		t.Errorf("saved: %s", diff)
	}
	for from, want := range map[store.Hash]bool{first: true, head: true, "": false, "1234567890123456789012345678901234567890": false} {
		if got, err := w.view().Continues(t.Context(), from); err != nil || got != want {
			t.Errorf("continues %q: %v %v", from, got, err)
		}
	}
}

// Files of one main and history of another would say that something was removed which is
// yet to come.
func TestAViewAnswersOfItsOwnMain(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	w.put(w.person, "a", "1")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	old := w.view()
	next := w.put(w.person, "a", "2")
	w.repo.Wake()
	w.until("it is seen", func() bool { return w.view().Main.Head() == next })
	if _, err := old.Continues(t.Context(), next); !errors.Is(err, ErrOutdated) {
		t.Errorf("of the view before: %v", err)
	}
	if has, err := w.view().Continues(t.Context(), next); !has || err != nil {
		t.Errorf("of the newest view: %v, %v", has, err)
	}
}

// An approval asks for what main had at heads that have passed.
func TestHeadsThatPassedAreRememberedWithTheirFiles(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	type had map[string]bool
	heads := map[store.Hash]had{}
	var order []store.Hash
	pass := func(path, content string, then had) {
		t.Helper()
		head := w.put(w.person, path, content)
		w.repo.moved(contract.MainRef, head)
		w.until("main is "+head.Short(), func() bool { return w.view().Main.Head() == head })
		heads[head], order = then, append(order, head)
	}
	pass("a/x", "1", had{"a/x": true})
	pass("b", "1", had{"a/x": true, "b": true})
	pass("b", "2", had{"a/x": true, "b": true})
	pass("a/x", "", had{"b": true})
	pass("a/y", "1", had{"a/y": true, "b": true})
	pass("a/x", "2", had{"a/x": true, "a/y": true, "b": true})
	pass("a/y", "", had{"a/x": true, "b": true})
	check := func(from []store.Hash, known bool) {
		t.Helper()
		for _, head := range from {
			for _, path := range []string{"a/x", "a/y", "b", "a", "never"} {
				if got, isKnown := w.repo.Lineage.HadFile(string(head), path); isKnown != known || got != (known && heads[head][path]) {
					t.Errorf("%s had %s: %t, known: %t", head.Short(), path, got, isKnown)
				}
			}
		}
	}
	check(order, true)
	check([]store.Hash{"1234567890123456789012345678901234567890"}, false)
	for i := range maxRecent - 2 {
		pass("b", fmt.Sprint("more", i), had{"a/x": true, "b": true})
	}
	check(order[:5], false)
	check(order[5:], true)
}

func TestMainThatWentBackIsNotAccepted(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	backup := w.put(w.person, "a", "1")
	last := w.put(w.person, "a", "2")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.view()

	remote.ForceHead("main", backup)
	w.repo.Wake()
	w.until("it is seen", func() bool { return w.repo.Health().Replaced != "" })
	v := w.view()
	if !strings.Contains(v.Replaced, last.Short()) || !strings.Contains(v.Replaced, string(backup)) {
		t.Errorf("it does not name the commits: %s", v.Replaced)
	}

	// Not even for who decided without a look at main.
	if _, err := w.repo.Update(t.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "put",
		Apply: func(t *store.Tree) error { return t.Write("b", []byte("1")) },
	}); !errors.Is(err, ErrMoved) {
		t.Errorf("a push onto it: %v, want %v", err, ErrMoved)
	}

	// To continue from the backup does not make it right.
	person := remote.Branch("main")
	forked := w.put(person, "a", "3")
	w.repo.Wake()
	w.until("the fork is seen", func() bool { return w.view().Main.Head() == forked })
	if w.view().Replaced == "" {
		t.Error("the fork was accepted")
	}

	// Only a word for just this head is a decision.
	for _, h := range []store.Hash{"", last, backup} {
		if err := w.repo.ApproveMain(t.Context(), string(h)); err != nil {
			t.Fatal(err)
		}
		if w.view().Replaced == "" {
			t.Fatalf("%q was taken for a decision", h)
		}
	}
	if err := w.repo.ApproveMain(t.Context(), string(forked)); err != nil {
		t.Fatal(err)
	}
	if v := w.view(); v.Replaced != "" {
		t.Errorf("a person said that it is right, yet: %s", v.Replaced)
	}
	if got := w.saved[len(w.saved)-1]; got.Accepted != forked || got.Approved.Main != string(forked) {
		t.Errorf("saved: %+v", got)
	}
	if ok, err := w.view().Continues(t.Context(), last); ok || err != nil {
		t.Errorf("what was lost still counts: %v %v", ok, err)
	}
}

func TestMainThatCameBackIsAccepted(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	backup := w.put(w.person, "a", "1")
	last := w.put(w.person, "a", "2")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	w.view()
	remote.ForceHead("main", backup)
	w.repo.Wake()
	w.until("it is seen", func() bool { return w.repo.Health().Replaced != "" })
	remote.ForceHead("main", last)
	w.repo.Wake()
	w.until("it is over", func() bool { return w.repo.Health().Replaced == "" })
}

func TestMainThatIsGoneIsNotAccepted(t *testing.T) {
	remote := memstore.New()
	head := newWorld(t, "", remote).put(remote.Branch("main"), "a", "1")
	remote.ForceHead("main", "")
	w := newWorld(t, head, remote)
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	if v := w.view(); !strings.Contains(v.Replaced, "gone") {
		t.Errorf("got %q", v.Replaced)
	}
}

func TestViewHasWhatWasPushed(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	for i := range 50 {
		want := fmt.Sprint(i)
		_, err := w.repo.Update(t.Context(), store.Edit{Subject: "s", Apply: func(t *store.Tree) error { return t.Write("a", []byte(want)) }})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.view().Main.Read("a"); err != nil || string(got) != want {
			t.Fatalf("got %s %v, want %s", got, err, want)
		}
	}
}

func TestOwnWork(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	start := w.put(w.person, "a", "1")
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	var blob store.Hash
	own := func(uid types.UID, content string) store.Hash {
		sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
		blob = store.Hash(hex.EncodeToString(sum[:]))
		s, err := w.repo.Update(t.Context(), store.Edit{
			Author: store.Signature{Name: "bob", Email: "bob@" + contract.ClusterDomain(cluster)}, Subject: "s",
			Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: orders, UID: string(uid), Generation: 1, Blob: string(blob)}.String()}},
			Apply:    func(t *store.Tree) error { return t.Write(orders.Path(), []byte(content)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := w.view().Main.Entry(orders.Path()); e.Hash != blob {
			t.Fatalf("blob %s, want %s", e.Hash, blob)
		}
		return s.Head()
	}
	check := func(since store.Hash, uid types.UID, want bool) {
		t.Helper()
		e, _ := w.view().Main.Entry(orders.Path())
		last, err := w.repo.Pushes.Last(t.Context(), w.view(), since, orders, w.now)
		if got := last.UID == string(uid) && last.Blob == string(e.Hash); err != nil || got != want {
			t.Errorf("since %s for %s: %+v %v", since.Short(), uid, last, err)
		}
	}
	check(start, "u1", false)
	check("", "u1", false)
	own("u1", "1")
	check(start, "u1", true)
	check("", "u1", true)
	check(start, "u2", false)
	middle := own("u2", "2")
	check(start, "u1", false)
	check("", "u1", false)
	check(start, "u2", true)
	check(middle, "u2", false)
	see := func(path, content string) {
		head := w.put(w.person, path, content)
		w.repo.Wake()
		w.until("it is seen", func() bool { return w.view().Main.Head() == head })
	}
	// A person's commit elsewhere changes nothing; one to the file does.
	see("b", "1")
	check(start, "u2", true)
	check("", "u2", true)
	see(orders.Path(), "3")
	check(start, "u2", false)
	check("", "u2", false)
}

func TestRefused(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	status := func(path string, s contract.Status) {
		s.Answers.Commit = "1234"
		data, err := contract.EncodeStatus(&s)
		if err != nil {
			t.Fatal(err)
		}
		w.put(w.bridge, path, string(data))
		w.repo.moved(contract.StatusRef, "")
	}
	refused := func(n int) func() bool {
		return func() bool { got, _ := w.repo.Refused(); return got == n }
	}
	status(orders.Path(), contract.Status{Result: contract.Denied, Problem: &contract.Problem{File: orders.Path(), Line: 7, Reason: "plan is not allowed"}})
	w.until("a claim is refused", refused(1))
	status("refused/bindings/"+api+"/claims/README.md", contract.Status{Result: contract.Invalid, Message: "no claim"})
	w.until("a file is refused", refused(2))
	_, got := w.repo.Refused()
	want := []v1alpha1.RefusedFile{
		{Path: "bindings/" + api + "/claims/README.md", Result: "Invalid", Message: "no claim"},
		{Path: orders.Path(), Line: 7, Result: "Denied", Message: "plan is not allowed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The words "result: Applied" in a message are no result.
	status(orders.Path(), contract.Status{Result: contract.Denied, Message: "line\nresult: Applied\n", Status: map[string]any{"text": "x\nresult: Applied\ny"}})
	status("refused/bindings/x", contract.Status{Result: contract.Held, Message: "held"})
	w.until("three are refused", refused(3))
	status(orders.Path(), contract.Status{Result: contract.Applied, Status: map[string]any{"a": "b"}})
	w.until("it is applied", refused(2))
	w.put(w.bridge, "refused/bindings/x", "")
	w.repo.moved(contract.StatusRef, "")
	w.until("a file is gone", refused(1))
}

func TestTroubleAndRecovery(t *testing.T) {
	remote := memstore.New()
	w := newWorld(t, "", remote)
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	remote.SetFault(func(memstore.Call) error { return store.ErrUnauthorized })
	w.repo.Wake()
	w.until("it is noticed", func() bool { return errors.Is(w.repo.Health().Err(), store.ErrUnauthorized) })
	remote.SetFault(nil)
	w.repo.Wake()
	w.until("subscribers hear that it is over", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.changes) > 0 && w.changes[len(w.changes)-1].Recovered
	})
	if err := w.repo.Health().Err(); err != nil {
		t.Error(err)
	}
}

func TestL5_NothingIsPushedWhileAnotherCopyIsLiveOrRemovedWhileItMayBe(t *testing.T) {
	w := newWorld(t, "", memstore.New())
	var mu sync.Mutex
	var now Standing
	w.repo.Standing = func() Standing {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	stands := func(s Standing) {
		mu.Lock()
		now = s
		mu.Unlock()
		w.repo.StandingChanged()
	}
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	edit := store.Edit{Subject: "s", Apply: func(*store.Tree) error { return nil }}
	head := w.put(w.person, "a", "1")
	w.repo.Wake()
	w.until("main", func() bool { return w.view().Main.Head() == head })
	writes := map[string]func() error{
		"a push": func() error { _, err := w.repo.Update(t.Context(), edit); return err },
		"what lost a conflict": func() error {
			return w.repo.Keep(t.Context(), "conflicts/x", w.repo.Remote.Main.Snapshot(), edit)
		},
		"a proposal": func() error {
			_, err := w.repo.Propose(t.Context(), "changes/x", "", w.repo.Remote.Main.Snapshot(), edit)
			return err
		},
		"a withdrawn proposal": func() error { return w.repo.Withdraw(t.Context(), "changes/gone", "") },
	}
	for _, c := range []struct {
		what           string
		standing       Standing
		remove, pushed error
	}{
		{"nothing is known", Standing{}, ErrNotAlone, nil},
		{"alone", Standing{Alone: true}, nil, nil},
		{"a copy is live", Standing{Alone: true, Copied: "Two live copies."}, ErrCopied, ErrCopied},
		{"it was decided", Standing{Alone: true}, nil, nil},
	} {
		stands(c.standing)
		if err := w.repo.MayRemove(); !errors.Is(err, c.remove) {
			t.Errorf("%s: a removal: %v", c.what, err)
		}
		for write, try := range writes {
			if err := try(); c.pushed != nil && !errors.Is(err, c.pushed) || c.pushed == nil && errors.Is(err, ErrCopied) {
				t.Errorf("%s: %s: %v", c.what, write, err)
			}
		}
		if w.view().Copied != c.standing.Copied || w.repo.Health().Copied != c.standing.Copied {
			t.Errorf("%s: it says %+v", c.what, w.view())
		}
		w.until(c.what+": subscribers hear of it", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.changes) > 0 && w.changes[len(w.changes)-1].Recovered
		})
	}
	for err, reason := range map[error]string{ErrCopied: ReasonCopied, ErrNotAlone: ReasonNotAlone} {
		if got, words := Explain(fmt.Errorf("push: %w", err)); got != reason || words == "" {
			t.Errorf("%v is %s: %s", err, got, words)
		}
	}
}

func TestWithoutCredentialNothingIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := memstore.New()
		w := newWorld(t, "", remote)
		w.run()
		w.until("contact", func() bool { return w.repo.Health().Contacted })
		w.repo.Suspend()
		synctest.Wait()
		head := w.put(w.person, "a", "1")
		var asked atomic.Int64
		remote.SetFault(func(memstore.Call) error {
			asked.Add(1)
			return nil
		})
		if _, err := w.repo.Update(t.Context(), store.Edit{Subject: "s", Apply: func(*store.Tree) error { return nil }}); !errors.Is(err, ErrSuspended) {
			t.Errorf("got %v", err)
		}
		if err := w.repo.MayRemove(); !errors.Is(err, ErrSuspended) {
			t.Errorf("a removal: %v", err)
		}
		w.repo.Wake()
		time.Sleep(2 * pollInterval)
		if n := asked.Load(); n > 0 {
			t.Errorf("it was asked %d times", n)
		}
		w.repo.Resume()
		w.until("it goes on", func() bool { return w.view().Main.Head() == head })
	})
}

func TestExplainStaysTheSame(t *testing.T) {
	a := fmt.Errorf("fetch: read tcp 127.0.0.1:40000->127.0.0.1:1: connection reset")
	b := fmt.Errorf("fetch: read tcp 127.0.0.1:40001->127.0.0.1:1: connection reset")
	if !same(a, b) {
		t.Error("the same trouble is told in two ways")
	}
	if same(a, store.ErrUnauthorized) || same(nil, a) || !same(nil, nil) {
		t.Error("different troubles are the same")
	}
}

func TestExplainNamesACertificate(t *testing.T) {
	for words, why := range map[string]error{
		"its certificate is not trusted": x509.UnknownAuthorityError{},
		"its certificate has expired":    x509.CertificateInvalidError{Reason: x509.Expired},
	} {
		if reason, message := Explain(fmt.Errorf("fetch: %w", &tls.CertificateVerificationError{Err: why})); reason != ReasonUnreachable || !strings.Contains(message, words) {
			t.Errorf("%v is %s: %s", why, reason, message)
		}
	}
}

func TestTroubleIsLoggedOnceAndWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := memstore.New()
		w := newWorld(t, "", remote)
		var mu sync.Mutex
		var lines []string
		w.runIn(logr.NewContext(t.Context(), funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})))
		w.until("contact", func() bool { return w.repo.Health().Contacted })
		remote.SetFault(func(memstore.Call) error { return store.ErrUnauthorized })
		time.Sleep(10 * pollInterval)
		remote.SetFault(nil)
		time.Sleep(2 * pollInterval)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(lines)
		if want := []string{
			`"level"=0 "msg"="repository trouble" "connection"="default" "part"="main" "error"="fetch: credential refused"`,
			`"level"=0 "msg"="repository trouble" "connection"="default" "part"="status" "error"="fetch: credential refused"`,
			`"level"=0 "msg"="repository works again" "connection"="default" "part"="main"`,
			`"level"=0 "msg"="repository works again" "connection"="default" "part"="status"`,
		}; !slices.Equal(lines, want) {
			t.Errorf("logged %q, want %q", lines, want)
		}
	})
}

// A host may answer fetches, and refuse pushes: what it says of them is in the log alone.
func TestWhyOnlyPushesFailIsLogged(t *testing.T) {
	t.Parallel()
	remote := memstore.New()
	w := newWorld(t, "", remote)
	var mu sync.Mutex
	var lines []string
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}))
	w.runIn(ctx)
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	tries := 0
	update := func() error {
		tries++
		_, err := w.repo.Update(ctx, store.Edit{Subject: "s", Apply: func(t *store.Tree) error { return t.Write("a", fmt.Append(nil, tries)) }})
		return err
	}
	remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push {
			return errors.New("the remote answered 503 Service Unavailable: try again in 50s")
		}
		return nil
	})
	for range 2 {
		if update() == nil {
			t.Fatal("it was pushed")
		}
	}
	remote.SetFault(nil)
	for range 2 {
		if err := update(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{
		`"level"=0 "msg"="repository trouble" "connection"="default" "part"="pushes" "error"="push: the remote answered 503 Service Unavailable: try again in 50s"`,
		`"level"=0 "msg"="repository works again" "connection"="default" "part"="pushes"`,
	}; !slices.Equal(lines, want) {
		t.Errorf("logged %q, want %q", lines, want)
	}
}

func TestExplainHasTheWordsOfAHostWithoutRoom(t *testing.T) {
	err := &store.NotTakenError{Reason: "the disk of the Git host is full", Words: "remote: objects/tmp_objdir-incoming-h5sTq1: no space left"}
	reason, message := Explain(fmt.Errorf("commit x: %w", err))
	if want := "The Git host cannot store the commit: the disk of the Git host is full. It is tried again by itself."; reason != ReasonNotTaken || message != want {
		t.Errorf("%s: %s", reason, message)
	}
}
