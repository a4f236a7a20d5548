// Package connection opens the repository of each Connection, and says on the
// Connection whether it can be used, which commit of main was accepted, and
// which files the control plane refuses. It touches no claim.
package connection

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=connections,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=connections/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=get;list;watch

// saveInterval is how often the accepted commit is written when nothing else
// is to be written. What depends on it saves it at once.
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
	Now   func() time.Time

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
	if repo != nil && repo.Health().Replaced != "" {
		if err := repo.Reconsider(ctx, func(ctx context.Context) (store.Hash, error) { return r.savedCommit(ctx, conn) }); err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.report(ctx, conn, repo, problem)
}

// problem is what a person must change before the repository can be used.
type problem struct{ reason, message string }

// open makes sure that the repository is open with the credential as it is now.
func (r *Reconciler) open(ctx context.Context, conn *v1alpha1.Connection) (*problem, error) {
	cred, p, err := r.credential(ctx, conn)
	if err != nil {
		return nil, err
	}
	if p != nil {
		if repo := r.Pool.Get(conn.Name); repo != nil {
			repo.Suspend()
		}
		return p, nil
	}
	return r.connected.ensure(ctx, r, conn, *cred)
}

func (r *Reconciler) close(name string) {
	r.connected.forget(name)
	r.Pool.Close(name)
}

// savedCommit reads what is saved, from the API server: an older value from a
// cache would look as if a person had set it.
func (r *Reconciler) savedCommit(ctx context.Context, conn *v1alpha1.Connection) (store.Hash, error) {
	live := &v1alpha1.Connection{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(conn), live); err != nil {
		return "", fmt.Errorf("get connection %s: %w", conn.Name, err)
	}
	return store.Hash(live.Status.AcceptedCommit), nil
}

// save writes the accepted commit.
func (r *Reconciler) save(ctx context.Context, name string, uid types.UID, commit store.Hash) error {
	for {
		live := &v1alpha1.Connection{}
		if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, live); err != nil {
			return client.IgnoreNotFound(err)
		}
		if live.UID != uid || live.Status.AcceptedCommit == string(commit) {
			return nil
		}
		live.Status.AcceptedCommit = string(commit)
		if err := r.Client.Status().Update(ctx, live); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// report writes the status, if it says anything new.
func (r *Reconciler) report(ctx context.Context, conn *v1alpha1.Connection, repo *repository.Repository, p *problem) (ctrl.Result, error) {
	want := conn.DeepCopy()
	var accepted store.Hash
	var unsaved bool
	if p == nil && connecting(repo) && meta.IsStatusConditionTrue(conn.Status.Conditions, v1alpha1.ConditionReady) {
		// It was ready when the process before this one ended: no news yet.
		return ctrl.Result{}, nil
	}
	if repo != nil {
		var saved store.Hash
		accepted, saved = repo.Accepted()
		unsaved = accepted != saved && repo.Health().Replaced == ""
		if repo.Health().Contacted {
			want.Status.RefusedFiles, want.Status.Refused = repo.Refused()
		}
	}
	setCondition(want, ready(repo, p))
	setCondition(want, events(conn, repo, p))

	changed := !equality.Semantic.DeepEqual(conn.Status, want.Status)
	if unsaved && !changed {
		if wait := r.connected.untilSave(conn, r.Now()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if !unsaved && !changed {
		return ctrl.Result{}, nil
	}
	if unsaved {
		want.Status.AcceptedCommit = string(accepted)
	}
	if err := r.Client.Status().Update(ctx, want); err != nil {
		if apierrors.IsConflict(err) {
			// The cache is behind: its next event comes here again.
			return ctrl.Result{RequeueAfter: time.Second}, nil
		}
		return ctrl.Result{}, fmt.Errorf("update status: %w", err)
	}
	if unsaved {
		repo.Saved(accepted)
		r.connected.savedAt(conn, r.Now())
	}
	return ctrl.Result{}, nil
}

func setCondition(conn *v1alpha1.Connection, c metav1.Condition) {
	c.ObservedGeneration = conn.Generation
	meta.SetStatusCondition(&conn.Status.Conditions, c)
}

// credential reads the Secret.
func (r *Reconciler) credential(ctx context.Context, conn *v1alpha1.Connection) (*credential, *problem, error) {
	ref := conn.Spec.SecretRef
	if ref.Namespace != r.Namespace {
		return nil, &problem{"SecretInvalid", fmt.Sprintf("spec.secretRef.namespace is %s: the konnector reads Secrets in namespace %s only.", ref.Namespace, r.Namespace)}, nil
	}
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &problem{repository.ReasonNoCredential, fmt.Sprintf("Secret %s/%s with the credential for the repository does not exist. Create it, or connect this cluster again (kubectl gitbind connect).", ref.Namespace, ref.Name)}, nil
		}
		return nil, nil, fmt.Errorf("get secret: %w", err)
	}
	c := credential{user: string(secret.Data["username"]), password: string(secret.Data["password"])}
	if c.user == "" || c.password == "" {
		return nil, &problem{"SecretInvalid", fmt.Sprintf("Secret %s/%s lacks the key username or password. Connect this cluster again (kubectl gitbind connect).", ref.Namespace, ref.Name)}, nil
	}
	return &c, nil, nil
}
