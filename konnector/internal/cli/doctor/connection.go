package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Links of a connection that others hang on.
const (
	linkSecret     = "secret"
	linkDNS        = "Git host: name"
	linkTCP        = "Git host: TCP"
	linkTLS        = "Git host: TLS"
	linkCredential = "credential"
	linkMain       = "main"
	linkBackend    = "backend"
)

// connection is one Connection that is looked at.
type connection struct {
	*patient
	v1alpha1.Connection

	secret corev1.Secret
	at     *url.URL
	repo   *gitstore.Repository
	main   *store.Snapshot
	issuer string
}

func (c *connection) links() []link {
	return []link{
		{linkSecret, nil, c.lookAtSecret},
		{"renewal", nil, c.renewal},
		{linkDNS, nil, c.dns},
		{linkTCP, []string{linkDNS}, c.tcp},
		{linkTLS, []string{linkTCP}, c.tls},
		{linkCredential, []string{linkSecret, linkTLS}, c.credential},
		{linkMain, []string{linkCredential}, c.readMain},
		{"bridge", []string{linkMain}, c.bridge},
		{linkBackend, nil, c.backend},
		{"issuer", []string{linkBackend}, c.openID},
		{"events", []string{linkBackend, linkCredential}, c.events},
		{"connection", nil, c.condition},
	}
}

// expiryWarning is how long before its end a credential or a certificate is warned of.
const expiryWarning = 14 * 24 * time.Hour

const rotate = "kubectl gitbind rotate"

func (c *connection) lookAtSecret(ctx context.Context) Finding {
	ref, ssh := c.Spec.SecretRef, v1alpha1.IsSSH(c.Spec.RepositoryURL)
	err := c.cluster.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &c.secret)
	switch {
	case apierrors.IsNotFound(err):
		return fail(rotate, "%s in %s is missing", ref.Name, ref.Namespace)
	case err != nil:
		return unread(ref.Name+" in "+ref.Namespace, err)
	case ssh && (len(c.secret.Data[v1alpha1.SSHPrivateKeyKey]) == 0 || len(c.secret.Data[v1alpha1.KnownHostsKey]) == 0):
		return fail("see docs/hosts.md: Over SSH", "%s in %s lacks %s or %s", ref.Name, ref.Namespace, v1alpha1.SSHPrivateKeyKey, v1alpha1.KnownHostsKey)
	case ssh && c.Spec.BackendURL == "":
		return ok("it has a key for SSH")
	case len(c.secret.Data[corev1.BasicAuthUsernameKey]) == 0 || len(c.secret.Data[corev1.BasicAuthPasswordKey]) == 0:
		return fail(rotate, "%s in %s lacks username or password", ref.Name, ref.Namespace)
	}
	until, err := time.Parse(time.RFC3339, string(c.secret.Data[v1alpha1.ExpiresKey]))
	if err != nil {
		return warn(rotate, "it does not say until when its credential is good")
	}
	left := until.Sub(c.Now())
	switch {
	case left <= 0:
		return fail(rotate, "its credential expired %s ago", duration.HumanDuration(-left))
	case left < expiryWarning:
		return warn("if no konnector renews it: "+rotate, "its credential expires in %s", duration.HumanDuration(left))
	}
	return ok("its credential is good for %s", duration.HumanDuration(left))
}

// renewal looks whether the konnector may renew the credential.
func (c *connection) renewal(ctx context.Context) Finding {
	ref := c.Spec.SecretRef
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{ref.Name}, Verbs: []string{"update"}}
	missing, err := c.missing(ctx, ref.Namespace, rule)
	switch {
	case err != nil:
		return unread(othersRights, err)
	case missing != "":
		return warn(reconnect, "the konnector may not %s in %s: the credential will expire", missing, ref.Namespace)
	}
	return ok("the konnector may renew it")
}

// open prepares to read the repository with the konnector's credential.
func (c *connection) open() error {
	if c.repo != nil {
		return nil
	}
	trusting, err := c.trusting()
	if err != nil {
		return err
	}
	c.repo, err = gitstore.Open(gitstore.Options{
		URL: c.Spec.RepositoryURL, Client: trusting.HTTP, Now: c.Now, Stall: linkTimeout,
		Credentials: func(context.Context) (string, string, error) {
			user, password := c.GitCredential(c.secret.Data)
			return user, password, nil
		},
		SSH: func(context.Context) ([]byte, []byte, error) {
			privateKey, knownHosts := v1alpha1.SSHCredential(c.secret.Data)
			return privateKey, knownHosts, nil
		},
	})
	return err
}

// trusting is how to speak with what the Connection names.
func (c *connection) trusting() (*signin.SignIn, error) {
	return (&signin.SignIn{HTTP: c.HTTP}).Trusting(c.Spec.CABundle)
}

func (c *connection) user() string     { return string(c.secret.Data[corev1.BasicAuthUsernameKey]) }
func (c *connection) password() string { return string(c.secret.Data[corev1.BasicAuthPasswordKey]) }

func (c *connection) credential(ctx context.Context) Finding {
	if err := c.open(); err != nil {
		return fail("", "%v", err)
	}
	if _, password := c.GitCredential(c.secret.Data); password == "" && !v1alpha1.IsSSH(c.Spec.RepositoryURL) {
		return fail("kubectl gitbind connect URL", "it is for %s, and the Connection names a repository on another host", c.secret.Data[v1alpha1.RepositoryURLKey])
	}
	var err error
	var ssh *store.SSHError
	c.main, err = c.repo.Branch("main").Fetch(ctx)
	switch {
	case errors.As(err, &ssh):
		return fail("see docs/hosts.md: Over SSH", "%s", ssh.Reason)
	case errors.Is(err, store.ErrUnauthorized):
		return fail(rotate, "the Git host refuses it: it was revoked or rotated")
	case errors.Is(err, store.ErrRepositoryNotFound):
		return fail("kubectl gitbind connect URL", "the Git host has no repository %s, or not for this credential", c.Spec.RepositoryURL)
	case err != nil:
		return fail("ask those who run the Git host", "the repository cannot be read: %v", err)
	}
	return ok("the Git host takes it")
}

func (c *connection) readMain(context.Context) Finding {
	switch head := c.main.Head(); {
	case head == "":
		return fail("see docs/recovery.md: main was emptied or the repository is a new one", "the branch main does not exist")
	case c.Status.AcceptedCommit == "":
		return warn("see the konnector's log", "main is at %.12s, and the konnector has accepted none of it yet", head)
	default:
		return ok("at %.12s, %d files", head, c.main.Files())
	}
}

// late is how long the bridge may take to answer before it is thought to be down.
const late = 2 * time.Minute

// bridge compares what main says with what the bridge has answered.
func (c *connection) bridge(ctx context.Context) Finding {
	const do = "ask those who run the control plane whether gitbridge is at work there; it may also be that the cluster is suspended"
	status, err := c.repo.Branch("status").Fetch(ctx)
	if err != nil {
		return fail("", "the branch status cannot be read: %v", err)
	}
	if status.Head() == "" {
		return fail(do, "it has answered nothing yet: there is no branch status")
	}
	data, err := status.Read(contract.ObservedPath)
	if err != nil {
		return fail(do, "the branch status has no %s: %v", contract.ObservedPath, err)
	}
	observed, err := contract.DecodeObserved(data)
	if err != nil {
		return fail(do, "%v", err)
	}
	if observed.Commit == string(c.main.Head()) {
		return ok("it has answered all of main")
	}
	waiting, descends, err := c.repo.Branch("main").Log(ctx, store.Hash(observed.Commit), c.main.Head())
	if err != nil || !descends || len(waiting) == 0 {
		return warn("kubectl gitbind approve shows whether main waits for an approval", "it answers %.12s, which main does not continue", observed.Commit)
	}
	since := c.Now().Sub(waiting[len(waiting)-1].Time)
	text := fmt.Sprintf("%d commits of main wait for its answer, the first for %s", len(waiting), duration.HumanDuration(max(since, 0)))
	if since > late {
		return fail(do, "%s", text)
	}
	return ok("at work: %s", text)
}

// condition is what the konnector says of it all.
func (c *connection) condition(context.Context) Finding {
	ready := appcluster.Current(c.Status.Conditions, v1alpha1.ConditionReady, c.Generation)
	switch {
	case ready == nil:
		return fail("see the konnector's log", "no konnector has looked at it as it is now")
	case ready.Status != "True":
		return fail("", "the konnector says: %s", appcluster.Say(*ready))
	}
	removals := appcluster.Current(c.Status.Conditions, v1alpha1.ConditionRemovals, c.Generation)
	if removals != nil && removals.Status == "False" {
		return warn("kubectl gitbind approve", "%s", appcluster.Say(*removals))
	}
	if c.Status.RefusedFiles > 0 {
		return warn("kubectl gitbind get", "the control plane refused %d files of main", c.Status.RefusedFiles)
	}
	return ok("the konnector follows the repository")
}
