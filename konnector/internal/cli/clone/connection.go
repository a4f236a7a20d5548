package clone

import (
	"context"
	"errors"
	"fmt"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/session"
)

// OfBinding opens the repository that holds the claims of a bound API.
func OfBinding(ctx context.Context, a controlplane.Access, name string) (*Clone, error) {
	binding, err := a.Cluster.Binding(ctx, name)
	if err != nil {
		return nil, err
	}
	connection, err := a.Cluster.Connection(ctx, binding.Spec.Connection)
	if err != nil {
		return nil, err
	}
	return Of(ctx, a, connection)
}

// Of opens the repository of a connection. That of the backend's own host is
// opened with the person's ID token; any other with what their git knows.
func Of(ctx context.Context, a controlplane.Access, connection *v1alpha1.Connection) (*Clone, error) {
	s := Source{URL: connection.Spec.RepositoryURL, CABundle: connection.Spec.CABundle, Silent: a.How.Silent}
	if connection.IsOnBackend() {
		var err error
		if s.Username, s.Password, err = credential(ctx, a, connection); err != nil {
			return nil, err
		}
	}
	c, err := Open(ctx, s)
	var said *Error
	if errors.As(err, &said) {
		hint := "what your own git is let in with counts there: try git ls-remote " + s.URL
		if connection.IsOnBackend() {
			hint = "the owner of this cluster may read it, that is the person who ran kubectl gitbind connect, and those with whom they share it: kubectl gitbind share view"
		}
		return nil, fmt.Errorf("%w (%s)", err, hint)
	}
	return c, err
}

// credential is the person's ID token: the one given, that of the session, or
// that of a new sign-in.
func credential(ctx context.Context, a controlplane.Access, connection *v1alpha1.Connection) (username, token string, err error) {
	if a.How.Token == "" {
		token, username, err = a.Saved(ctx, connection)
		if a.How.Silent || !errors.Is(err, session.ErrNone) {
			return username, token, err
		}
	}
	if _, err := a.Of(ctx, connection); err != nil {
		return "", "", err
	}
	if a.How.Token != "" {
		return "me", a.How.Token, nil
	}
	token, username, err = a.Saved(ctx, connection)
	return username, token, err
}
