package clone

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// ErrSignIn says that somebody must sign in first.
var ErrSignIn = session.ErrNone

// Access is how a person gets at the repositories of a cluster's connections.
type Access struct {
	Cluster *appcluster.Cluster
	SignIn  *signin.SignIn
	How     signin.How
	// Silent asks nobody to sign in: without a session, the repository stays
	// closed.
	Silent bool
}

// Binding is a bound API.
func (a Access) Binding(ctx context.Context, name string) (*v1alpha1.APIServiceBinding, error) {
	var binding v1alpha1.APIServiceBinding
	switch err := a.Cluster.Get(ctx, client.ObjectKey{Name: name}, &binding); {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s is not bound in this cluster, so no repository has its claims: kubectl gitbind get bindings", name)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read the binding %s: %w: the ClusterRole gitbind-view lets you", name, err)
	case err != nil:
		return nil, fmt.Errorf("read the binding %s: %w", name, err)
	}
	return &binding, nil
}

// OfBinding opens the repository that holds the claims of a bound API.
func (a Access) OfBinding(ctx context.Context, name string) (*Clone, error) {
	binding, err := a.Binding(ctx, name)
	if err != nil {
		return nil, err
	}
	connection, err := a.Cluster.Connection(ctx, binding.Spec.Connection)
	if err != nil {
		return nil, err
	}
	return a.Of(ctx, connection)
}

// Of opens the repository of a connection. That of the backend's own host is
// opened with the person's ID token; any other with what their git knows.
func (a Access) Of(ctx context.Context, connection *v1alpha1.Connection) (*Clone, error) {
	s := Source{URL: connection.Spec.RepositoryURL, CABundle: connection.Spec.CABundle, Silent: a.Silent}
	ours := connection.Spec.BackendURL != "" && strings.HasPrefix(s.URL, strings.TrimRight(connection.Spec.BackendURL, "/")+"/")
	if ours {
		var err error
		if s.Username, s.Password, err = a.credential(ctx, connection); err != nil {
			return nil, err
		}
	}
	c, err := Open(ctx, s)
	var said *Error
	if errors.As(err, &said) {
		hint := "what your own git is let in with counts there: try git ls-remote " + s.URL
		if ours {
			hint = "the owner of this cluster may read it, that is whoever ran kubectl gitbind connect"
		}
		return nil, fmt.Errorf("%w (%s)", err, hint)
	}
	return c, err
}

// credential is the person's ID token: the one given, that of the session, or
// that of a new sign-in.
func (a Access) credential(ctx context.Context, connection *v1alpha1.Connection) (username, token string, err error) {
	if a.How.Token != "" {
		return "me", a.How.Token, nil
	}
	backend, err := session.BackendURL(connection.Spec.BackendURL)
	if err != nil {
		return "", "", fmt.Errorf("connection %s: spec.backendURL: %w", connection.Name, err)
	}
	trusting, err := a.SignIn.Trusting(connection.Spec.CABundle)
	if err != nil {
		return "", "", fmt.Errorf("connection %s: spec.caBundle: %w", connection.Name, err)
	}
	token, username, err = trusting.Silent(ctx, backend)
	if a.Silent || !errors.Is(err, session.ErrNone) {
		return username, token, err
	}
	if _, err := controlplane.OpenFor(ctx, connection, a.SignIn, a.How); err != nil {
		return "", "", err
	}
	token, username, err = trusting.Silent(ctx, backend)
	return username, token, err
}
