// Package connection opens the repository of each Connection, passes on what a
// person approves there, and says on the Connection whether it can be used, what
// must be remembered of it, which files the control plane refuses, and how many
// removals wait for an approval. It touches no claim.
package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/konnector/internal/agent/metrics"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=connections,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=connections/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=get;list;watch

// saveInterval is how often a checkpoint is written when nothing else is to be
// written. What depends on it saves it at once.
const saveInterval = time.Minute

// Reconciler keeps the repositories of all Connections open.
type Reconciler struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Pool   *repository.Pool
	// Namespace is where the Secrets of Connections lie.
	Namespace string
	// Guard, if not nil, is put around what sends requests to Git, and refuses
	// those that this process must not send.
	Guard func(http.RoundTripper) http.RoundTripper
	// UnknownSigner is told of Connections on whose branch status something is signed
	// with a key that is not known. It must not block.
	UnknownSigner func(connection string)
	// Standing is what is known of other processes of a Connection's cluster.
	Standing func(connection string) repository.Standing
	// Metrics may be nil.
	Metrics *metrics.Konnector
	Now     func() time.Time

	connected connections
}

// Reconcile opens, suspends or closes a repository, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	conn := &v1alpha1.Connection{}
	if err := r.Client.Get(ctx, req.NamespacedName, conn); err != nil {
		if !apierrors.IsNotFound(err) {
			return ctrl.Result{}, fmt.Errorf("get connection: %w", err)
		}
		r.close(req.Name)
		return ctrl.Result{}, nil
	}
	if !conn.DeletionTimestamp.IsZero() {
		r.close(req.Name)
		return ctrl.Result{}, nil
	}

	problem, err := r.open(ctx, conn)
	if err != nil {
		return ctrl.Result{}, err
	}
	repo := r.Pool.Get(conn.Name)
	tracked, err := r.tracked(ctx, conn, repo)
	if err != nil {
		return ctrl.Result{}, err
	}
	undecided := r.approvals(ctx, conn, repo, tracked)
	// What does not work is said also where an approval waits for it to work.
	result, err := r.report(ctx, conn, look{repo: repo, problem: problem, tracked: tracked})
	if undecided != nil {
		return ctrl.Result{}, errors.Join(undecided, err)
	}
	return result, err
}

// InUse is the password that a Connection's repository is asked with; "" for
// none.
func (r *Reconciler) InUse(connection string) string { return r.connected.password(connection) }

// problem is what a person must change before the repository can be used.
type problem struct{ reason, message string }

// open makes sure that the repository is open with the credential and the signing key as they
// are now.
func (r *Reconciler) open(ctx context.Context, conn *v1alpha1.Connection) (*problem, error) {
	cred, p, err := r.credential(ctx, conn)
	var signer *signing.Signer
	if p == nil && err == nil {
		signer, p, err = r.signer(ctx, conn)
	}
	if err != nil {
		return nil, err
	}
	if p != nil {
		if repo := r.Pool.Get(conn.Name); repo != nil {
			repo.Suspend()
		}
		return p, nil
	}
	return r.connected.ensure(ctx, r, conn, *cred, signer)
}

func (r *Reconciler) close(name string) {
	r.connected.forget(name)
	r.Pool.Close(name)
}

// tracked reports whether all that is bound through a Connection is known, so
// that removals can be counted.
func (r *Reconciler) tracked(ctx context.Context, conn *v1alpha1.Connection, repo *repository.Repository) (bool, error) {
	if repo == nil || !repo.Health().Contacted {
		return false, nil
	}
	var all v1alpha1.APIServiceBindingList
	if err := r.Client.List(ctx, &all); err != nil {
		return false, fmt.Errorf("list bindings: %w", err)
	}
	for _, b := range all.Items {
		if b.Spec.Connection == conn.Name && meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady) && !repo.Removals.Tracks(b.Name) {
			return false, nil
		}
	}
	return true, nil
}

// approvals passes on what a person has decided.
func (r *Reconciler) approvals(ctx context.Context, conn *v1alpha1.Connection, repo *repository.Repository, tracked bool) error {
	if repo == nil || !repo.Health().Contacted {
		return nil
	}
	if err := repo.ApproveMain(ctx, conn.Annotations[v1alpha1.ApproveMainAnnotation]); err != nil {
		return fmt.Errorf("approve main: %w", err)
	}
	if !tracked {
		return nil
	}
	if err := repo.Removals.Approve(ctx, conn.Annotations[v1alpha1.ApproveRemovalsAnnotation]); err != nil {
		return fmt.Errorf("approve removals: %w", err)
	}
	return nil
}

// saved reads the checkpoint that was saved last, from the API server.
func (r *Reconciler) saved(ctx context.Context, conn *v1alpha1.Connection) (repository.Checkpoint, error) {
	live := &v1alpha1.Connection{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(conn), live); err != nil {
		return repository.Checkpoint{}, fmt.Errorf("get connection %s: %w", conn.Name, err)
	}
	return readCheckpoint(live.Status), nil
}

// saveTries is how often a checkpoint is tried to be written beside others' writes.
const saveTries = 10

// save writes a checkpoint.
func (r *Reconciler) save(ctx context.Context, name string, uid types.UID, c repository.Checkpoint) error {
	for try := 1; ; try++ {
		live := &v1alpha1.Connection{}
		if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, live); err != nil {
			return client.IgnoreNotFound(err)
		}
		if live.UID != uid {
			return nil
		}
		want := live.DeepCopy()
		writeCheckpoint(&want.Status, c)
		if err := status.Replace(ctx, r.Client, live, want); !admission.Stale(err) || try == saveTries {
			return err
		}
	}
}

// look is what a status is made from.
type look struct {
	repo    *repository.Repository
	problem *problem
	// tracked says that removals can be counted.
	tracked bool
}

// report writes the status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, conn *v1alpha1.Connection, l look) (ctrl.Result, error) {
	want := conn.DeepCopy()
	repo := l.repo
	if l.problem == nil && connecting(repo) && meta.IsStatusConditionTrue(conn.Status.Conditions, v1alpha1.ConditionReady) {
		// It was ready when the process before this one ended: no news yet.
		return ctrl.Result{}, nil
	}
	var checkpoint repository.Checkpoint
	var version int64
	var unsaved bool
	if repo != nil {
		checkpoint, version, unsaved = repo.Checkpoints.Unsaved()
		if repo.Health().Contacted {
			want.Status.RefusedFiles, want.Status.Refused = repo.Refused()
		}
	}
	want.Status.SigningKey = string(r.connected.signingKey(conn.Name))
	status.Set(want, ready(repo, l.problem), r.Now())
	status.Set(want, events(conn, repo, l.problem), r.Now())
	if err := r.reportRequests(ctx, want, repo); err != nil {
		return ctrl.Result{}, err
	}
	result, err := r.reportRemovals(ctx, want, l)
	if err != nil {
		return ctrl.Result{}, err
	}

	changed := !equality.Semantic.DeepEqual(conn.Status, want.Status)
	if unsaved && !changed {
		if wait := r.connected.untilSave(conn, r.Now()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if !unsaved && !changed {
		return result, nil
	}
	if unsaved {
		writeCheckpoint(&want.Status, checkpoint)
	}
	if err := status.Replace(ctx, r.Client, conn, want); err != nil {
		if admission.Stale(err) {
			// The cache is behind: its next event comes here again.
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, fmt.Errorf("update status: %w", err)
	}
	if unsaved {
		repo.Checkpoints.Saved(version)
		r.connected.savedAt(conn, r.Now())
	}
	return result, nil
}

// reportRequests says what main asks for that belongs to others.
func (r *Reconciler) reportRequests(ctx context.Context, want *v1alpha1.Connection, repo *repository.Repository) error {
	if repo == nil || !repo.Health().Contacted {
		return nil
	}
	var all v1alpha1.APIServiceBindingList
	if err := r.Client.List(ctx, &all); err != nil {
		return fmt.Errorf("list bindings: %w", err)
	}
	if c := requests(want, repo.Requests(), all.Items); c != nil {
		status.Set(want, *c, r.Now())
	} else {
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionRequests)
	}
	return nil
}

// recount is how often held removals are counted again.
const recount = 5 * time.Second

// reportRemovals says how many removals are held as too many.
func (r *Reconciler) reportRemovals(ctx context.Context, want *v1alpha1.Connection, l look) (ctrl.Result, error) {
	if l.problem != nil || !l.tracked || l.repo.Health().Replaced != "" {
		// What was said last still holds.
		return ctrl.Result{}, nil
	}
	files, objects, at, err := l.repo.Removals.Held(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("count removals: %w", err)
	}
	status.Set(want, removals(l.repo.Limits, files, objects, at), r.Now())
	if files+objects > 0 {
		// What becomes of an object is not told here, and the cache may lag.
		return ctrl.Result{RequeueAfter: recount}, nil
	}
	return ctrl.Result{}, nil
}

// signer signs commits with the app cluster's key; nil if they are not to be signed.
func (r *Reconciler) signer(ctx context.Context, conn *v1alpha1.Connection) (*signing.Signer, *problem, error) {
	if !conn.Spec.SignCommits {
		return nil, nil, nil
	}
	secret := &corev1.Secret{}
	at := types.NamespacedName{Namespace: r.Namespace, Name: v1alpha1.EncryptionSecret(conn.Name)}
	if err := r.Client.Get(ctx, at, secret); apierrors.IsNotFound(err) {
		return nil, &problem{"NoSigningKey", fmt.Sprintf("Secret %s with the key that commits are to be signed with does not exist yet: the konnector makes it.", at)}, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("get secret: %w", err)
	}
	key, err := encryption.ParseSigningKey(secret.Data[encryption.SigningKeyEntry])
	if err != nil {
		return nil, &problem{"NoSigningKey", fmt.Sprintf("Secret %s has no key to sign commits with in %s: delete it, and the konnector makes another one.", at, encryption.SigningKeyEntry)}, nil
	}
	signer, err := key.Commits()
	return signer, nil, err
}
