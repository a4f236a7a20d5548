package clusterbinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/notify"
)

// follower follows one repository.
type follower struct {
	cluster tenant.Cluster
	url     string
	session *session.Session
	status  *status
	// keys are the app cluster's, to which Secrets were encrypted last, and by which what
	// it sends was checked.
	keys v1alpha1.EncryptionKeys
	// allowed are whose signatures of commits count, as allowedSigners gives them.
	allowed string
	// approved is the approval of main that the session was told of last, "" for none.
	approved string
	// foreign are the claims that were told of as held by foreign objects.
	foreign map[string]bool
	// pushed is what the backend is still to be told of.
	pushed *notify.Announcements
	stop   func()
}

func (f *follower) is(b *v1alpha1.ClusterBinding) bool {
	allowed, err := allowedSigners(b)
	return f.cluster == clusterOf(b) && f.url == b.Status.Repository.URL && f.allowed == allowed && err == nil
}

// reencrypt looks at all claims again when the app cluster has other keys than before.
func (f *follower) reencrypt(b *v1alpha1.ClusterBinding) {
	if now := b.Keys(); !reflect.DeepEqual(now, f.keys) {
		f.keys = now
		f.session.EnqueueAll()
	}
}

func clusterOf(b *v1alpha1.ClusterBinding) tenant.Cluster {
	return tenant.Cluster{ID: b.Name, UID: string(b.UID), Namespace: b.Status.TenantNamespace}
}

// begin starts to follow.
func (r *Reconciler) begin(ctx context.Context, b *v1alpha1.ClusterBinding) (*follower, error) {
	if !v1alpha1.ValidClusterID(b.Name) {
		return nil, fmt.Errorf("%q is no cluster id: lower-case letters and digits, beginning with a letter", b.Name)
	}
	allowed, err := allowedSigners(b)
	if err != nil {
		return nil, err
	}
	signed, err := counts(allowed, r.Now)
	if err != nil {
		return nil, err
	}
	f := &follower{cluster: clusterOf(b), url: b.Status.Repository.URL, status: newStatus(r.Client, r.Server, b, r.Shard), keys: b.Keys(), allowed: allowed, approved: b.Annotations[v1alpha1.ApproveMainAnnotation]}
	f.pushed = notify.AnnouncementsFor(r.BackendURL, f.url)
	repository, err := r.open(ctx, f)
	if err != nil {
		return nil, err
	}
	claims, err := r.Claims(f.cluster)
	if err != nil {
		return nil, err
	}
	log := ctrl.LoggerFrom(r.base).WithName("follow").WithValues("cluster", f.cluster.ID)
	f.session = session.New(session.Options{
		Cluster: f.cluster, Main: repository.Branch("main"), Status: repository.Branch("status"),
		Checkpoint: f.status.checkpoint, Approved: store.Hash(f.approved),
		Suspended: session.SuspendedBy(b), Limits: breaker.LimitsOf(b.Spec.Removals), Counts: signed,
		Save: func(ctx context.Context, c session.Checkpoint) error {
			err := f.status.save(ctx, c)
			if errors.Is(err, errSuperseded) {
				// Begin with what was saved.
				r.changed(b.Name)
			}
			return err
		},
		Enqueue:        claims.Enqueue,
		OnControlPlane: claims.OnControlPlane,
		CountQuota:     claims.CountQuota,
		DryRun:         claims.DryRun,
		Began:          func() { r.Began(f.session) },
		Changed:        func() { r.changed(b.Name) },
		Log:            log,
		Now:            r.Now,
	})
	f.session.Status.SetHistory(cmp.Or(r.History, statusbranch.History))
	r.run(f, claims, log)
	return f, nil
}

// open opens the repository of a follower.
func (r *Reconciler) open(ctx context.Context, f *follower) (*gitstore.Repository, error) {
	var signer *signing.Signer
	if r.CommitSigner != nil {
		var err error
		if signer, err = r.CommitSigner(ctx); err != nil {
			return nil, err
		}
	}
	ofRepository := func(data map[string][]byte) (user, password string) { return v1alpha1.GitCredentialFor(f.url, data) }
	name, email := contract.BridgeIdentity()
	return gitstore.Open(gitstore.Options{
		URL: f.url, Credentials: r.credentials(f.cluster.Namespace, ofRepository), SSH: r.sshCredential(f.cluster.Namespace), RootCAs: r.RootCAs, Committer: store.Signature{Name: name, Email: email},
		Guard: r.Guard, Observer: r.Metrics.Repository(f.cluster.ID), Now: r.Now, TrustHints: notify.FromHost(r.BackendURL, f.url), Pushed: f.pushed.Add,
		Signer: signer, ReadSignatures: f.allowed != "",
	})
}

// run has a follower's parts work until it is stopped, or the process is to end.
func (r *Reconciler) run(f *follower, claims Claims, log logr.Logger) {
	ctx, cancel := context.WithCancel(r.base)
	var wg sync.WaitGroup
	f.stop = func() {
		cancel()
		r.Sessions.Remove(f.session)
		wg.Wait()
	}
	r.Sessions.Add(f.session)
	wakeMain, wakeStatus := make(chan store.Hash, 1), make(chan store.Hash, 1)
	start := func(do func()) {
		r.wait.Add(1)
		wg.Go(func() {
			defer r.wait.Done()
			do()
		})
	}
	start(func() { f.session.Run(ctx, wakeMain, wakeStatus) })
	start(func() {
		if err := claims.Run(ctx, f.session); err != nil {
			log.Error(err, "Claims are not worked on")
		}
	})
	if r.BackendURL != "" {
		start(func() { r.listen(ctx, f, wakeMain, wakeStatus) })
	}
	log.Info("Following", "repository", f.url)
}

// listen wakes a session with the backend's events, until ctx ends.
func (r *Reconciler) listen(ctx context.Context, f *follower, wakeMain, wakeStatus chan store.Hash) {
	notify.Listen(ctx, notify.Options{
		URL: r.BackendURL, ClusterID: f.cluster.ID, Credentials: r.credentials(f.cluster.Namespace, ofBackend), RootCAs: r.RootCAs, Announcements: f.pushed,
		OnEvent: func(ref string, hash store.Hash) {
			switch ref {
			case contract.MainRef:
				store.Tell(wakeMain, hash)
			case contract.StatusRef:
				store.Tell(wakeStatus, hash)
			case "":
				store.Tell(wakeMain, "")
				store.Tell(wakeStatus, "")
			}
		},
		OnError: func(err error) {
			f.session.Listening(err)
			if err != nil {
				// The Git host may be out of reach too: find out.
				store.Tell(wakeMain, "")
			}
		},
	})
}

// ofBackend is what opens the backend, of a Secret's data.
func ofBackend(data map[string][]byte) (user, password string) {
	return string(data["username"]), string(data["password"])
}

// credentials reads the bridge's credential, which is asked for again when it is
// refused: what of gives of a Secret's data.
func (r *Reconciler) credentials(namespace string, of func(map[string][]byte) (user, password string)) func(context.Context) (user, password string, err error) {
	return func(ctx context.Context) (string, string, error) {
		data, err := r.secret(ctx, namespace)
		user, password := of(data)
		if err == nil && (user == "" || password == "") {
			err = session.ErrNoCredential
		}
		return user, password, err
	}
}

// sshCredential reads the bridge's credential for SSH, for each connection.
func (r *Reconciler) sshCredential(namespace string) func(context.Context) (privateKey, knownHosts []byte, err error) {
	return func(ctx context.Context) ([]byte, []byte, error) {
		data, err := r.secret(ctx, namespace)
		privateKey, knownHosts := v1alpha1.SSHCredential(data)
		if err == nil && (len(privateKey) == 0 || len(knownHosts) == 0) {
			err = session.ErrNoCredential
		}
		return privateKey, knownHosts, err
	}
}

// secret reads the bridge's Secret.
func (r *Reconciler) secret(ctx context.Context, namespace string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := r.Server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v1alpha1.BridgeSecret}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, session.ErrNoCredential
	case err != nil:
		return nil, fmt.Errorf("get Secret %s/%s: %w", namespace, v1alpha1.BridgeSecret, err)
	}
	return secret.Data, nil
}
