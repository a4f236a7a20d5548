// Package heartbeat tells the backend of each Connection every few seconds that this
// process works for the app cluster, and keeps what the backend answers: whether another
// copy of the cluster is live, and whether this process may remove anything. Those who ask
// for Standing act on it.
//
// It writes nothing to the cluster, and without an answer nothing changes: a backend that
// is away stops nobody who has been confirmed.
package heartbeat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/backend"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=connections,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=get;list;watch

const (
	// defaultGoneAfter is GoneAfter of a process that is alone and has no Lease.
	defaultGoneAfter = 15 * time.Second
	// farewellTimeout is how long the end of the process may wait for its last heartbeat.
	farewellTimeout = time.Second
	// openingPoll is how often to see whether the repository is open.
	openingPoll = 50 * time.Millisecond
	// unsupportedWait is how long until a backend is asked again that is too old.
	unsupportedWait = time.Minute
	// maxRefusedWait is the longest until a credential that is refused is shown again.
	maxRefusedWait = time.Minute
)

// Reconciler sends the heartbeats of all Connections.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// InUse is the password that a Connection's repository is asked with. Another one is
	// not shown: its first use ends the one before.
	InUse func(connection string) string
	// Guard is put around what sends requests, and refuses those that this process must
	// not send: only the one that holds the Lease may speak. It may be nil.
	Guard func(http.RoundTripper) http.RoundTripper
	// GoneAfter is after how long without a heartbeat another process may work: the
	// duration of the Lease. 0 is for the default.
	GoneAfter time.Duration
	// Changed is told when Standing gives another one.
	Changed func(connection string)
	Now     func() time.Time

	// process names this one.
	process string

	mu    sync.Mutex
	about map[string]*memory
}

// memory is what is known of a Connection. One worker has it at a time; the Reconciler's
// mu guards what others look at, too.
type memory struct {
	standing repository.Standing
	// to is where the last heartbeat went, and heard what its answer said.
	to    recipient
	heard string
	spec  v1alpha1.ConnectionSpec
	close func()
	due   time.Time
	// refusedWait is how long was waited after the last refusal; 0 after an answer.
	refusedWait time.Duration
}

// recipient is a backend, and the credential for it.
type recipient struct {
	backend        *backend.Backend
	user, password string
}

// Standing is what the backend of a Connection said last.
func (r *Reconciler) Standing(connection string) repository.Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.about[connection]; m != nil {
		return m.standing
	}
	return repository.Standing{}
}

// Reconcile sends a heartbeat, if one is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	conn := &v1alpha1.Connection{}
	err := r.Client.Get(ctx, req.NamespacedName, conn)
	if err != nil || !conn.DeletionTimestamp.IsZero() {
		r.forget(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if conn.Spec.BackendURL == "" {
		r.set(conn.Name, r.of(conn.Name), repository.Standing{Alone: true})
		return ctrl.Result{}, nil
	}
	secret := &corev1.Secret{}
	ref := conn.Spec.SecretRef
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	user, password := string(secret.Data[corev1.BasicAuthUsernameKey]), r.InUse(conn.Name)
	if user == "" || password == "" {
		return ctrl.Result{RequeueAfter: openingPoll}, nil
	}
	m := r.of(conn.Name)
	to := recipient{m.to.backend, user, password}
	if to.backend == nil || !equality.Semantic.DeepEqual(m.spec, conn.Spec) {
		b, done, err := backend.Of(conn, r.Guard)
		if err != nil {
			return ctrl.Result{}, nil // its condition Ready says so
		}
		m.end()
		to.backend, m.spec, m.close = b, *conn.Spec.DeepCopy(), done
	}
	if left := m.due.Sub(r.Now()); left > 0 && m.to == to {
		return r.lookAgain(left), nil
	}
	r.mu.Lock()
	m.to = to
	r.mu.Unlock()
	wait := r.beat(ctx, conn, m)
	m.due = r.Now().Add(wait)
	return r.lookAgain(wait), nil
}

// lookAgain is sooner than the next heartbeat where that is far: nothing tells that another
// password is in use, which is shown at once.
func (r *Reconciler) lookAgain(left time.Duration) ctrl.Result {
	return ctrl.Result{RequeueAfter: min(left, r.interval())}
}

func (m *memory) end() {
	if m.close != nil {
		m.close()
	}
}

// beat sends a heartbeat, and gives when the next one is due.
func (r *Reconciler) beat(ctx context.Context, conn *v1alpha1.Connection, m *memory) time.Duration {
	before := m.standing
	settled := before.Alone || before.Copied != ""
	answer, err := r.send(ctx, m.to, restapi.Heartbeat{Heard: m.heard}, r.interval())
	switch {
	case err == nil:
		m.heard, m.refusedWait = answer.Heard, 0
		// Who was confirmed stays so: the backend forgets when it is started again.
		now := repository.Standing{Alone: before.Alone || answer.Alone}
		if answer.Copied {
			now.Copied = wordsOfCopy(conn)
		}
		r.set(conn.Name, m, now)
		settled = answer.Alone || answer.Copied
	case errors.Is(err, backend.ErrUnsupported):
		r.set(conn.Name, m, repository.Standing{Alone: true})
		return unsupportedWait
	case errors.Is(err, backend.ErrRefused):
		if before.Copied != "" {
			r.set(conn.Name, m, repository.Standing{Copied: wordsOfLoss(conn)})
		}
		m.refusedWait = max(min(2*m.refusedWait, maxRefusedWait), r.interval())
		return m.refusedWait
	default:
		logr.FromContextOrDiscard(ctx).V(1).Info("heartbeat not answered", "connection", conn.Name, "error", err.Error())
	}
	if settled {
		return r.interval()
	}
	// Removals wait for it, here or in another process.
	return r.goneAfter() / 15
}

func (r *Reconciler) send(ctx context.Context, to recipient, beat restapi.Heartbeat, timeout time.Duration) (restapi.HeartbeatAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	beat.Process, beat.GoneAfter.Duration = r.process, r.goneAfter()
	var answer restapi.HeartbeatAnswer
	err := to.backend.Ask(ctx, http.MethodPut, "heartbeat", to.user, to.password, beat, &answer)
	return answer, err
}

func (r *Reconciler) goneAfter() time.Duration {
	if r.GoneAfter > 0 {
		return r.GoneAfter
	}
	return defaultGoneAfter
}

// interval is between two heartbeats: two may be lost.
func (r *Reconciler) interval() time.Duration { return r.goneAfter() / 3 }

// wordsOfCopy is what a Connection and its claims say while two copies are live.
func wordsOfCopy(conn *v1alpha1.Connection) string {
	return fmt.Sprintf("Two live copies of this cluster use one credential, as when an etcd snapshot of it was started beside it: neither commits or deletes anything. Decide in the one that is to go on: kubectl gitbind connect %s --reclaim %s ends the other one's credential. The other one is to be torn down.",
		conn.Spec.BackendURL, conn.Spec.ClusterID)
}

// wordsOfLoss is what the one says that does not go on.
func wordsOfLoss(conn *v1alpha1.Connection) string {
	return fmt.Sprintf("This cluster was one of two live copies, and the credential here has ended since: the other one goes on. Nothing is committed or deleted here any more. Tear this one down; or, if it is to go on after all: kubectl gitbind connect %s --reclaim %s.",
		conn.Spec.BackendURL, conn.Spec.ClusterID)
}

// set keeps a standing, and tells of it if it is another one.
func (r *Reconciler) set(connection string, m *memory, now repository.Standing) {
	r.mu.Lock()
	changed := m.standing != now
	m.standing = now
	r.mu.Unlock()
	if changed {
		r.Changed(connection)
	}
}

func (r *Reconciler) of(connection string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.about == nil {
		r.about, r.process = map[string]*memory{}, rand.Text()
	}
	if r.about[connection] == nil {
		r.about[connection] = &memory{}
	}
	return r.about[connection]
}

func (r *Reconciler) forget(connection string) {
	r.mu.Lock()
	m := r.about[connection]
	delete(r.about, connection)
	r.mu.Unlock()
	if m != nil {
		m.end()
	}
}
