package inputs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/objectwatch"
	"gitbind.dev/gitbridge/selection"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/fakeapi"
)

var orders = contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "orders"}

type world struct {
	*testing.T
	maker  *Maker
	main   store.Branch
	sender *encryption.Sender
	// answered is what the control plane says it took.
	answered *contract.Inputs
	told     chan string
	// reads counts them, and refuse is what they come to.
	reads  int
	refuse error
	// metadata is the API server that is watched.
	metadata *metadatafake.FakeMetadataClient
}

// newWorld has Secrets of one namespace, which are of orders by a label unless they are
// named otherwise.
func newWorld(t *testing.T, secrets ...*corev1.Secret) *world {
	t.Parallel()
	return newSerialWorld(t, secrets...)
}

func newSerialWorld(t *testing.T, secrets ...*corev1.Secret) *world {
	w := &world{T: t, main: memstore.New().Branch("main"), told: make(chan string, 1000)}
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	w.must(err)
	_, recipient, err := encryption.GenerateIdentity()
	w.must(err)
	w.sender = &encryption.Sender{Cluster: "k3x9", Signer: signer, Recipients: []string{recipient}}
	scheme := metadatafake.NewTestScheme()
	w.must(metav1.AddMetaToScheme(scheme))
	var known []runtime.Object
	live := fakeapi.Builder()
	for _, s := range secrets {
		s.Namespace = orders.Namespace
		known = append(known, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: s.ObjectMeta})
		live = live.WithObjects(s)
	}
	intercept := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if w.reads++; w.refuse != nil {
			return w.refuse
		}
		return c.Get(ctx, key, o, opts...)
	}}
	ctx, cancel := context.WithCancel(t.Context())
	w.metadata = metadatafake.NewSimpleMetadataClient(scheme, known...)
	w.maker = New(ctx, w.metadata, fakeapi.New(live, intercept), func(path string) { w.told <- path })
	t.Cleanup(func() {
		cancel()
		for _, watches := range w.maker.watches {
			watches.Wait()
		}
	})
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func secret(name string, bytes int) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "orders"}}, Data: map[string][]byte{"k": make([]byte, bytes)}}
}

// make is what is to be on main, once that is known.
func (w *world) make(key contract.Key, offered ...v1alpha1.PermissionClaim) Outcome {
	w.Helper()
	for {
		out, err := w.maker.Make(w.Context(), Claim{Key: key, UID: "u", Offered: offered, Main: w.main.Snapshot(), Answered: w.answered}, w.sender)
		if !errors.Is(err, objectwatch.ErrNotKnown) {
			w.must(err)
			return out
		}
		select {
		case <-w.told:
		case <-time.After(time.Minute):
			// An informer waits up to half of that before it lists again.
			w.Fatal("nobody tells what there is")
		}
	}
}

func (w *world) push(key contract.Key, o Outcome) {
	w.Helper()
	_, err := w.main.Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "K", Email: "k@example.org"}, Subject: "inputs",
		Apply: func(t *store.Tree) error { return t.Write(key.InputsPath(), o.File) },
	})
	w.must(err)
	w.maker.Pushed(key, o)
}

var byLabel = v1alpha1.PermissionClaim{Direction: v1alpha1.DirectionUp, MatchLabels: map[string]string{"of": "$(name)"}}

func reasons(o Outcome) (out []string) {
	for _, t := range o.Troubles {
		out = append(out, t.Reason)
	}
	return out
}

func TestWhatGoesUpIsBounded(t *testing.T) {
	many := []*corev1.Secret{}
	for i := range selection.Max + 3 {
		many = append(many, secret(fmt.Sprintf("s%03d", i), 1))
	}
	for name, c := range map[string]struct {
		secrets []*corev1.Secret
		objects int
		reasons []string
	}{
		"more than go with one claim":    {many, selection.Max, []string{TooMany}},
		"one that is too large":          {[]*corev1.Secret{secret("a", maxPlain+1), secret("b", 1)}, 1, []string{TooLarge}},
		"all together":                   {[]*corev1.Secret{secret("a", maxPlain-100), secret("b", 200), secret("c", 1)}, 2, []string{TooLarge}},
		"a name that no file could have": {[]*corev1.Secret{secret(strings.Repeat("x", contract.MaxNameLength+1), 1)}, 0, []string{TooLarge}},
		"a service account's token":      {[]*corev1.Secret{func() *corev1.Secret { s := secret("a", 1); s.Type = corev1.SecretTypeServiceAccountToken; return s }()}, 0, []string{NeverTravels}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.secrets...)
			if o := w.make(orders, byLabel); len(o.Objects) != c.objects || !slices.Equal(reasons(o), c.reasons) {
				t.Errorf("%d objects, %v", len(o.Objects), o.Troubles)
			}
		})
	}
}

// The konnector may read its own credentials without anybody's consent: they stay.
func TestNothingOfASystemNamespaceGoesUp(t *testing.T) {
	w := newWorld(t, secret("a", 1))
	for _, namespace := range []string{v1alpha1.SystemNamespace, "kube-system"} {
		key := orders
		key.Namespace = namespace
		if o := w.make(key, byLabel); o.File != nil || !slices.Equal(reasons(o), []string{SystemNamespace}) || w.reads > 0 {
			t.Errorf("%s: %+v after %d reads", namespace, o, w.reads)
		}
	}
}

// The files of an API's claims in one namespace are bounded; one that would be beyond stays
// off, others go on.
func TestTheFilesOfANamespaceAreBounded(t *testing.T) {
	w := newWorld(t, secret("a", maxPlain-100))
	byName := v1alpha1.PermissionClaim{Direction: v1alpha1.DirectionUp, Name: "a"}
	sent := 0
	for i := range 40 {
		key := orders
		key.Name = fmt.Sprint("c", i)
		o := w.make(key, byName)
		if o.File == nil {
			if !slices.Equal(reasons(o), []string{TooLarge}) {
				t.Fatalf("%v", o.Troubles)
			}
			break
		}
		w.push(key, o)
		sent++
	}
	if sent < 16 || sent == 40 {
		t.Errorf("%d files are sent", sent)
	}
	first := orders
	first.Name = "c0"
	w.maker.Forget(first)
	last := orders
	last.Name = "last"
	if o := w.make(last, byName); o.File == nil {
		t.Errorf("there is room again, and %v", o.Troubles)
	}
}

// What did not change is neither read nor sealed again; another process reads it, and seals
// nothing. With other keys it is sealed again.
func TestUnchangedInputsAreLeftAlone(t *testing.T) {
	w := newWorld(t, secret("a", 1))
	first := w.make(orders, byLabel)
	w.push(orders, first)
	reads := w.reads
	if again := w.make(orders, byLabel); again.File != nil || again.Sequence != first.Sequence || !slices.Equal(again.Objects, []string{"Secret a"}) || w.reads != reads {
		t.Errorf("%+v, %d reads", again, w.reads-reads)
	}
	w.maker.mu.Lock()
	clear(w.maker.known)
	w.maker.mu.Unlock()
	if again := w.make(orders, byLabel); again.File != nil || again.Sequence != first.Sequence || w.reads != reads+1 {
		t.Errorf("%+v, %d reads", again, w.reads-reads)
	}
	if stale := w.maker.Stale(w.sender); len(stale) > 0 {
		t.Errorf("stale are %v", stale)
	}
	other := *w.sender
	_, recipient, err := encryption.GenerateIdentity()
	w.must(err)
	other.Recipients = []string{recipient}
	w.sender = &other
	if stale := w.maker.Stale(w.sender); !slices.Equal(stale, []contract.Key{orders}) {
		t.Errorf("stale are %v", stale)
	}
	if again := w.make(orders, byLabel); again.File == nil || again.Sequence <= first.Sequence {
		t.Errorf("with another recipient %+v", again)
	}
}

// The control plane has taken a higher sequence for this name: of a claim before, by a clock
// that was ahead, or of a main that was lost.
func TestInputsThatAreOlderThanThoseThatWereTakenAreSealedAgain(t *testing.T) {
	w := newWorld(t, secret("a", 1))
	first := w.make(orders, byLabel)
	w.push(orders, first)
	w.answered = &contract.Inputs{Sequence: first.Sequence + 1000}
	again := w.make(orders, byLabel)
	if again.File == nil || again.Sequence <= w.answered.Sequence {
		t.Fatalf("file of %d bytes, sequence %d after %d", len(again.File), again.Sequence, w.answered.Sequence)
	}
	w.push(orders, again)
	if once := w.make(orders, byLabel); once.File != nil || once.Sequence != again.Sequence {
		t.Errorf("sealed once more: %+v", once)
	}
}

// What cannot be read takes nothing away, and is not tried by each claim.
func TestWhatCannotBeReadStays(t *testing.T) {
	w := newWorld(t, secret("a", 1))
	first := w.make(orders, byLabel)
	w.push(orders, first)
	w.maker.mu.Lock()
	k := w.maker.known[orders]
	k.outcome.of = "another version"
	w.maker.known[orders] = k
	w.maker.mu.Unlock()
	w.refuse = apierrors.NewForbidden(corev1.Resource("secrets"), "a", nil)
	reads := w.reads
	for range 3 {
		o := w.make(orders, byLabel)
		if o.File != nil || o.Sequence != first.Sequence || !slices.Equal(reasons(o), []string{Forbidden}) || o.Retry == 0 {
			t.Errorf("%+v", o)
		}
	}
	billing := orders
	billing.Name = "billing"
	if o := w.make(billing, byLabel); !slices.Equal(reasons(o), []string{Forbidden}) {
		t.Errorf("%+v", o)
	}
	if w.reads != reads+1 {
		t.Errorf("%d reads", w.reads-reads)
	}
	w.sender = nil
	if o := w.make(orders, byLabel); o.Sequence != first.Sequence || !slices.Equal(reasons(o), []string{NoKey}) {
		t.Errorf("%+v", o)
	}
}

// Objects that cannot be listed for long do not keep the claim, and are told.
func TestWhatCannotBeListedIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSerialWorld(t, secret("a", 1))
		var fails atomic.Bool
		fails.Store(true)
		w.metadata.PrependReactor("list", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) {
			return fails.Load(), nil, apierrors.NewInternalError(errors.New("no"))
		})
		o := w.make(orders, byLabel)
		if !slices.Equal(reasons(o), []string{Unlisted}) || o.File != nil || !strings.Contains(o.Troubles[0].Message, "InternalError") {
			t.Errorf("%+v", o)
		}
		fails.Store(false)
		<-w.told
		if o := w.make(orders, byLabel); len(o.Troubles) > 0 || o.File == nil {
			t.Errorf("%+v", o)
		}
	})
}
