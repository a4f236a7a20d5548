package secrets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/selection"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

const there = "gb-k3x9-team-a"

// branch is the branch status, as far as a Sealer sees it.
type branch map[string][]byte

func (b branch) Read(path string) ([]byte, error) {
	if data, ok := b[path]; ok {
		return data, nil
	}
	return nil, store.ErrNotExist
}

func (b branch) Entry(path string) (store.Entry, bool) {
	data, ok := b[path]
	if !ok {
		return store.Entry{}, false
	}
	return store.Entry{Path: path, Hash: store.Hash(fmt.Sprintf("%x", sha256.Sum256(data)))}, true
}

// write fails where a file is not as it was when it was decided to write it.
func (b branch) write(files []statusbranch.File) error {
	for _, f := range files {
		switch there, _ := b.Entry(f.Path); {
		case f.Was == nil || *f.Was != there.Hash:
			return statusbranch.ErrOutdated
		case f.Data == nil:
			delete(b, f.Path)
		default:
			b[f.Path] = f.Data
		}
	}
	return nil
}

// world is the Secrets of a namespace of the control plane, and a Sealer of them.
type world struct {
	*testing.T
	metadata *metadatafake.FakeMetadataClient
	secrets  *fake.Clientset
	signer   *encryption.Signer
	ids      encryption.Identities
	status   branch
	sealer   *Sealer
	// to are the recipients, and version counts the versions of Secrets.
	to      []string
	version int

	// given says that the sealer has the right, as far as it was told.
	given atomic.Bool

	mu      sync.Mutex
	changed map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, metadata: metadatafake.NewSimpleMetadataClient(scheme), secrets: fake.NewClientset(), status: branch{}, changed: map[string]bool{}}
	var err error
	if w.signer, err = encryption.NewSigner(encryption.GenerateSeed()); err != nil {
		t.Fatal(err)
	}
	w.ids = identities(t)
	w.to = w.ids.Recipients()
	ctx, cancel := context.WithCancel(t.Context())
	w.sealer = NewSealer(ctx, Options{
		Cluster: "k3x9", Metadata: w.metadata, Secrets: w.secrets,
		Rights: func(context.Context, string) error {
			w.given.Store(true)
			return nil
		},
		NoRight:    func(string) { w.given.Store(false) },
		Signer:     func(context.Context) (*encryption.Signer, error) { return w.signer, nil },
		Recipients: func(context.Context) ([]string, error) { return w.to, nil },
		Changed: func(path string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed[path] = true
		},
		Now: func() time.Time { return time.UnixMilli(1_000) },
	})
	t.Cleanup(func() {
		cancel()
		w.sealer.Wait()
	})
	return w
}

func identities(t *testing.T) encryption.Identities {
	t.Helper()
	text, _, err := encryption.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	ids, err := encryption.ParseIdentities([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// put makes a Secret, or another version of it.
func (w *world) put(name string, data map[string]string, mutate ...func(*corev1.Secret)) {
	w.Helper()
	w.version++
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: there, Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(w.version),
	}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	for _, m := range mutate {
		m(s)
	}
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: *s.ObjectMeta.DeepCopy()}
	secrets := w.secrets.CoreV1().Secrets(there)
	known := w.metadata.Resource(resource).Namespace(there).(metadatafake.MetadataClient)
	_, err := secrets.Update(w.Context(), s, metav1.UpdateOptions{})
	if err == nil {
		_, err = known.UpdateFake(m, metav1.UpdateOptions{})
	} else if apierrors.IsNotFound(err) {
		_, err = secrets.Create(w.Context(), s, metav1.CreateOptions{})
		_, metaErr := known.CreateFake(m, metav1.CreateOptions{})
		err = errors.Join(err, metaErr)
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) remove(name string) {
	w.Helper()
	err := w.secrets.CoreV1().Secrets(there).Delete(w.Context(), name, metav1.DeleteOptions{})
	if err := errors.Join(err, w.metadata.Resource(resource).Namespace(there).Delete(w.Context(), name, metav1.DeleteOptions{})); err != nil {
		w.Fatal(err)
	}
}

func (w *world) wasChanged(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed[path]
}

// orders is a claim of a kind that is not Crossplane's.
func orders(offered ...v1alpha1.PermissionClaim) Claim {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"managed": map[string]any{"secret": map[string]any{"name": "by-field"}}}}}
	u.SetAPIVersion("example.org/v1")
	u.SetKind("Cache")
	u.SetNamespace(there)
	u.SetName("orders")
	u.SetUID("uid-of-orders")
	return Claim{
		Key:    contract.Key{Binding: "caches.example.org", Namespace: "team-a", Name: "orders"},
		UID:    "uid-there",
		Object: u, Shape: crossplane.Plain, Offered: offered,
	}
}

func byName(name string) v1alpha1.PermissionClaim { return v1alpha1.PermissionClaim{Name: name} }

// seal seals, writes what came out to status, and gives what is known then. It waits
// until that is what was wanted.
func (w *world) seal(c *Claim, want func(Result) bool) Result {
	w.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		r, err := w.sealer.Seal(w.Context(), *c, w.status)
		if err == nil {
			if err := w.status.write(r.Files); err != nil {
				w.Fatal(err)
			}
			c.Present, c.Withheld = r.Secrets, r.Withheld
			if want(r) {
				return r
			}
		} else {
			w.Fatal(err)
		}
		if time.Now().After(deadline) {
			w.Fatalf("names are %v, withheld %v", r.Secrets.Names(), r.Withheld)
		}
		time.Sleep(time.Millisecond)
	}
}

func names(want ...string) func(Result) bool {
	return func(r Result) bool { return slices.Equal(r.Secrets.Names(), want) }
}

// opens is a Secret as the app cluster gets it.
func (w *world) opens(name string) (map[string]string, int64) {
	w.Helper()
	at := contract.SecretKey{Binding: "caches.example.org", Namespace: "team-a", Name: name}
	e, secret, err := (&encryption.Opener{Cluster: "k3x9", Keys: []string{w.signer.Public()}, Identities: w.ids}).Open(at, w.status[at.Path()])
	if err != nil {
		w.Fatal(err)
	}
	if e.Claim.Name != "orders" || e.Claim.UID != "uid-there" {
		w.Errorf("it is for %+v", e.Claim)
	}
	out := map[string]string{}
	for k, v := range secret.Data {
		out[k] = string(v)
	}
	return out, e.Sequence
}

func TestC5_SecretsAreChosenByNameFieldAndLabels(t *testing.T) {
	w := newWorld(t)
	data := map[string]string{"password": "geheim", "host": "db"}
	labelled := func(s *corev1.Secret) { s.Labels = map[string]string{"claim": "orders"} }
	w.put("orders-creds", data)
	w.put("by-field", data)
	w.put("by-label", data, labelled)
	w.put("of-another", data, func(s *corev1.Secret) { s.Labels = map[string]string{"claim": "billing"} })
	w.put("postgres.credentials.orders", data)
	c := orders(byName("$(name)-creds"), v1alpha1.PermissionClaim{Field: "status.managed.secret.name", Keys: []string{"host", "port"}},
		v1alpha1.PermissionClaim{MatchLabels: map[string]string{"claim": "$(name)"}}, v1alpha1.PermissionClaim{Field: "status.nothing.there"})
	w.seal(&c, names("by-field", "by-label", "orders-creds"))
	for name, want := range map[string]map[string]string{"orders-creds": data, "by-label": data, "by-field": {"host": "db"}} {
		if got, _ := w.opens(name); !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	// One that is not selected any more goes; labels that come later count, too.
	w.put("by-label", data)
	w.put("later", data, labelled)
	w.remove("orders-creds")
	w.seal(&c, names("by-field", "later"))
	if len(w.status) != 2 {
		t.Errorf("on status are %v", slices.Collect(maps.Keys(w.status)))
	}
	// Nor does anything stay of a claim that is gone.
	r, err := w.sealer.None(t.Context(), c, there, w.status)
	_ = w.status.write(r.Files)
	if err != nil || len(w.status) != 0 || r.Secrets == nil || len(r.Secrets.Versions) > 0 {
		t.Errorf("left are %v, %+v, %v", slices.Collect(maps.Keys(w.status)), r.Secrets, err)
	}
	if w.sealer.watches.Watching(there) {
		t.Error("the namespace is still watched")
	}
}

func TestF4_ARotatedValueFollowsAndAnUnchangedOneMakesNoFile(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	_, first := w.opens("orders-creds")
	quiet := func(when string) {
		t.Helper()
		if r, err := w.sealer.Seal(t.Context(), c, w.status); err != nil || len(r.Files) > 0 || r.Withheld != nil || !r.Secrets.Same(c.Present) {
			t.Errorf("%s: %d files, %+v, %v", when, len(r.Files), r.Secrets, err)
		}
	}
	quiet("nothing changed")
	reads := len(w.secrets.Actions())
	quiet("nothing changed again")
	if more := len(w.secrets.Actions()) - reads; more > 0 {
		t.Errorf("the Secret was read %d times though nothing changed", more)
	}
	// A label, or a new process, is no new value.
	w.put("orders-creds", map[string]string{"password": "one"}, func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} })
	w.sealer.sealed = map[string]sealed{}
	r := w.seal(&c, names("orders-creds"))
	if _, again := w.opens("orders-creds"); len(r.Files) > 0 || again != first {
		t.Errorf("%d files, version %d after %d", len(r.Files), again, first)
	}

	w.put("orders-creds", map[string]string{"password": "two"})
	before := c.Present
	w.seal(&c, func(r Result) bool { return len(r.Files) == 1 })
	got, sequence := w.opens("orders-creds")
	if got["password"] != "two" || sequence <= first {
		t.Errorf("the value is %q in version %d after %d", got["password"], sequence, first)
	}
	if l := c.Present; l.Versions["orders-creds"] != sequence || l.Sequence <= before.Sequence || l.UID != c.UID {
		t.Errorf("the list is %+v after %+v", l, before)
	}
	for deadline := time.Now().Add(time.Minute); !w.wasChanged(c.Key.Path()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the claim was not looked at again")
		}
	}
}

func TestF9_OtherRecipientsHaveItEncryptedAgain(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	w.to = nil
	w.seal(&c, func(r Result) bool { return r.Withheld[contract.AllSecrets] != "" && len(r.Secrets.Names()) == 0 })
	w.to = w.ids.Recipients()
	w.seal(&c, names("orders-creds"))
	w.ids = identities(t)
	w.to = w.ids.Recipients()
	w.seal(&c, func(r Result) bool { return len(r.Files) == 1 })
	w.opens("orders-creds")
	// As long as nobody may be told, what there is stays.
	w.to = nil
	w.seal(&c, names("orders-creds"))
}

func TestWhatIsNotTheClaimsDoesNotTravel(t *testing.T) {
	w := newWorld(t)
	controlled := func(by types.UID) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{UID: by, Name: "x", Controller: ptr.To(true)}}
		}
	}
	c := orders()
	c.Shape = crossplane.Claim
	if err := unstructured.SetNestedField(c.Object.Object, "orders-conn", "spec", "writeConnectionSecretToRef", "name"); err != nil {
		t.Fatal(err)
	}
	w.put("orders-conn", map[string]string{"password": "x"}, controlled("uid-of-billing"))
	withheld := func(words string) func(Result) bool {
		return func(r Result) bool {
			return strings.Contains(r.Withheld["orders-conn"], words) && len(r.Secrets.Names()) == 0
		}
	}
	w.seal(&c, withheld("does not control it"))
	w.put("orders-conn", map[string]string{"password": "x"}, controlled(c.Object.GetUID()))
	w.seal(&c, names("orders-conn"))
	for _, kind := range []corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken} {
		w.put("orders-conn", map[string]string{"token": "x"}, controlled(c.Object.GetUID()), func(s *corev1.Secret) { s.Type = kind })
		w.seal(&c, withheld("the control plane's own"))
	}
	w.put("orders-conn", map[string]string{"password": strings.Repeat("x", 900<<10)}, controlled(c.Object.GetUID()))
	w.seal(&c, withheld("too large"))
}

// A claim's answer is one commit with the files of its Secrets.
func TestASecretOfWhoseNameNoFileCanBeMadeDoesNotTravel(t *testing.T) {
	for length, travels := range map[int]bool{maxName: true, maxName + 1: false, 253: false} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			w := newWorld(t)
			name := strings.Repeat("x", length)
			c := orders(byName(name), byName("other"))
			w.put(name, map[string]string{"password": "x"})
			w.put("other", map[string]string{"password": "x"})
			r := w.seal(&c, func(r Result) bool { return slices.Contains(r.Secrets.Names(), "other") })
			if got := slices.Contains(r.Secrets.Names(), name); got != travels || strings.Contains(r.Withheld[name], "250") == travels {
				t.Errorf("it travels: %t, withheld %v", got, r.Withheld)
			}
			_, err := memstore.New().Branch("status").Update(t.Context(), store.Edit{Apply: func(tree *store.Tree) error {
				var err error
				for path, data := range w.status {
					err = errors.Join(err, tree.Write(path, data))
				}
				return err
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// The data service's Secret outlives its object for as long as garbage collection takes, and
// the next object of the claim has the same name.
func TestASecretOfAnObjectThatTheClaimHadBeforeDoesNotTravel(t *testing.T) {
	w := newWorld(t)
	c := orders(byName("orders-creds"))
	of := func(apiVersion, kind, name string, uid types.UID) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}}
		}
	}
	version, kind := c.Object.GetAPIVersion(), c.Object.GetKind()
	w.put("orders-creds", map[string]string{"password": "old"}, of(version, kind, c.Object.GetName(), "uid-before"))
	w.seal(&c, func(r Result) bool {
		return strings.Contains(r.Withheld["orders-creds"], "garbage collection") && len(r.Secrets.Names()) == 0
	})
	group, _, _ := strings.Cut(version, "/")
	both := func(s *corev1.Secret) {
		of(version, kind, c.Object.GetName(), c.Object.GetUID())(s)
		s.OwnerReferences = append([]metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: c.Object.GetName(), UID: "uid-before"}}, s.OwnerReferences...)
	}
	for name, owner := range map[string]func(*corev1.Secret){
		"this object":           of(version, kind, c.Object.GetName(), c.Object.GetUID()),
		"this one, too":         both,
		"in another version":    of(group+"/v9", kind, c.Object.GetName(), c.Object.GetUID()),
		"another claim":         of(version, kind, "billing", "uid-of-billing"),
		"another kind":          of(version, "X"+kind, c.Object.GetName(), "uid-of-composite"),
		"a kind of another API": of("other.example.org/v1", kind, c.Object.GetName(), "uid-of-composite"),
	} {
		w.put("orders-creds", map[string]string{"password": name}, owner)
		w.seal(&c, names("orders-creds"))
		if got, _ := w.opens("orders-creds"); got["password"] != name {
			t.Errorf("%s: it is %v", name, got)
		}
	}
}

// What cannot travel just now takes nothing away that was delivered.
func TestWhatWasDeliveredStaysWhenANewVersionCannotTravel(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "x"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	stays := func(words string) {
		t.Helper()
		w.seal(&c, func(r Result) bool {
			return strings.Contains(r.Withheld["orders-creds"], words) && slices.Equal(r.Secrets.Names(), []string{"orders-creds"})
		})
		if got, _ := w.opens("orders-creds"); got["password"] != "x" {
			t.Errorf("%s: it is %v", words, got)
		}
	}
	w.put("orders-creds", map[string]string{"password": strings.Repeat("x", 900<<10)})
	stays("too large")
	refuse := apierrors.NewForbidden(resource.GroupResource(), "orders-creds", errors.New("no"))
	w.secrets.PrependReactor("get", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) { return true, nil, refuse })
	w.put("orders-creds", map[string]string{"password": "y"})
	stays("may not read it")
	// It asks for the right again, and looks whether that helped.
	if r, err := w.sealer.Seal(t.Context(), c, w.status); err != nil || !r.Again || w.given.Load() {
		t.Errorf("again: %t, given: %t, %v", r.Again, w.given.Load(), err)
	}
}

// The API server takes any recipient of the right letters, also one with a wrong checksum.
func TestARecipientThatCannotBeReadLeavesWhatWasDelivered(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	good := w.to
	last := "q"
	if strings.HasSuffix(good[0], last) {
		last = "p"
	}
	wrong := good[0][:len(good[0])-1] + last
	w.put("orders-creds", map[string]string{"password": "two"})
	w.to = append(slices.Clone(good), wrong)
	for range 2 {
		r, err := w.sealer.Seal(t.Context(), c, w.status)
		if err != nil || len(r.Files) > 0 || !r.Secrets.Same(c.Present) || !strings.Contains(r.Withheld[contract.AllSecrets], wrong) {
			t.Errorf("%d files, %+v after %+v, withheld %v, %v", len(r.Files), r.Secrets, c.Present, r.Withheld, err)
		}
	}
	w.to = good
	w.seal(&c, func(r Result) bool { return len(r.Files) == 1 && r.Withheld == nil })
	if got, _ := w.opens("orders-creds"); got["password"] != "two" {
		t.Errorf("it is %v", got)
	}
}

// A version counts when there is a file of it.
func TestASecretThatCannotBeSealedTravelsInNoVersion(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	w.put("orders-creds", map[string]string{"password": "two"})
	secret, err := w.secrets.CoreV1().Secrets(there).Get(t.Context(), "orders-creds", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selections := selectionsOf(c.Shape, c.Offered, c.Object)
	taken, _ := selection.Judge(selections, secret.ObjectMeta)
	v, err := w.sealer.seal(t.Context(), c, taken, selections, to{w.signer, nil}, w.status)
	if err == nil || v.travels || v.sequence > 0 || v.file.Data != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// One that cannot be read keeps no other from travelling.
func TestOneSecretKeepsNoOtherWaiting(t *testing.T) {
	w := newWorld(t)
	w.put("a", map[string]string{"password": "1"})
	w.put("b", map[string]string{"password": "1"})
	c := orders(byName("a"), byName("b"))
	w.seal(&c, names("a", "b"))
	w.secrets.PrependReactor("get", "secrets", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		if action.(clientgotesting.GetAction).GetName() == "a" {
			return true, nil, apierrors.NewInternalError(errors.New("no"))
		}
		return false, nil, nil
	})
	w.put("a", map[string]string{"password": "2"})
	w.put("b", map[string]string{"password": "2"})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r, err := w.sealer.Seal(t.Context(), c, w.status)
		_ = w.status.write(r.Files)
		if !slices.Equal(r.Secrets.Names(), []string{"a", "b"}) {
			t.Fatalf("names are %v, %v", r.Secrets.Names(), err)
		}
		if got, _ := w.opens("b"); got["password"] == "2" && err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("b waits for a: %v", err)
		}
	}
	if got, _ := w.opens("a"); got["password"] != "1" {
		t.Errorf("a is %v", got)
	}
}

// A sequence counts only where this bridge wrote it.
func TestASequenceOfAnotherCountsForNothing(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": "x"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	at := contract.SecretKey{Binding: c.Key.Binding, Namespace: c.Key.Namespace, Name: "orders-creds"}.Path()
	w.status[at] = bytes.Replace(w.status[at], []byte("sequence: 1000"), []byte("sequence: 9223372036854775806"), 1)
	w.sealer.sealed = map[string]sealed{}
	w.seal(&c, func(r Result) bool { return len(r.Files) == 1 })
	if _, sequence := w.opens("orders-creds"); sequence != 1001 {
		t.Errorf("the sequence is %d", sequence)
	}
}

// An app cluster that has not looked meanwhile has the first one, and takes none that is older.
func TestD13_ASecretMadeAgainAfterAClockThatWasAheadIsNewer(t *testing.T) {
	w := newWorld(t)
	at := int64(100_000)
	w.sealer.options.Now = func() time.Time { return time.UnixMilli(at) }
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	w.seal(&c, names("orders-creds"))
	_, first := w.opens("orders-creds")
	at = 2000
	w.remove("orders-creds")
	w.seal(&c, func(r Result) bool { return len(r.Secrets.Names()) == 0 })
	w.put("orders-creds", map[string]string{"password": "two"})
	w.seal(&c, names("orders-creds"))
	if _, second := w.opens("orders-creds"); second <= first {
		t.Errorf("the sequence was %d and is %d", first, second)
	}
}

func TestWhatIsNotKnownYetChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.put("orders-creds", map[string]string{"password": strings.Repeat("x", 900<<10)})
	c := orders(byName("orders-creds"))
	before := w.seal(&c, func(r Result) bool { return r.Withheld["orders-creds"] != "" })
	for what, spoil := range map[string]func(*Options){
		"the signer": func(o *Options) {
			o.Signer = func(context.Context) (*encryption.Signer, error) { return nil, errors.New("away") }
		},
		"the rights": func(o *Options) { o.Rights = func(context.Context, string) error { return errors.New("away") } },
		"the recipients": func(o *Options) {
			o.Recipients = func(context.Context) ([]string, error) { return nil, errors.New("away") }
		},
	} {
		o := w.sealer.options
		spoil(&o)
		r, err := (&Sealer{options: o}).Seal(t.Context(), c, w.status)
		if err == nil || !maps.Equal(r.Withheld, before.Withheld) || len(r.Files) > 0 {
			t.Errorf("without %s: %+v, %v", what, r, err)
		}
	}
	begun := NewSealer(t.Context(), w.sealer.options)
	r, err := begun.Seal(t.Context(), c, w.status)
	if err != nil || !maps.Equal(r.Withheld, before.Withheld) {
		t.Errorf("before anything is known: %+v, %v", r, err)
	}
}

func TestOneSecretBelongsToOneClaim(t *testing.T) {
	w := newWorld(t)
	w.put("shared", map[string]string{"password": "x"})
	first, second := orders(byName("shared")), orders(byName("shared"))
	second.Key.Name = "billing"
	w.seal(&first, names("shared"))
	data, err := contract.EncodeStatus(&contract.Status{Result: contract.Applied, Answers: contract.Answers{Commit: "c"}, Secrets: first.Present})
	if err != nil {
		t.Fatal(err)
	}
	w.status[first.Key.Path()] = data
	w.seal(&second, func(r Result) bool {
		return r.Again && strings.Contains(r.Withheld["shared"], "with the claim orders already")
	})
	delete(w.status, first.Key.Path())
	w.seal(&second, names("shared"))
}

// Claims are worked on at the same time: what both decide on the same tree is of one of them.
func TestOneSecretThatTwoClaimsTakeAtOnceIsOfOne(t *testing.T) {
	w := newWorld(t)
	w.put("shared", map[string]string{"password": "x"})
	w.put("other", map[string]string{"password": "x"})
	first, second := orders(byName("shared")), orders(byName("shared"))
	second.Key.Name = "billing"
	// The Secrets of the namespace are known from then on.
	third := orders(byName("other"))
	third.Key.Name = "third"
	w.seal(&third, names("other"))
	var files [2][]statusbranch.File
	for i, c := range []*Claim{&first, &second} {
		r, err := w.sealer.Seal(t.Context(), *c, w.status)
		if err != nil || len(r.Files) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		files[i] = r.Files
	}
	if err := w.status.write(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := w.status.write(files[1]); !errors.Is(err, statusbranch.ErrOutdated) {
		t.Errorf("the file of the first was overwritten: %v", err)
	}
}

func TestNoRightIsToldAndComesBack(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	may := false
	w.metadata.PrependReactor("list", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		if may {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", errors.New("no"))
	})
	w.put("orders-creds", map[string]string{"password": "one"})
	c := orders(byName("orders-creds"))
	r := w.seal(&c, func(r Result) bool { return r.Withheld[contract.AllSecrets] != "" })
	if diff := cmp.Diff(map[string]string{contract.AllSecrets: "the tenant may not read Secrets in " + there + ": it gets that by the ClusterRole gitbind:claim-secrets, if the control plane has it"}, r.Withheld); diff != "" {
		t.Error(diff)
	}
	if w.given.Load() {
		t.Error("it does not ask for the right again")
	}
	mu.Lock()
	may = true
	mu.Unlock()
	w.seal(&c, names("orders-creds"))
}
