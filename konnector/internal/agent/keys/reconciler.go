// Package keys has, for each Connection, the keys with which Secrets travel: it makes
// those of the app cluster, in a Secret of the konnector's own namespace, registers their
// public halves with the backend, and keeps the bridge's public keys on the Connection.
//
// The private keys leave neither that Secret nor this process. The Secret outlives its
// Connection: who connects the cluster again can still read what was encrypted to it.
package keys

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/konnector/internal/agent/backend"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=connections,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=connections/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=get;list;watch;create
//
// To update a Connection's key Secret is in the Role that connecting makes for it.

const (
	// every is how often keys are registered though nothing changed: the bridge may
	// have other ones.
	every = time.Hour
	// retryFirst and retryMost are how long until what failed is tried again.
	retryFirst, retryMost = 5 * time.Second, 5 * time.Minute
	// hurry is how soon a registration may follow another one: a file that is signed
	// with an unknown key asks for one, and there may be thousands.
	hurry = time.Minute
)

// Reconciler keeps the keys of all Connections.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Namespace is where the Secrets lie.
	Namespace string
	// Guard, if not nil, is put around what sends requests, and refuses those
	// that this process must not send.
	Guard func(http.RoundTripper) http.RoundTripper
	// Changed is told when Opener or Sender gives another one; nil for nobody.
	Changed func(connection string)
	Now     func() time.Time

	mu    sync.Mutex
	about map[string]*memory
	// queue has the Connections to look at; nil before the controller runs.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// memory is what is known of a Connection's keys. One worker has it at a time; mu guards
// what others look at, too.
type memory struct {
	opener *encryption.Opener
	sender *encryption.Sender
	// of is what the last registration was made of, at when, and due when the next one is.
	of      string
	at, due time.Time
	// registered is the newest recipient that the backend is known to have, "" for none.
	registered string
	// failures are those since one succeeded.
	failures int
}

// Opener opens what travels to a Connection; nil as long as it has no keys.
func (r *Reconciler) Opener(connection string) *encryption.Opener {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.about[connection]; m != nil {
		return m.opener
	}
	return nil
}

// Sender seals what goes from this cluster by a Connection; nil as long as it has no keys.
func (r *Reconciler) Sender(connection string) *encryption.Sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.about[connection]; m != nil {
		return m.sender
	}
	return nil
}

// UnknownSigner says that something is signed with a key that is not known: the backend
// is asked again whose keys count, though not all the time.
func (r *Reconciler) UnknownSigner(connection string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.about[connection]; m != nil {
		if next := m.at.Add(hurry); next.Before(m.due) {
			m.due = next
		}
	}
	if r.queue != nil {
		r.queue.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: connection}})
	}
}

// Reconcile does what is due for one Connection.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	conn := &v1alpha1.Connection{}
	err := r.Client.Get(ctx, req.NamespacedName, conn)
	if err != nil || !conn.DeletionTimestamp.IsZero() {
		r.forget(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	k, err := r.ensure(ctx, conn)
	if k == nil {
		return ctrl.Result{}, r.failedKey(ctx, conn, err)
	}
	result, failed := r.use(ctx, conn, k, err)
	return result, errors.Join(failed, transient(err))
}

// use registers keys when that is due, and has them used. Unrotated is why there is no other
// one, though a person has asked for it.
func (r *Reconciler) use(ctx context.Context, conn *v1alpha1.Connection, k *keys, unrotated error) (ctrl.Result, error) {
	m := r.of(conn.Name)
	r.open(conn, k, conn.Status.Encryption)
	if conn.Spec.BackendURL == "" {
		return ctrl.Result{}, r.report(ctx, conn, conn.Status.Encryption, no("NotRegistered",
			"spec.backendURL is empty: have the control plane's operator put %s into spec.encryption.recipients of the ClusterBinding.", k.identities.Recipients()[0]))
	}
	credential := &corev1.Secret{}
	ref := conn.Spec.SecretRef
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, credential); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	of := k.version + " " + credential.ResourceVersion
	if left := r.left(m, of); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	answer, err := r.register(ctx, conn, credential, k)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("keys are not registered", "connection", conn.Name, "error", err.Error())
		return ctrl.Result{RequeueAfter: r.failed(m, of)}, r.report(ctx, conn, conn.Status.Encryption, notRegistered(conn, err, unrotated))
	}
	m.failures, m.registered = 0, ""
	if answer.Refused == "" {
		m.registered = k.identities.Recipients()[0]
	}
	bridge := &answer.Bridge
	r.open(conn, k, bridge)
	after := wait.Jitter(every, 0.1)
	if len(bridge.SigningKeys) == 0 {
		after = retryFirst
	}
	c := conditionOf(answer, k)
	switch {
	case errors.Is(unrotated, errUnregistered) && m.registered == "":
		c.Message += waitsForRegistration
	case errors.Is(unrotated, errUnregistered):
		after = time.Millisecond // Another one is made now.
	case unrotated != nil:
		c.Reason = "RotationFails"
		c.Message += fmt.Sprintf(" Another key was asked for, and Secret %s could not be written: %s.", v1alpha1.EncryptionSecret(conn.Name), unrotated)
	}
	if err := r.report(ctx, conn, bridge, c); err != nil {
		// The next look would take the bridge's keys from what the status says.
		return ctrl.Result{}, err
	}
	r.tried(m, of, after)
	return ctrl.Result{RequeueAfter: after}, nil
}

// left is how long until the next registration, 0 when it is due: at once where it would
// be made of something else than the last one.
func (r *Reconciler) left(m *memory, of string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.of != of {
		return 0
	}
	return max(m.due.Sub(r.Now()), 0)
}

// tried notes a registration, and when the next one is due.
func (r *Reconciler) tried(m *memory, of string, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.of, m.at = of, r.Now()
	m.due = m.at.Add(after)
}

// register has the public keys registered in the place of those that are. It is asked
// twice where those must sign.
func (r *Reconciler) register(ctx context.Context, conn *v1alpha1.Connection, credential *corev1.Secret, k *keys) (restapi.Encryption, error) {
	b, done, err := backend.Of(conn, r.Guard)
	if err != nil {
		return restapi.Encryption{}, err
	}
	defer done()
	in := restapi.Registration{EncryptionKeys: v1alpha1.EncryptionKeys{Recipients: k.identities.Recipients()[:1], SigningKeys: []string{k.signer.Public()}}}
	var answer restapi.Encryption
	for range 2 {
		answer = restapi.Encryption{}
		user, password := string(credential.Data[corev1.BasicAuthUsernameKey]), string(credential.Data[corev1.BasicAuthPasswordKey])
		if err := b.Ask(ctx, http.MethodPut, "encryption", user, password, in, &answer); err != nil {
			return answer, fmt.Errorf("register the keys: %w", err)
		}
		if answer.Refused == "" || !slices.Contains(answer.Registered.SigningKeys, k.signer.Public()) {
			break
		}
		in.Signature = k.signer.Sign(restapi.RegistrationPurpose, in.Message(conn.Spec.ClusterID, answer.Registered))
	}
	return answer, nil
}

// waitsForRegistration is said of a rotation.
const waitsForRegistration = " Another key was asked for: it is made when this one is registered."

// failed notes a failure, and gives when to try again.
func (r *Reconciler) failed(m *memory, of string) time.Duration {
	m.failures++
	after := min(retryFirst<<min(m.failures-1, 7), retryMost)
	r.tried(m, of, after)
	return after
}

// notRegistered says why keys could not be registered.
func notRegistered(conn *v1alpha1.Connection, err, unrotated error) metav1.Condition {
	words := "The backend does not take this cluster's key just now. It is tried again."
	switch {
	case errors.Is(err, backend.ErrUnsupported):
		words = "The backend knows no keys: bring the control plane up to date. Until then no Secret travels."
	case errors.Is(err, backend.ErrRefused):
		words = "The backend does not take the credential; the condition Credential says more."
	}
	if errors.Is(unrotated, errUnregistered) {
		words += waitsForRegistration
	}
	c := no("NotRegistered", "%s", words)
	if conn.Status.Encryption != nil {
		// What was known goes on.
		c.Status = metav1.ConditionUnknown
	}
	return c
}

// failedKey says that there is no key to use. What was used goes on, unless the Secret holds
// something else now.
func (r *Reconciler) failedKey(ctx context.Context, conn *v1alpha1.Connection, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return err // The cache is behind.
	}
	if errors.Is(err, errKey) {
		r.setKeys(conn.Name, nil, nil)
	}
	words := fmt.Sprintf("Secret %s: %s.", v1alpha1.EncryptionSecret(conn.Name), err)
	if apierrors.IsForbidden(err) {
		words = fmt.Sprintf("The konnector may not write Secret %s. Connect this cluster again: kubectl gitbind connect.", v1alpha1.EncryptionSecret(conn.Name))
	}
	return errors.Join(r.report(ctx, conn, conn.Status.Encryption, no("NoKey", "%s", words)), transient(err))
}

// transient is an error that may pass.
func transient(err error) error {
	if errors.Is(err, errKey) || errors.Is(err, errUnregistered) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// open lets what travels be opened and sealed with these keys.
func (r *Reconciler) open(conn *v1alpha1.Connection, k *keys, bridge *v1alpha1.EncryptionKeys) {
	o := &encryption.Opener{Cluster: conn.Spec.ClusterID, Identities: k.identities}
	s := &encryption.Sender{Cluster: conn.Spec.ClusterID, Signer: k.signer}
	if bridge != nil {
		o.Keys, s.Recipients = slices.Clone(bridge.SigningKeys), slices.Clone(bridge.Recipients)
	}
	r.setKeys(conn.Name, o, s)
}

func (r *Reconciler) setKeys(connection string, o *encryption.Opener, s *encryption.Sender) {
	m := r.of(connection)
	r.mu.Lock()
	changed := false
	if !o.Equal(m.opener) {
		m.opener, changed = o, true
	}
	if !s.Equal(m.sender) {
		m.sender, changed = s, true
	}
	r.mu.Unlock()
	if changed && r.Changed != nil {
		r.Changed(connection)
	}
}

func conditionOf(answer restapi.Encryption, k *keys) metav1.Condition {
	switch {
	case answer.Refused != "":
		return no("Refused", "The backend does not take this cluster's key: %s. Until then Secrets are encrypted to another key, which this cluster has not.", answer.Refused)
	case len(answer.Bridge.SigningKeys) == 0:
		return no("NoBridge", "The key is registered. The control plane's bridge has published none yet, so nothing of it can be checked.")
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionEncryption, Status: metav1.ConditionTrue, Reason: "Registered",
		Message: fmt.Sprintf("Secrets are encrypted to %s.", k.identities.Recipients()[0]),
	}
}

func no(reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionEncryption, Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// part is applied beside what others write, in this very process.
var part = status.Part{Owner: "gitbind-konnector-encryption", Fields: []string{"encryption"}, Conditions: []string{v1alpha1.ConditionEncryption}}

// report writes the condition and the bridge's keys, if they say anything new.
func (r *Reconciler) report(ctx context.Context, conn *v1alpha1.Connection, bridge *v1alpha1.EncryptionKeys, c metav1.Condition) error {
	want := conn.DeepCopy()
	if want.Status.Encryption = bridge; bridge != nil && len(bridge.SigningKeys)+len(bridge.Recipients) == 0 {
		want.Status.Encryption = nil
	}
	status.Set(want, c, r.Now())
	return client.IgnoreNotFound(part.Write(ctx, r.Client, conn, want))
}

func (r *Reconciler) of(name string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.about == nil {
		r.about = map[string]*memory{}
	}
	if r.about[name] == nil {
		r.about[name] = &memory{}
	}
	return r.about[name]
}

func (r *Reconciler) registered(name string) string { return r.of(name).registered }

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.about, name)
}
