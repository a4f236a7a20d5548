package keys

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/test/fakeapi"
)

// world is one Connection, and a backend with the rules of registrations. That the
// backend keeps these rules is tested there.
type world struct {
	*Reconciler
	t   *testing.T
	api client.Client
	now time.Time

	mu         sync.Mutex
	registered v1alpha1.EncryptionKeys
	bridge     []string
	status     int
	asked      int
	changed    int
	// unwritten says that the Connection's status cannot be written.
	unwritten bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), bridge: []string{newSigner(t).Public()}, status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(server.Close)
	w.api = fakeapi.New(fakeapi.Builder().WithStatusSubresource(&v1alpha1.Connection{}).WithObjects(
		&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.ConnectionSpec{
			BackendURL: server.URL, ClusterID: "k3x9", SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: "s"},
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: "s"}, Data: map[string][]byte{"username": []byte("konnector"), "password": []byte("x")}},
	), interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, subresource string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
		if w.unwritten {
			return apierrors.NewServiceUnavailable("not now")
		}
		return c.SubResource(subresource).Apply(ctx, o, opts...)
	}})
	w.begin()
	return w
}

// begin is another process.
func (w *world) begin() {
	w.Reconciler = &Reconciler{Client: w.api, Namespace: "gitbind-system", Changed: func(string) { w.changed++ }, Now: func() time.Time { return w.now }}
}

func newSigner(t *testing.T) *encryption.Signer {
	t.Helper()
	s, err := encryption.NewSigner(encryption.GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	var in restapi.Registration
	if r.Method != http.MethodPut || r.URL.Path != "/v1/clusters/k3x9/encryption" || json.NewDecoder(r.Body).Decode(&in) != nil {
		w.t.Errorf("asked %s %s", r.Method, r.URL.Path)
	}
	if w.status != http.StatusOK {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(w.status)
		_ = json.NewEncoder(rw).Encode(restapi.Error{Message: "no"})
		return
	}
	out := restapi.Encryption{Bridge: v1alpha1.EncryptionKeys{SigningKeys: w.bridge}}
	if len(w.registered.SigningKeys) == 0 || slices.Equal(w.registered.Recipients, in.Recipients) ||
		encryption.Verify(w.registered.SigningKeys, restapi.RegistrationPurpose, in.Message("k3x9", w.registered), in.Signature) == nil {
		w.registered = in.EncryptionKeys
	} else {
		out.Refused = "other keys are registered"
	}
	out.Registered = w.registered
	_ = json.NewEncoder(rw).Encode(out)
}

func (w *world) run() time.Duration {
	w.t.Helper()
	res, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.RequeueAfter
}

// says checks the condition.
func (w *world) says(status metav1.ConditionStatus, reason, words string) {
	w.t.Helper()
	var conn v1alpha1.Connection
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "c"}, &conn); err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(conn.Status.Conditions, v1alpha1.ConditionEncryption)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, words) {
		w.t.Errorf("the condition is %+v, want %s %s %q", c, status, reason, words)
	}
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	var s corev1.Secret
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: "gitbind-system", Name: "encryption-c"}, &s); err != nil {
		w.t.Fatal(err)
	}
	return &s
}

func TestAKeyIsMadeOnceAndRegistered(t *testing.T) {
	w := newWorld(t)
	if after := w.run(); after < 50*time.Minute {
		t.Errorf("it is registered again after %s", after)
	}
	w.says(metav1.ConditionTrue, "Registered", w.registered.Recipients[0])
	o := w.Opener("c")
	if o == nil || o.Cluster != "k3x9" || !slices.Equal(o.Keys, w.bridge) || o.Identities.Recipients()[0] != w.registered.Recipients[0] {
		t.Fatalf("it opens with %+v", o)
	}
	was := w.secret().ResourceVersion
	w.run()
	w.begin()
	w.run()
	if w.asked != 2 || w.secret().ResourceVersion != was {
		t.Errorf("the backend was asked %d times, the Secret is %s after %s", w.asked, w.secret().ResourceVersion, was)
	}
	// Before and after it knows the bridge's key, and as it was kept.
	if w.changed != 3 {
		t.Errorf("it was told %d times of an opener", w.changed)
	}
}

func TestF9_ARotatedKeyIsSignedWithTheRegisteredOneAndOldFilesOpen(t *testing.T) {
	w := newWorld(t)
	w.run()
	first := w.registered
	for n := range 3 {
		s := w.secret()
		s.Annotations = map[string]string{v1alpha1.RotateAnnotation: "now"}
		if err := w.api.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		before := w.registered.Recipients[0]
		w.run()
		w.says(metav1.ConditionTrue, "Registered", w.registered.Recipients[0])
		ids := w.Opener("c").Identities.Recipients()
		if w.registered.Recipients[0] == before || len(w.registered.Recipients) != 1 || !slices.Equal(ids, []string{w.registered.Recipients[0], before}) {
			t.Fatalf("rotation %d: registered is %v after %s, opened with %v", n, w.registered.Recipients, before, ids)
		}
		if _, asked := w.secret().Annotations[v1alpha1.RotateAnnotation]; asked {
			t.Error("the annotation is still there")
		}
	}
	if w.registered.SigningKeys[0] != first.SigningKeys[0] {
		t.Error("the signing key is another one")
	}
}

// While the backend is away the bridge encrypts to the key that is registered, and two
// rotations would lose it.
func TestF9_NoKeyIsMadeBeforeTheOneBeforeIsRegistered(t *testing.T) {
	w := newWorld(t)
	w.run()
	first := w.registered.Recipients[0]
	w.status = http.StatusServiceUnavailable
	rotate := func() {
		t.Helper()
		s := w.secret()
		s.Annotations = map[string]string{v1alpha1.RotateAnnotation: "now"}
		if err := w.api.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(retryMost)
		w.run()
	}
	rotate()
	second := w.Opener("c").Identities.Recipients()[0]
	for _, restart := range []bool{false, true} {
		if restart {
			w.begin()
		}
		rotate()
		if got := w.Opener("c").Identities.Recipients(); second == first || !slices.Equal(got, []string{second, first}) {
			t.Errorf("it has %v, and %s is registered", got, first)
		}
		w.says(metav1.ConditionUnknown, "NotRegistered", "Another key was asked for")
	}
	w.status, w.now = http.StatusOK, w.now.Add(retryMost)
	if after := w.run(); after > time.Second || w.registered.Recipients[0] != second {
		t.Errorf("registered is %s, and it is looked at again after %s", w.registered.Recipients[0], after)
	}
	w.run()
	third := w.registered.Recipients[0]
	if got := w.Opener("c").Identities.Recipients(); third == second || !slices.Equal(got, []string{third, second}) {
		t.Errorf("it has %v, and %s is registered", got, third)
	}
	w.says(metav1.ConditionTrue, "Registered", third)
	if _, asked := w.secret().Annotations[v1alpha1.RotateAnnotation]; asked {
		t.Error("the annotation is still there")
	}
}

func TestKeysOfAnotherAreTold(t *testing.T) {
	w := newWorld(t)
	w.registered = v1alpha1.EncryptionKeys{Recipients: []string{"age1other"}, SigningKeys: []string{newSigner(t).Public()}}
	w.run()
	w.says(metav1.ConditionFalse, "Refused", "other keys are registered")
	if w.asked != 1 {
		t.Errorf("asked %d times", w.asked)
	}
}

func TestABackendThatIsAwayOrOldIsAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.status = http.StatusServiceUnavailable
	if after := w.run(); after != retryFirst {
		t.Errorf("tried again after %s", after)
	}
	w.says(metav1.ConditionFalse, "NotRegistered", "just now")
	w.now, w.status = w.now.Add(retryFirst), http.StatusNotFound
	w.run()
	w.says(metav1.ConditionFalse, "NotRegistered", "bring the control plane up to date")
	w.now, w.status = w.now.Add(time.Hour), http.StatusOK
	w.run()
	w.says(metav1.ConditionTrue, "Registered", "age1")
	// What was known goes on, also in another process.
	w.begin()
	w.status = http.StatusServiceUnavailable
	w.run()
	w.says(metav1.ConditionUnknown, "NotRegistered", "just now")
	if o := w.Opener("c"); o == nil || !slices.Equal(o.Keys, w.bridge) {
		t.Errorf("it opens with %+v", o)
	}
}

// What was not written down is asked for again, and not in an hour.
func TestKeysThatCouldNotBeWrittenDownAreAskedForAgain(t *testing.T) {
	w := newWorld(t)
	w.unwritten = true
	if _, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}}); err == nil {
		t.Fatal("nothing is said")
	}
	w.unwritten = false
	w.run()
	w.says(metav1.ConditionTrue, "Registered", w.registered.Recipients[0])
	if o := w.Opener("c"); o == nil || !slices.Equal(o.Keys, w.bridge) {
		t.Errorf("it opens with %+v", o)
	}
}

func TestABridgeWithAnotherKeyIsFoundWithinAMinute(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.bridge = []string{newSigner(t).Public()}
	w.now = w.now.Add(time.Second)
	w.UnknownSigner("c")
	if after := w.run(); after > time.Minute || w.asked != 1 {
		t.Errorf("asked %d times, and again after %s", w.asked, after)
	}
	w.now = w.now.Add(time.Minute)
	w.run()
	if o := w.Opener("c"); w.asked != 2 || !slices.Equal(o.Keys, w.bridge) {
		t.Errorf("asked %d times, it opens with %+v", w.asked, o)
	}
}

// What there is goes on, as long as nothing else can be written.
func TestARotationThatFailsLeavesTheKeysThatThereAre(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for name, c := range map[string]struct {
		err   error
		again bool
	}{
		"no right":             {apierrors.NewForbidden(secrets, "encryption-c", errors.New("no")), false},
		"another version":      {apierrors.NewConflict(secrets, "encryption-c", errors.New("it was modified")), true},
		"an API server's fall": {apierrors.NewServiceUnavailable("not now"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run()
			opener, sender := w.Opener("c"), w.Sender("c")
			s := w.secret()
			s.Annotations = map[string]string{v1alpha1.RotateAnnotation: "now"}
			if err := w.api.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			w.Client = interceptor.NewClient(w.api.(client.WithWatch), interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return c.err },
			})
			w.changed = 0
			_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "c"}})
			if (err != nil) != c.again || w.Opener("c") != opener || w.Sender("c") != sender || w.changed != 0 {
				t.Errorf("%v; changed %d times", err, w.changed)
			}
			w.says(metav1.ConditionTrue, "RotationFails", "Another key was asked for")
			w.Client = w.api
			w.run()
			w.says(metav1.ConditionTrue, "Registered", "")
			if w.Opener("c") == opener {
				t.Error("it is not rotated in the end")
			}
		})
	}
}

func TestASecretThatCannotBeUsedIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.run()
	s := w.secret()
	s.Data[encryption.IdentitiesEntry] = []byte("AGE-SECRET-KEY-1BROKEN\n")
	if err := w.api.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.says(metav1.ConditionFalse, "NoKey", "encryption-c: it cannot be used")
	if w.Opener("c") != nil || string(w.secret().Data[encryption.IdentitiesEntry]) != "AGE-SECRET-KEY-1BROKEN\n" {
		t.Error("it was used, or overwritten")
	}
}

// A control plane that had it delivered knows the keys.
func TestASecretThatWasDeliveredIsNoKey(t *testing.T) {
	w := newWorld(t)
	s, err := generate(client.ObjectKey{Namespace: "gitbind-system", Name: "encryption-c"})
	if err != nil {
		t.Fatal(err)
	}
	s.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector}
	if err := w.api.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.says(metav1.ConditionFalse, "NoKey", "kubectl delete secret -n gitbind-system encryption-c")
	if w.Opener("c") != nil || w.Sender("c") != nil || w.asked > 0 {
		t.Errorf("it is used, and %d times registered", w.asked)
	}
	if err := w.api.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.says(metav1.ConditionTrue, "Registered", w.registered.Recipients[0])
}
