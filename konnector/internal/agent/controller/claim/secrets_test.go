package claim

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/test/fakeapi"
)

// secretsWorld is a reconciler, a bridge that seals, and an API server that counts what
// it is asked.
type secretsWorld struct {
	*testing.T
	r          *reconciler
	status     store.Branch
	signer     *encryption.Signer
	opener     *encryption.Opener
	recipients []string
	server     client.Client
	requests   int
	// versions are those that were sealed last, and said is the last list.
	versions map[string]int64
	said     *contract.SecretList
}

func newSecretsWorld(t *testing.T) *secretsWorld {
	t.Helper()
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	text, recipient, errIdentity := encryption.GenerateIdentity()
	ids, errParse := encryption.ParseIdentities([]byte(text))
	if err := errors.Join(err, errIdentity, errParse); err != nil {
		t.Fatal(err)
	}
	remote := memstore.New()
	w := &secretsWorld{
		versions: map[string]int64{},
		T:        t, status: remote.Branch("status"), signer: signer, recipients: []string{recipient},
		opener: &encryption.Opener{Cluster: "k3x9", Keys: []string{signer.Public()}, Identities: ids},
	}
	w.server = fakeapi.New(fakeapi.Builder(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.requests++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.requests++
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	repo := repository.New(repository.Options{Remote: repository.Remote{Main: remote.Branch("main"), Status: w.status}})
	repo.SetOpener(w.opener)
	api := testAPI(t)
	api.Repository = repo
	noting := newNotingClient(w.server, &written{})
	w.r = &reconciler{
		client: noting, secrets: newSecretDelivery(noting), held: newHeldFiles(nil, func() {}),
		rejected: workqueue.NewTypedItemExponentialFailureRateLimiter[contract.Key](rejectedWait, mostRejectedWait),
	}
	w.r.current.Store(&api)
	return w
}

func (w *secretsWorld) seal(name, password string, sequence int64) {
	w.Helper()
	file, err := w.signer.Seal(encryption.Binding{Cluster: "k3x9", Claim: key, UID: "u1"}, encryption.Secret{
		Name: name, Data: map[string][]byte{"password": []byte(password)},
	}, w.recipients, sequence)
	if err != nil {
		w.Fatal(err)
	}
	w.versions[name] = sequence
	if _, err := w.status.Update(w.Context(), store.Edit{Subject: "s", Apply: func(t *store.Tree) error {
		return t.Write(secretKey(key, name).Path(), file)
	}}); err != nil {
		w.Fatal(err)
	}
}

// look is one at the claim in step, whose answer lists these Secrets.
func (w *secretsWorld) look(names ...string) *look {
	l := inStep()
	l.api, l.view.Status = w.r.api(), w.status.Snapshot()
	l.answer.UID, l.answer.Secrets = "u1", w.list(key, "u1", names...)
	return l
}

// list is the bridge's next list of a claim.
func (w *secretsWorld) list(of contract.Key, uid string, names ...string) *contract.SecretList {
	versions := map[string]int64{}
	for _, name := range names {
		versions[name] = w.versions[name]
	}
	b := encryption.Binding{Cluster: "k3x9", Claim: of, UID: uid}
	if w.said == nil {
		w.said = w.signer.List(b, map[string]int64{"": 0}, nil, 1)
	}
	w.said = w.signer.List(b, versions, w.said, 1)
	return w.said
}

// deliver looks, and checks how many requests that took.
func (w *secretsWorld) deliver(l *look, requests int) (reason string) {
	w.Helper()
	w.requests = 0
	if err := w.r.secrets.deliver(w.Context(), l); err != nil {
		w.Fatal(err)
	}
	if w.requests != requests {
		w.Errorf("%d requests: want %d", w.requests, requests)
	}
	if l.secrets.condition == nil {
		return ""
	}
	return l.secrets.condition.reason
}

func (w *secretsWorld) find(name string) *corev1.Secret {
	w.Helper()
	s := &corev1.Secret{}
	err := w.server.Get(w.Context(), client.ObjectKey{Namespace: key.Namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *secretsWorld) expect(want, got string) {
	w.Helper()
	if want != got {
		w.Errorf("the reason is %q: want %q", got, want)
	}
}

func TestWhatWasDeliveredIsNotAskedForUntilItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSecretsWorld(t)
		w.expect("", w.deliver(w.look(), 0))
		w.seal("creds", "first", 1)
		w.seal("tls", "cert", 1)
		l := w.look("creds", "tls")
		w.expect("Delivered", w.deliver(l, 2))
		w.expect("Delivered", w.deliver(w.look("creds", "tls"), 0))
		if rest := time.Until(l.secretsDue); rest < secretsInterval/2 || rest > 2*secretsInterval {
			t.Errorf("the next look is in %s", rest)
		}
		// One file is another: the other Secret is not looked at.
		w.seal("creds", "second", 2)
		w.expect("Delivered", w.deliver(w.look("creds", "tls"), 2))
		if got := string(w.find("creds").Data["password"]); got != "second" {
			t.Errorf("it is %s", got)
		}
		// What was deleted by hand comes back when the Secrets are due.
		if err := w.server.Delete(t.Context(), w.find("creds")); err != nil {
			t.Fatal(err)
		}
		w.expect("Delivered", w.deliver(w.look("creds", "tls"), 0))
		time.Sleep(2 * secretsInterval)
		w.expect("Delivered", w.deliver(w.look("creds", "tls"), 3))
		if w.find("creds") == nil {
			t.Error("it did not come back")
		}
		// Another process asks for each once.
		l.object.Object["status"] = map[string]any{"gitbind": map[string]any{"secrets": l.secrets.status()}}
		w.r.secrets.known.forget(key)
		again := w.look("creds", "tls")
		again.object = l.object
		w.expect("Delivered", w.deliver(again, 2))
	})
}

// The service of a claim that is held runs on, and its credentials are renewed; which Secrets
// there are changes when a person has decided.
func TestSecretsThatAreHereFollowWhileTheClaimIsHeld(t *testing.T) {
	t.Parallel()
	ends := func(with decision.Ending) func(*look) {
		return func(l *look) { l.facts.Terminating, l.facts.Ending = true, with }
	}
	for name, c := range map[string]struct {
		reason decision.Reason
		hold   func(*look)
		follow bool
	}{
		"its file cannot be read":        {decision.FileInvalid, func(*look) {}, true},
		"it changed and was removed":     {decision.ChangedAndRemoved, func(*look) {}, true},
		"a person has paused it":         {decision.Paused, func(*look) {}, false},
		"main is another one":            {decision.HistoryReplaced, func(l *look) { l.view.Replaced = "it went back" }, false},
		"status is another one, too":     {decision.FileInvalid, func(l *look) { l.view.StatusReplaced = "it went back" }, false},
		"there is a copy of the cluster": {decision.Copied, func(l *look) { l.view.Copied = "there are two" }, false},
		"its namespace is gone":          {decision.NamespaceDeleted, func(l *look) { l.facts.NamespaceMissing = true }, false},
		"it is being deleted":            {decision.DeletedAndChanged, ends(""), true},
		"its delete was rejected":        {decision.Rejected, ends(""), true},
		"its delete is in review": {"", func(l *look) {
			l.decision.Action, l.facts.Terminating = decision.AwaitReview, true
		}, true},
		"none of its owners stays":  {decision.OwnerDeleted, ends(decision.OwnerEnds), true},
		"its namespace ends":        {decision.NamespaceDeleted, ends(decision.NamespaceEnds), false},
		"its API ends":              {decision.APIDeleted, ends(decision.APIEnds), false},
		"its delete is paused":      {decision.Paused, ends(""), false},
		"its file is removed, too":  {decision.NotServed, func(l *look) { l.facts.Terminating, l.file = true, nil }, false},
		"its removal is not judged": {"", func(l *look) { l.decision.Action, l.facts.Terminating = decision.Wait, true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSecretsWorld(t)
			w.seal("creds", "first", 1)
			w.seal("old", "first", 1)
			l := w.look("creds", "old")
			w.expect("Delivered", w.deliver(l, 2))
			w.seal("creds", "second", 2)
			w.seal("new", "first", 2)
			held := w.look("creds", "new")
			held.decision.Action, held.decision.Reason = decision.Hold, c.reason
			c.hold(held)
			requests, password := 0, "first"
			if c.follow {
				requests, password = 2, "second"
			}
			w.expect("Delivered", w.deliver(held, requests))
			if got := string(w.find("creds").Data["password"]); got != password {
				t.Errorf("it is %s", got)
			}
			if w.find("old") == nil || w.find("new") != nil || held.secrets.find("old") == nil {
				t.Errorf("others came or went: %v", held.secrets.delivered)
			}
			w.deliver(held, 0)
			// A person has decided.
			w.deliver(w.look("creds", "new"), 4-requests)
			if w.find("old") != nil || w.find("new") == nil {
				t.Error("they are not as the control plane says")
			}
		})
	}
}

func TestASecretThatIsSomebodysIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSecretsWorld(t)
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "creds"}}
		if err := w.server.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		w.seal("creds", "first", 1)
		w.seal("tls", "cert", 1)
		l := w.look("creds", "tls")
		w.expect("SecretExists", w.deliver(l, 3))
		if diff := cmp.Diff([]any{map[string]any{"name": "tls", "since": "1970-01-01T00:00:00Z"}}, l.secrets.status()); diff != "" {
			t.Error(diff)
		}
		w.expect("SecretExists", w.deliver(w.look("creds", "tls"), 0))
		if err := w.server.Delete(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * secretsRetryInterval)
		w.expect("Delivered", w.deliver(w.look("creds", "tls"), 2))
	})
}

// What a claim refers to is not sent while main or status is held, and changes of it are not
// noticed before it was.
func TestAClaimThatIsInStepIsLookedAtWhenAHoldEnds(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(*repository.View){
		"no hold":          func(*repository.View) {},
		"main replaced":    func(v *repository.View) { v.Replaced = "it went back" },
		"status replaced":  func(v *repository.View) { v.StatusReplaced = "it went back" },
		"a copied cluster": func(v *repository.View) { v.Copied = "there are two" },
	} {
		w := newSecretsWorld(t)
		l := w.look("creds")
		l.decision.Action = decision.Nothing
		hold(&l.view)
		w.r.finished(l, nil)
		if pending := w.r.pending.take(); (len(pending) == 1) != (name != "no hold") {
			t.Errorf("%s: %v are pending", name, pending)
		}
	}
}

func TestAnotherOpenerIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	repo := w.r.api().Repository
	told := 0
	repo.OnUnknownSigner = func() { told++ }
	w.seal("creds", "first", 1)
	repo.SetOpener(nil)
	l := w.look("creds")
	w.expect("NoKey", w.deliver(l, 0))
	w.r.finished(l, nil)
	if woken := w.r.pending.take(); !cmp.Equal(woken, []contract.Key{key}) {
		t.Errorf("told of another opener are %v", woken)
	}
	other := *w.opener
	other.Keys = nil
	repo.SetOpener(&other)
	w.expect("UnknownSigner", w.deliver(w.look("creds"), 0))
	w.expect("UnknownSigner", w.deliver(w.look("creds"), 0))
	if told != 1 {
		t.Errorf("the unknown signer was told %d times", told)
	}
	repo.SetOpener(w.opener)
	w.expect("Delivered", w.deliver(w.look("creds"), 1))
}

// What the control plane lists no more goes, if it says what there is. While nothing is
// to change, or nobody says what there is, what there is and what is said of it stay.
func TestWhichSecretsGoAndWhichStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*look)
		goes   bool
	}{
		"applied":             {func(*look) {}, true},
		"gone and made again": {func(l *look) { l.answer.Result = contract.Gone }, true},
		"no list":             {func(l *look) { l.answer.Secrets = nil }, false},
		"no answer":           {func(l *look) { l.answer = nil }, false},
		"held here":           {func(l *look) { l.decision.Action = decision.Hold }, false},
		"terminating":         {func(l *look) { l.facts.Terminating = true }, false},
		"status is replaced":  {func(l *look) { l.view.StatusReplaced = "it is" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSecretsWorld(t)
			w.seal("creds", "first", 1)
			before := w.look("creds")
			w.expect("Delivered", w.deliver(before, 1))
			// The same by the object alone, as another process has it.
			whole := inStep().object
			whole.Object["status"] = map[string]any{"gitbind": map[string]any{
				"secrets": before.secrets.status(), "conditions": []any{before.secrets.condition.object(3)},
			}}
			for _, known := range []bool{true, false} {
				if !known {
					w.r.secrets.known.forget(key)
				}
				l := w.look()
				l.object = whole
				c.change(l)
				if err := w.r.secrets.deliver(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if there := w.find("creds") != nil; there == c.goes {
					t.Errorf("known %t: there is %t", known, there)
				}
				if !c.goes && (len(l.secrets.delivered) != 1 || l.secrets.condition == nil || l.secrets.condition.reason != "Delivered") {
					t.Errorf("known %t: it says %+v", known, l.secrets)
				}
				if c.goes && len(l.secrets.delivered) > 0 {
					t.Errorf("known %t: it says %+v", known, l.secrets)
				}
			}
		})
	}
}

// The API server's collector may keep what a claim controlled, where another claim of that
// name is there at once.
func TestAClaimThatIsGoneTakesItsSecretsAlong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*look)
		goes   bool
	}{
		"gone":                    {func(l *look) { l.facts.Gone = decision.Yes }, true},
		"gone, without a list":    {func(l *look) { l.facts.Gone, l.answer.Secrets = decision.Yes, nil }, true},
		"gone, without an answer": {func(l *look) { l.facts.Gone, l.answer = decision.Yes, nil }, true},
		"let go by a person":      {func(l *look) { l.facts.Gone = decision.No }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, known := range []bool{true, false} {
				w := newSecretsWorld(t)
				w.seal("creds", "first", 1)
				before := w.look("creds")
				w.expect("Delivered", w.deliver(before, 1))
				l := w.look()
				l.object.Object["status"] = map[string]any{"gitbind": map[string]any{"secrets": before.secrets.status()}}
				if !known {
					w.r.secrets.known.forget(key)
				}
				c.change(l)
				// The object itself is nowhere here: that it cannot be patched comes later.
				_, err := w.r.release(t.Context(), l)
				if there := w.find("creds") != nil; there == c.goes {
					t.Errorf("known %t: there is %t, %v", known, there, err)
				}
			}
		})
	}
}

// A process may end after it delivered a Secret, and before the claim's status names it.
func TestAClaimThatIsDeletedNamesWhatMayHaveBeenDelivered(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	w.seal("creds", "first", 1)
	w.expect("Delivered", w.deliver(w.look("creds"), 1))
	w.r.secrets.known.forget(key)
	l := w.look("creds")
	l.facts.Terminating = true
	w.deliver(l, 0)
	gone := w.look()
	gone.facts.Terminating, gone.facts.Gone = true, decision.Yes
	gone.object.Object["status"] = map[string]any{"gitbind": map[string]any{"secrets": l.secrets.status()}}
	// The object itself is nowhere here: that it cannot be patched comes later.
	_, err := w.r.release(t.Context(), gone)
	if w.find("creds") != nil {
		t.Errorf("the Secret is there: %v", err)
	}
}

// Nor does what its status names come while a person is to decide on its delete.
func TestAClaimWhoseDeleteIsHeldNamesWhatIsListedAndGetsNothingNew(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	w.seal("creds", "first", 1)
	l := w.look("creds")
	w.expect("Delivered", w.deliver(l, 1))
	w.seal("creds", "second", 2)
	w.seal("new", "first", 2)
	for _, requests := range []int{2, 1} {
		held := w.look("creds", "new")
		held.facts.Terminating, held.decision = true, decision.Decision{Action: decision.Hold, Reason: decision.DeletedAndChanged}
		held.object.Object["status"] = map[string]any{"gitbind": map[string]any{"secrets": l.secrets.status()}}
		w.deliver(held, requests)
		if held.secrets.find("new") == nil || w.find("new") != nil || string(w.find("creds").Data["password"]) != "second" {
			t.Errorf("it names %v, of which new is here: %t", held.secrets.delivered, w.find("new") != nil)
		}
		// Another process goes on.
		w.r.secrets.known.forget(key)
		l = held
	}
}

// Who writes the branch status in the bridge's place takes no Secret away, and brings
// none back: neither with a list of his own, nor with one that the bridge wrote before, or
// of another claim.
func TestF7_OnlyTheBridgesNewestListOfAClaimCounts(t *testing.T) {
	t.Parallel()
	other := key
	other.Name = "billing"
	for name, c := range map[string]struct {
		// list is what status says in the place of the bridge's last list.
		list   func(w *secretsWorld, first, last *contract.SecretList) *contract.SecretList
		change func(*look)
		reason string
	}{
		"a Secret is taken off it": {list: func(_ *secretsWorld, _, last *contract.SecretList) *contract.SecretList {
			return &contract.SecretList{UID: last.UID, Sequence: last.Sequence + 1, Signature: last.Signature}
		}, reason: "NotSigned"},
		"it is not signed": {list: func(_ *secretsWorld, _, last *contract.SecretList) *contract.SecretList {
			return &contract.SecretList{UID: last.UID, Sequence: last.Sequence + 1}
		}, reason: "NotSigned"},
		"there is none":      {list: func(*secretsWorld, *contract.SecretList, *contract.SecretList) *contract.SecretList { return nil }, reason: "Delivered"},
		"it is an older one": {list: func(_ *secretsWorld, first, _ *contract.SecretList) *contract.SecretList { return first }, reason: "Replayed"},
		"it is another claim's": {list: func(w *secretsWorld, _, _ *contract.SecretList) *contract.SecretList {
			return w.list(other, "u1")
		}, reason: "NotSigned"},
		"it is of the claim that was here before": {list: func(w *secretsWorld, _, _ *contract.SecretList) *contract.SecretList {
			return w.list(key, "u0")
		}, change: func(l *look) { l.base.Committed = true }, reason: "NotForThisClaim"},
		"it is of the claim that was here before, and this one is not in Git yet": {list: func(w *secretsWorld, _, _ *contract.SecretList) *contract.SecretList {
			return w.list(key, "u0")
		}, change: func(l *look) { l.base = nil }, reason: "NotForThisClaim"},
		"another bridge signed it": {list: func(w *secretsWorld, _, _ *contract.SecretList) *contract.SecretList {
			signer, err := encryption.NewSigner(encryption.GenerateSeed())
			if err != nil {
				w.Fatal(err)
			}
			w.signer = signer
			return w.list(key, "u1")
		}, reason: "UnknownSigner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSecretsWorld(t)
			first := w.look().answer.Secrets
			w.seal("creds", "first", 1)
			l := w.look("creds")
			w.expect("Delivered", w.deliver(l, 1))
			whole := inStep().object
			whole.Object["status"] = map[string]any{"gitbind": map[string]any{
				"secrets": l.secrets.status(), "secretsSequence": l.secrets.sequence, "conditions": []any{l.secrets.condition.object(3)},
			}}
			list := c.list(w, first, l.answer.Secrets)
			for _, known := range []bool{true, false} {
				if !known {
					// Another process has it from the object alone.
					w.r.secrets.known.forget(key)
				}
				again := w.look()
				again.object, again.answer.Secrets = whole, list
				if c.change != nil {
					c.change(again)
				}
				w.expect(c.reason, w.deliver(again, 0))
				if w.find("creds") == nil {
					t.Fatalf("known %t: it was taken away", known)
				}
				if d := again.secrets; len(d.delivered) != 1 || d.sequence != l.secrets.sequence {
					t.Errorf("known %t: it says %+v", known, d)
				}
			}
		})
	}
}

// A Secret that somebody deleted here does not come back in an older version than is
// listed.
func TestF7_AnOlderVersionThanIsListedIsNotDelivered(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	w.seal("creds", "first", 1)
	w.seal("creds", "second", 2)
	list := w.look("creds").answer.Secrets
	w.seal("creds", "first", 1)
	l := w.look("creds")
	l.answer.Secrets = list
	w.expect("Replayed", w.deliver(l, 0))
	if w.find("creds") != nil {
		t.Error("it was delivered")
	}
}

// A cluster that was rebuilt from main remembers nothing, and the control plane knows its
// claims by the UIDs that they had.
func TestANewClusterTakesWhatIsListedForTheObjectsBeforeIt(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	file, err := w.signer.Seal(encryption.Binding{Cluster: "k3x9", Claim: key, UID: "u0"}, encryption.Secret{Name: "creds"}, w.recipients, 7)
	if err != nil {
		t.Fatal(err)
	}
	w.seal("creds", "", 7)
	if _, err := w.status.Update(t.Context(), store.Edit{Subject: "s", Apply: func(t *store.Tree) error {
		return t.Write(secretKey(key, "creds").Path(), file)
	}}); err != nil {
		t.Fatal(err)
	}
	l := w.look()
	l.answer.Secrets = w.list(key, "u0", "creds")
	w.expect("Delivered", w.deliver(l, 1))
}

func TestWhatTheControlPlaneDoesNotSendIsSaid(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	l := w.look()
	l.answer.Withheld = map[string]string{"*": "this cluster has registered no key"}
	w.expect("Withheld", w.deliver(l, 0))
	if want := "The control plane sends no Secrets: this cluster has registered no key."; l.secrets.condition.message != want {
		t.Errorf("it says %q", l.secrets.condition.message)
	}
	w.seal("creds", "first", 1)
	l = w.look("creds")
	l.answer.Withheld = map[string]string{"tls": "it is a token"}
	w.expect("Withheld", w.deliver(l, 1))
	if len(l.secrets.delivered) != 1 {
		t.Errorf("it says %+v", l.secrets)
	}
	w.expect("Delivered", w.deliver(w.look("creds"), 0))
	w.expect("", w.deliver(w.look(), 1))
	if w.find("creds") != nil {
		t.Error("it is still there")
	}
}

// A claim that is reduced says in the cache which Secrets it has, as nothing else does
// when a process begins.
func TestTheCacheKnowsWhichSecretsAnAgreedClaimHas(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	u := agreedObject(t, 1)
	l := w.look()
	l.object = u
	l.secrets = secretsSaid{delivered: []deliveredSecret{{"creds", ""}}, condition: &condition{conditionSecrets, "True", "Delivered", ""}}
	u.Object["status"] = l.status(nil)
	l.reduced = decoded(t, u)
	if !l.reduced.reduced || !cmp.Equal(l.reduced.secrets, []string{"creds"}) {
		t.Fatalf("reduced %t, with %q", l.reduced.reduced, l.reduced.secrets)
	}
	if l.statusDiffers(nil) {
		t.Error("its status would be written again")
	}
	// Nothing is known of it, and nothing is to change: only the object has what it said.
	l.decision.Action = decision.Hold
	if err := w.r.secrets.deliver(t.Context(), l); !errors.Is(err, errIncomplete) {
		t.Errorf("error is %v", err)
	}
	setCondition(u, conditionSecrets, "False", "SecretExists")
	if decoded(t, u).reduced {
		t.Error("one with trouble is reduced, and the reason is lost")
	}
}

func TestAChangedFileCallsTheClaimsThatListIt(t *testing.T) {
	t.Parallel()
	var s secrets
	other := key
	other.Name = "billing"
	at := func(name string) contract.SecretKey { return secretKey(key, name) }
	s.expect(key, []string{"a", "b"})
	s.expect(other, []string{"b"})
	s.expect(key, []string{"b", "c"})
	for name, want := range map[string][]contract.Key{"a": nil, "b": {other, key}, "c": {key}} {
		if got := s.claimsOf(at(name)); !cmp.Equal(got, want) {
			t.Errorf("%s calls %v: want %v", name, got, want)
		}
	}
	s.forget(key)
	s.forget(other)
	if len(s.listing) > 0 || len(s.expected) > 0 {
		t.Errorf("left are %v, %v", s.listing, s.expected)
	}
}

// The status says what of Secrets there is to say, and nothing where there is none.
func TestStatusOfSecrets(t *testing.T) {
	t.Parallel()
	w := newSecretsWorld(t)
	ours := func(l *look) (message string, reason string, secrets []any) {
		out := &unstructured.Unstructured{Object: map[string]any{"status": l.status(nil)}}
		message, _, _ = unstructured.NestedString(out.Object, "status", "gitbind", "message")
		secrets, _, _ = unstructured.NestedSlice(out.Object, "status", "gitbind", "secrets")
		return message, reasonOf(out, conditionSecrets), secrets
	}
	if _, reason, secrets := ours(w.look()); reason != "" || secrets != nil {
		t.Errorf("without Secrets it says %s, %v", reason, secrets)
	}
	w.seal("creds", "first", 1_795_000_000_000)
	l := w.look("creds", "missing")
	w.expect("Missing", w.deliver(l, 1))
	message, reason, secrets := ours(l)
	if reason != "Missing" || message != l.secrets.condition.message {
		t.Errorf("it says %s: %s", reason, message)
	}
	if data, err := json.Marshal(secrets); err != nil || string(data) != `[{"name":"creds","since":"2026-11-18T11:06:40Z"}]` {
		t.Errorf("secrets are %s, %v", data, err)
	}
}
