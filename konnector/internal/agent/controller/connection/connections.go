package connection

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/konnector/internal/agent/repository"
)

// connections remember how each repository was opened.
type connections struct {
	mu   sync.Mutex
	open map[string]*connected
}

type connected struct {
	uid  types.UID
	spec v1alpha1.ConnectionSpec
	// signingKey is the one with which commits are signed; "" if they are not.
	signingKey signing.Key
	credential atomic.Pointer[credential]
	saved      time.Time
}

// ensure opens the repository, or opens it again if another one is meant now or commits are to be
// signed in another way, and lets it use a credential.
func (c *connections) ensure(ctx context.Context, r *Reconciler, conn *v1alpha1.Connection, cred credential, signer *signing.Signer) (*problem, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	repo := r.Pool.Get(conn.Name)
	before := c.open[conn.Name]
	if repo != nil && before != nil && before.uid == conn.UID && equality.Semantic.DeepEqual(before.spec, conn.Spec) && before.signingKey == signer.Key() {
		before.use(&cred, repo)
		return nil, nil
	}

	if repo != nil {
		// Those who still have it must not act any more, nor save what the next one would not know.
		repo.Suspend()
		if err := repo.Checkpoints.Close(ctx); err != nil {
			return nil, err
		}
		r.Pool.Close(conn.Name)
		delete(c.open, conn.Name)
	}
	checkpoint, err := r.saved(ctx, conn)
	if err != nil {
		return nil, err
	}
	now := &connected{uid: conn.UID, spec: *conn.Spec.DeepCopy(), signingKey: signer.Key()}
	now.credential.Store(&cred)
	git := repository.GitCredentials{
		Basic: func(context.Context) (string, string, error) {
			cred := now.credential.Load()
			if cred.gitPassword == "" {
				return "", "", repository.ErrOfAnotherHost
			}
			return cred.gitUser, cred.gitPassword, nil
		},
		SSH: func(context.Context) ([]byte, []byte, error) {
			cred := now.credential.Load()
			return []byte(cred.privateKey), []byte(cred.knownHosts), nil
		},
	}
	backend := func(context.Context) (string, string, error) {
		cred := now.credential.Load()
		return cred.user, cred.password, nil
	}
	remote, err := repository.Connect(conn.Spec, git, backend, signer, r.Guard, r.Metrics.Repository(conn.Spec.ClusterID), r.Now)
	if err != nil {
		return &problem{"InvalidSpec", "The repository cannot be opened: " + err.Error()}, nil
	}
	if conn.Spec.BackendURL != "" {
		remote.Verdict = r.verdict(conn.DeepCopy(), backend)
	}
	if c.open == nil {
		c.open = map[string]*connected{}
	}
	c.open[conn.Name] = now
	name, uid := conn.Name, conn.UID
	r.Pool.Open(ctx, repository.Options{
		Remote: remote, Connection: name, ConnectionUID: uid, ClusterID: conn.Spec.ClusterID,
		Namespaces: conn.Spec.Namespaces, Limits: breaker.LimitsOf(conn.Spec.Removals), Checkpoint: checkpoint, Now: r.Now,
		Save:            func(ctx context.Context, c repository.Checkpoint) error { return r.save(ctx, name, uid, c) },
		OnUnknownSigner: func() { r.UnknownSigner(name) },
		Standing:        func() repository.Standing { return r.Standing(name) },
	})
	return nil, nil
}

// password is the one that a repository is asked with; "" for none.
func (c *connections) password(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.open[name]; o != nil {
		return o.credential.Load().password
	}
	return ""
}

// signingKey is the one with which commits of a Connection are signed; "" if they are not.
func (c *connections) signingKey(name string) signing.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.open[name]; o != nil {
		return o.signingKey
	}
	return ""
}

func (c *connections) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, name)
}

// untilSave is how long to wait before a checkpoint is saved for its own
// sake. The first one is saved at once.
func (c *connections) untilSave(conn *v1alpha1.Connection, now time.Time) time.Duration {
	if conn.Status.AcceptedCommit == "" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.open[conn.Name]
	if o == nil {
		return 0
	}
	if o.saved.IsZero() {
		// Since the process began.
		o.saved = now
	}
	return o.saved.Add(saveInterval).Sub(now)
}

func (c *connections) savedAt(conn *v1alpha1.Connection, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.open[conn.Name]; o != nil {
		o.saved = now
	}
}
