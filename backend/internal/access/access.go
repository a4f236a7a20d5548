// Package access decides who may reach a cluster's repository and its events:
// the cluster's konnector and the bridge with their tokens, and with an ID token the
// cluster's owner and those with whom the repository is shared. It hands out no credential, and it does not tell a
// cluster that does not exist from one that is somebody else's.
package access

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Verifier proves an identity from a raw ID token, or refuses.
type Verifier interface {
	Verify(ctx context.Context, rawIDToken string) (login.Identity, error)
}

// Authenticator lets callers in.
//
// Tokens are compared with what caches hold, so that a push costs no request to
// the API server and agents go on while it is away. A token is refused only
// after the API server itself was asked: a cache may not have heard yet of a
// credential that was issued a moment ago. Strangers can make it ask so often and
// no more (live.go).
type Authenticator struct {
	// Clusters reads ClusterBindings.
	Clusters client.Reader
	// Konnector and Bridge are caches of the Secrets of that name.
	Konnector, Bridge client.Reader
	// Live reads Secrets and ClusterBindings from the API server.
	Live  client.Reader
	Login Verifier
	// Reviews makes SubjectAccessReviews; nil means that owners share with nobody.
	Reviews client.Writer
	// Keys is told that a renewed credential was used for the first time.
	Keys Promoter
	Log  *slog.Logger
	Now  func() time.Time

	// seen has, by cluster, when its konnector was let in last.
	seen sync.Map
	// ended has the hashes of tokens that count no longer, whatever a cache says,
	// and since when.
	ended      sync.Map
	underway   underway
	promotions promotions
	asking     Asking
	readsOnce  sync.Once
	liveReads  *liveReads
}

// Promoter ends the credential before the one with this hash, and reports
// whether that one counts.
type Promoter interface {
	Promote(ctx context.Context, cluster, hash string) (bool, error)
}

// KonnectorSeen is when a cluster's konnector showed its credential last, since
// this process began; zero when it has not. A konnector that runs does so each
// minute or more often.
func (a *Authenticator) KonnectorSeen(cluster string) time.Time {
	at, _ := a.seen.Load(cluster)
	t, _ := at.(time.Time)
	return t
}

// lookupTimeout bounds each search for a credential or a cluster.
const lookupTimeout = 5 * time.Second

// within gets an object, in time: a cache that has never been filled would wait
// for ever.
func within(ctx context.Context, r client.Reader, key client.ObjectKey, o client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return r.Get(ctx, key, o)
}

// errWho is for everybody who is not let in. It does not say what is wrong with a
// token that nobody issued.
func errWho() error {
	return refusal.New(refusal.Unauthenticated, "the credential does not count here: agents use the one that they were given, people an ID token as the password")
}

func errNoCluster() error {
	return refusal.New(refusal.NotFound, "no such cluster, or it is not yours")
}

// Authenticate tells who makes a request about one cluster: by HTTP basic with
// a token or an ID token, or by an ID token as bearer token.
func (a *Authenticator) Authenticate(r *http.Request, cluster string) (Caller, error) {
	ctx := r.Context()
	if raw, ok := BearerToken(r); ok {
		return a.person(ctx, cluster, raw)
	}
	username, password, ok := r.BasicAuth()
	if !ok || password == "" {
		return Caller{}, refusal.New(refusal.Unauthenticated, "a credential is needed: agents use the one that they were given, people an ID token as the password")
	}
	switch username {
	case credential.KonnectorUser:
		who, err := a.agent(ctx, cluster, password, Konnector)
		if err == nil {
			a.seen.Store(cluster, a.Now())
		}
		return who, err
	case credential.BridgeUser:
		return a.agent(ctx, cluster, password, Bridge)
	}
	return a.person(ctx, cluster, password)
}

// BearerToken takes the bearer token from a request.
func BearerToken(r *http.Request) (token string, ok bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// grant is what a Secret says of a token that counts.
type grant struct {
	// expires is zero for one that does not.
	expires time.Time
	// next says that it was renewed, and not used before.
	next bool
}

// judge tells whether a token, by its hash, is the one that a Secret is about.
type judge func(s *corev1.Secret, hash string) (grant, error)

func (a *Authenticator) judgeKonnector(s *corev1.Secret, hash string) (grant, error) {
	switch verdict, expires := credential.ReadRecord(s.Data).Judge(hash, a.Now()); verdict {
	case credential.Current, credential.Next:
		return grant{expires: expires, next: verdict == credential.Next}, nil
	case credential.Expired:
		return grant{}, refusal.New(refusal.Unauthenticated, "the credential has expired: connect the cluster again with kubectl gitbind connect")
	}
	return grant{}, errWho()
}

func (a *Authenticator) judgeBridge(s *corev1.Secret, hash string) (grant, error) {
	if expires, ok := credential.ReadBridge(s.Data).Judge(hash, a.Now()); ok {
		return grant{expires: expires}, nil
	}
	return grant{}, errWho()
}

// prefixes are those of the agents' tokens.
var prefixes = map[Role]string{Konnector: credential.KonnectorPrefix, Bridge: credential.BridgePrefix}

// agentOf is where the credential of an agent is kept, and how it is judged.
func (a *Authenticator) agentOf(role Role) (secret string, cache client.Reader, is judge) {
	if role == Konnector {
		return v1alpha1.KonnectorSecret, a.Konnector, a.judgeKonnector
	}
	return v1alpha1.BridgeSecret, a.Bridge, a.judgeBridge
}

func (a *Authenticator) agent(ctx context.Context, cluster, token string, role Role) (Caller, error) {
	// Before anything is looked up: a cluster's id becomes part of a name, and what
	// cannot be a token is none.
	if !v1alpha1.ValidClusterID(cluster) || !credential.IsToken(prefixes[role], token) {
		return Caller{}, errWho()
	}
	hash := credential.Hash(token)
	g, err := a.judge(ctx, cluster, hash, role)
	if err != nil {
		return Caller{}, err
	}
	if g.next {
		if err := a.promote(ctx, cluster, hash); err != nil {
			return Caller{}, err
		}
	}
	var left time.Duration
	if !g.expires.IsZero() {
		left = g.expires.Sub(a.Now())
	}
	a.underway.add(ctx, cluster, role, hash, left)
	// It may have ended since it was judged; from here on its end ends this
	// request, too.
	if _, ended := a.ended.Load(hash); ended {
		return Caller{}, errWho()
	}
	return Caller{Role: role, Cluster: cluster, Name: role.String(), Expires: g.expires, Hash: hash}, nil
}

// judge asks the cache, and the API server before it says no.
func (a *Authenticator) judge(ctx context.Context, cluster, hash string, role Role) (grant, error) {
	secret, cache, is := a.agentOf(role)
	key := client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: secret}
	var s corev1.Secret
	if err := within(ctx, cache, key, &s); err == nil {
		if g, err := is(&s, hash); err == nil {
			return g, nil
		}
	}
	token := cluster + " " + role.String() + " " + hash
	if err := a.reads().refusal(token); err != nil {
		return grant{}, err
	}
	found, err := a.reads().secret(ctx, a.Live, key)
	g, err := verdict(found, err, hash, is)
	a.reads().note(token, err)
	return g, err
}

// verdict judges a token by the Secret that was read for it.
func verdict(s *corev1.Secret, err error, hash string, is judge) (grant, error) {
	switch {
	case apierrors.IsNotFound(err):
		return grant{}, errWho()
	case refusal.Is(err, refusal.Unavailable):
		return grant{}, err
	case err != nil:
		return grant{}, refusal.Because(err, refusal.Unavailable, "credentials cannot be looked at just now: try again")
	}
	return is(s, hash)
}

// judgeLive asks the API server at once, for what is not a stranger's to cause.
func (a *Authenticator) judgeLive(ctx context.Context, cluster, hash string, role Role) (grant, error) {
	secret, _, is := a.agentOf(role)
	var s corev1.Secret
	err := within(ctx, a.Live, client.ObjectKey{Namespace: v1alpha1.TenantNamespace(cluster), Name: secret}, &s)
	return verdict(&s, err, hash, is)
}

// person lets in the owner of a cluster, and anybody who may view its repository.
func (a *Authenticator) person(ctx context.Context, cluster, raw string) (Caller, error) {
	id, err := a.Login.Verify(ctx, raw)
	if err != nil {
		return Caller{}, err
	}
	return a.Person(ctx, cluster, id)
}

// Person tells as whom somebody who is signed in comes to a cluster's repository.
func (a *Authenticator) Person(ctx context.Context, cluster string, id login.Identity) (Caller, error) {
	caller := Caller{Role: Owner, Cluster: cluster, Name: id.Username}
	cb, err := findCluster(ctx, cluster, a.Clusters)
	if err == nil && Owns(id, cb) {
		return caller, nil
	}
	if err != nil && !refusal.Is(err, refusal.NotFound) || !v1alpha1.ValidClusterID(cluster) {
		return Caller{}, err
	}
	// From here on the API server is asked: for a cluster that no cache knows, and for rights.
	if err := a.asking.May(id); err != nil {
		return Caller{}, err
	}
	if err != nil {
		if cb, err = findCluster(ctx, cluster, a.Live); err != nil {
			return Caller{}, err
		}
		if Owns(id, cb) {
			return caller, nil
		}
	}
	if a.Reviews == nil {
		return Caller{}, errNoCluster()
	}
	caller.Role, caller.Rights = Member, &member{a.Reviews, id, cluster}
	switch ok, err := caller.Rights.May(ctx, restapi.RepositoryView, Part{}); {
	case err != nil:
		return Caller{}, err
	case !ok:
		return Caller{}, errNoCluster()
	}
	return caller, nil
}

// OwnCluster gives a cluster if it belongs to this identity, and refuses with
// NotFound if not. It asks live for what cached does not know.
func OwnCluster(ctx context.Context, cached, live client.Reader, id login.Identity, cluster string) (*v1alpha1.ClusterBinding, error) {
	cb, err := findCluster(ctx, cluster, cached, live)
	if err == nil && !Owns(id, cb) {
		return nil, errNoCluster()
	}
	return cb, err
}

// findCluster gives a cluster by the first reader that knows it.
func findCluster(ctx context.Context, cluster string, readers ...client.Reader) (*v1alpha1.ClusterBinding, error) {
	if !v1alpha1.ValidClusterID(cluster) {
		return nil, errNoCluster()
	}
	var cb v1alpha1.ClusterBinding
	for _, reader := range readers {
		switch err := within(ctx, reader, client.ObjectKey{Name: cluster}, &cb); {
		case err == nil:
			return &cb, nil
		case !apierrors.IsNotFound(err):
			return nil, refusal.Because(err, refusal.Unavailable, "clusters cannot be looked at just now: try again")
		}
	}
	return nil, errNoCluster()
}

// ownerTimeout bounds the search for a cluster's owner: that is for fairness, and
// agents go on without it.
const ownerTimeout = time.Second

// OwnerOf tells to whom a cluster belongs, in a form that only compares; "" when
// it is not known.
func (a *Authenticator) OwnerOf(ctx context.Context, cluster string) string {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	var cb v1alpha1.ClusterBinding
	if err := a.Clusters.Get(ctx, client.ObjectKey{Name: cluster}, &cb); err != nil {
		return ""
	}
	return fmt.Sprintf("%q %q", cb.Spec.Owner.Issuer, cb.Spec.Owner.Subject)
}

// Knows tells whether there is a cluster, as far as the cache knows. One that cannot be looked for
// may be there.
func (a *Authenticator) Knows(ctx context.Context, cluster string) bool {
	_, err := findCluster(ctx, cluster, a.Clusters)
	return !refusal.Is(err, refusal.NotFound)
}

// Owns tells whether a cluster belongs to an identity: by issuer and subject,
// never by a name.
func Owns(id login.Identity, cb *v1alpha1.ClusterBinding) bool {
	return id.Issuer != "" && id.Subject != "" && cb.Spec.Owner.Issuer == id.Issuer && cb.Spec.Owner.Subject == id.Subject
}
