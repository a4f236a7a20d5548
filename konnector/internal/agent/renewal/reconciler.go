// Package renewal keeps the credential of each Connection good: it has the
// backend renew it while it counts, and says on the Connection until when it
// does. A new one is in the Secret before it is used, and the one before it stays
// there until the backend has taken the new one, so that a crash, a lost answer
// or a second renewal at the same time leaves one that counts.
//
// It opens no repository and writes to no Secret but those that Connections
// name. What is in the Secret then, also by a rotation, package
// controller/connection takes up.
package renewal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/konnector/internal/agent/backend"
	"gitbind.dev/konnector/internal/agent/repository"
)

// +kubebuilder:rbac:groups=gitbind.dev,resources=connections,verbs=get;list;watch
// +kubebuilder:rbac:groups=gitbind.dev,resources=connections/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",namespace=gitbind-system,resources=secrets,verbs=get;list;watch
//
// To update a Connection's Secret is in the Role that connecting makes for it.

// Reconciler renews the credentials of all Connections.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Namespace is where the Secrets of Connections lie.
	Namespace string
	// InUse is the password that a Connection's repository is asked with.
	InUse func(connection string) string
	// Guard, if not nil, is put around what sends requests, and refuses those
	// that this process must not send.
	Guard func(http.RoundTripper) http.RoundTripper
	Now   func() time.Time

	mu    sync.Mutex
	about map[string]*memory
}

// memory is what is known of a Connection's credential. One worker has it at a
// time.
type memory struct {
	known               known
	renewed, renewedGit time.Time
	failures            int
	failed              step
	// trouble is the last failure, with which password, and until when to leave
	// it at that.
	trouble      error
	withPassword string
	until        time.Time
}

// Reconcile does the next step for one Connection.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	conn := &v1alpha1.Connection{}
	err := r.Client.Get(ctx, req.NamespacedName, conn)
	if err != nil || !conn.DeletionTimestamp.IsZero() {
		r.forget(req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if conn.Spec.BackendURL == "" {
		return ctrl.Result{}, r.report(ctx, conn, notRenewed(conn), nil)
	}
	secret := &corev1.Secret{}
	ref := conn.Spec.SecretRef
	if ref.Namespace != r.Namespace {
		return ctrl.Result{}, nil // its condition Ready says so
	}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	m, k := r.of(conn), read(secret)
	if k.user == "" || k.password == "" {
		return ctrl.Result{}, nil
	}
	at, err := r.step(ctx, conn, secret, k, m)
	if admission.Stale(err) {
		// The cache is behind: its next event comes here again.
		return ctrl.Result{RequeueAfter: pollInterval}, nil
	}
	if err != nil {
		m.withPassword = k.password
		at = r.failed(ctx, conn, k, m, err)
	}
	if err := r.report(ctx, conn, condition(conn, k, m.known, m.trouble, r.Now()), m.known.counts(k)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(at.Sub(r.Now()), pollInterval)}, nil
}

// step does what is next, and gives when to look again.
func (r *Reconciler) step(ctx context.Context, conn *v1alpha1.Connection, secret *corev1.Secret, k kept, m *memory) (time.Time, error) {
	now := r.Now()
	if m.trouble != nil && m.withPassword == k.password && now.Before(m.until) {
		return m.until, nil
	}
	f := facts{now: now, kept: k, known: m.known, inUse: r.InUse(conn.Name), refused: refused(conn, now), renewed: m.renewed, renewedGit: m.renewedGit, failed: m.failed, seed: conn.Spec.ClusterID}
	what, at := next(f)
	if what == wait {
		return at, nil
	}
	b, done, err := backend.Of(conn, r.Guard)
	if err != nil {
		return at, err
	}
	defer done()
	switch what {
	case look:
		err = r.look(ctx, b, k, m)
	case confirm:
		err = r.confirm(ctx, b, secret, k, m)
	case renew:
		err = r.renew(ctx, b, conn, secret, k)
	case renewGit:
		err = r.renewGit(ctx, b, secret, &k, m)
		if errors.Is(err, backend.ErrUnsupported) && conn.IsOnBackend() {
			// What a host that was left had given is dropped with a renewal of the rest.
			err = r.renew(ctx, b, conn, secret, k)
		}
	}
	if err != nil {
		m.failed = what
		return at, err
	}
	m.failures, m.failed, m.trouble = 0, wait, nil
	f.known, f.renewed, f.renewedGit, f.failed, f.kept = m.known, m.renewed, m.renewedGit, m.failed, k
	_, at = next(f)
	return at, nil
}

// look asks the backend about the password.
func (r *Reconciler) look(ctx context.Context, b *backend.Backend, k kept, m *memory) error {
	c, err := ask(ctx, b, http.MethodGet, k.user, k.password)
	if err != nil && !errors.Is(err, backend.ErrRefused) {
		return fmt.Errorf("ask about the credential: %w", err)
	}
	m.known = known{password: k.password, expires: c.Expires, renewAfter: c.RenewAfter, dead: err != nil, at: r.Now()}
	return nil
}

// renew has the next password in the Secret before it is used.
func (r *Reconciler) renew(ctx context.Context, b *backend.Backend, conn *v1alpha1.Connection, secret *corev1.Secret, k kept) error {
	// What may not be written need not be asked for.
	if err := r.Client.Update(ctx, secret.DeepCopy(), client.DryRunAll); err != nil {
		return err
	}
	c, err := ask(ctx, b, http.MethodPost, k.user, k.password)
	if err == nil && (c.Username == "" || c.Password == "") {
		err = backend.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("renew the credential: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("credential renewed", "expires", c.Expires)
	next := kept{user: c.Username, password: c.Password, expires: c.Expires, previous: k.password, git: restapi.GitCredential{RepositoryURL: c.RepositoryURL}, previousGit: k.git}
	switch {
	case c.Git != nil:
		next.git = *c.Git
	case !conn.IsOnBackend():
		// The Connection names a host that was left: that one is not shown what opens the backend.
		next.git = k.git
	}
	return r.write(ctx, secret, next)
}

// renewGit has another credential of the Git host in the place of the one before, which the
// host ends by itself.
func (r *Reconciler) renewGit(ctx context.Context, b *backend.Backend, secret *corev1.Secret, k *kept, m *memory) error {
	if err := r.Client.Update(ctx, secret.DeepCopy(), client.DryRunAll); err != nil {
		return err
	}
	var git restapi.GitCredential
	err := b.Ask(ctx, http.MethodPost, "credential/git", k.user, k.password, nil, &git)
	if err == nil && git.Password == "" {
		err = backend.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("renew the credential of the Git host: %w", err)
	}
	logr.FromContextOrDiscard(ctx).Info("credential of the Git host renewed", "expires", git.Expires)
	k.git = git
	if err := r.write(ctx, secret, *k); err != nil {
		return err
	}
	// What is refused is the one before, until the new one is written.
	m.renewedGit = r.Now()
	return nil
}

// confirm uses the new password for the first time, which ends the one before.
func (r *Reconciler) confirm(ctx context.Context, b *backend.Backend, secret *corev1.Secret, k kept, m *memory) error {
	if err := r.look(ctx, b, k, m); err != nil {
		return err
	}
	if !m.known.dead {
		m.renewed = r.Now()
		k.previous, k.previousGit = "", restapi.GitCredential{}
		return r.write(ctx, secret, k)
	}
	// Another renewal was the last one: this password never counted.
	c, err := ask(ctx, b, http.MethodGet, k.user, k.previous)
	switch {
	case err == nil:
		return r.write(ctx, secret, kept{user: k.user, password: k.previous, expires: c.Expires, git: k.previousGit})
	case !errors.Is(err, backend.ErrRefused):
		return fmt.Errorf("ask about the credential before: %w", err)
	}
	k.previous, k.previousGit = "", restapi.GitCredential{}
	return r.write(ctx, secret, k)
}

// ask asks until when a credential counts, which is also a use of it, or with POST for
// the next one. The present one counts until that is used.
func ask(ctx context.Context, b *backend.Backend, method, user, password string) (restapi.Credential, error) {
	var out restapi.Credential
	err := b.Ask(ctx, method, "credential", user, password, nil, &out)
	if err == nil && out.Expires.IsZero() {
		err = backend.ErrUnsupported
	}
	return out, err
}

func read(secret *corev1.Secret) kept {
	text := func(key string) string { return string(secret.Data[key]) }
	at := func(key string) time.Time {
		t, _ := time.Parse(time.RFC3339, text(key))
		return t
	}
	k := kept{
		user: text(corev1.BasicAuthUsernameKey), password: text(corev1.BasicAuthPasswordKey), expires: at(v1alpha1.ExpiresKey), previous: text(v1alpha1.PreviousPasswordKey),
		git: restapi.GitCredential{
			Username: text(v1alpha1.GitUsernameKey), Password: text(v1alpha1.GitPasswordKey), Expires: at(v1alpha1.GitExpiresKey), RenewAfter: at(v1alpha1.GitRenewAfterKey),
			RepositoryURL: text(v1alpha1.RepositoryURLKey),
		},
		previousGit: restapi.GitCredential{
			Username: text(v1alpha1.PreviousGitUsernameKey), Password: text(v1alpha1.PreviousGitPasswordKey), Expires: at(v1alpha1.PreviousGitExpiresKey), RenewAfter: at(v1alpha1.PreviousGitRenewAfterKey),
			RepositoryURL: text(v1alpha1.PreviousRepositoryURLKey),
		},
	}
	if user, password := v1alpha1.GitCredential(secret.Data); k.git.Username != user || k.git.Password != password {
		// What opens the backend opens the repository, too.
		k.git = restapi.GitCredential{RepositoryURL: k.git.RepositoryURL}
	}
	return k
}

// write replaces what is in the Secret, if it still is as it was read.
func (r *Reconciler) write(ctx context.Context, secret *corev1.Secret, k kept) error {
	s := secret.DeepCopy()
	s.Data[corev1.BasicAuthUsernameKey] = []byte(k.user)
	s.Data[corev1.BasicAuthPasswordKey] = []byte(k.password)
	s.Data[v1alpha1.ExpiresKey] = []byte(k.expires.UTC().Format(time.RFC3339))
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	for key, value := range map[string]string{
		v1alpha1.PreviousPasswordKey: k.previous, v1alpha1.GitUsernameKey: k.git.Username, v1alpha1.GitPasswordKey: k.git.Password,
		v1alpha1.GitExpiresKey: at(k.git.Expires), v1alpha1.GitRenewAfterKey: at(k.git.RenewAfter),
		v1alpha1.PreviousGitUsernameKey: k.previousGit.Username, v1alpha1.PreviousGitPasswordKey: k.previousGit.Password,
		v1alpha1.RepositoryURLKey: k.git.RepositoryURL, v1alpha1.PreviousRepositoryURLKey: k.previousGit.RepositoryURL,
		v1alpha1.PreviousGitExpiresKey: at(k.previousGit.Expires), v1alpha1.PreviousGitRenewAfterKey: at(k.previousGit.RenewAfter),
	} {
		if delete(s.Data, key); value != "" {
			s.Data[key] = []byte(value)
		}
	}
	return r.Client.Update(ctx, s)
}

// refused is since when the repository or the events refuse the credential, by a
// clock that counts seconds; zero when they do not.
func refused(conn *v1alpha1.Connection, now time.Time) (since time.Time) {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionEvents} {
		c := meta.FindStatusCondition(conn.Status.Conditions, kind)
		if c != nil && c.Reason == repository.ReasonCredentialRefused && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	if since.After(now.Add(time.Second)) {
		return time.Unix(0, 0) // by a clock that was ahead
	}
	return since
}

// failed notes a failure, and gives when to try again.
func (r *Reconciler) failed(ctx context.Context, conn *v1alpha1.Connection, k kept, m *memory, err error) time.Time {
	logr.FromContextOrDiscard(ctx).Info("credential trouble", "connection", conn.Name, "error", err.Error())
	m.failures++
	m.trouble = err
	m.until = r.Now().Add(backOff(m.failures, left(k, m.known, r.Now())))
	// A backend that gave what expires renews it as well, and is not there just now.
	if errors.Is(err, backend.ErrUnsupported) && k.git.Expires.IsZero() {
		m.until = r.Now().Add(unsupported)
	}
	return m.until
}

// part is applied beside what the controller of Connections writes, in this very
// process.
var part = status.Part{Owner: "gitbind-konnector-credential", Fields: []string{"credentialExpires"}, Conditions: []string{v1alpha1.ConditionCredential}}

// report writes the condition, and until when the credential counts, if that is anything new.
func (r *Reconciler) report(ctx context.Context, conn *v1alpha1.Connection, c metav1.Condition, expires *metav1.Time) error {
	want := conn.DeepCopy()
	want.Status.CredentialExpires = expires
	status.Set(want, c, r.Now())
	return client.IgnoreNotFound(part.Write(ctx, r.Client, conn, want))
}

func (r *Reconciler) of(conn *v1alpha1.Connection) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.about == nil {
		r.about = map[string]*memory{}
	}
	if r.about[conn.Name] == nil {
		r.about[conn.Name] = &memory{}
	}
	return r.about[conn.Name]
}

func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.about, name)
}
