package controlplane

import (
	"context"
	"fmt"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Access is how a person gets at the backends of a cluster's connections.
type Access struct {
	// Cluster is nil for a command that works without one.
	Cluster *appcluster.Cluster
	SignIn  *signin.SignIn
	How     signin.How
}

// Open opens the backend at a URL, in the form of session.BackendURL, or without
// one that of a Connection: of this name, or the only one when that is empty, too.
// The Connection is nil with a URL.
func (a Access) Open(ctx context.Context, url, connection string) (*Client, *v1alpha1.Connection, error) {
	if url != "" {
		trusting, err := a.SignIn.TrustingAgain(url)
		if err != nil {
			return nil, nil, err
		}
		c, err := Open(ctx, url, trusting, a.How)
		return c, nil, err
	}
	found, err := a.Cluster.Connection(ctx, connection)
	if err != nil {
		return nil, nil, err
	}
	c, err := a.Of(ctx, found)
	return c, found, err
}

// Of opens the backend of a Connection. Those who administer the cluster write
// where that is and whom to trust there: the person is asked whether they mean it.
func (a Access) Of(ctx context.Context, connection *v1alpha1.Connection) (*Client, error) {
	if connection.Spec.BackendURL == "" {
		return nil, fmt.Errorf("the connection %q names no backend to ask: its spec.backendURL is empty", connection.Name)
	}
	backend, trusting, err := a.at(connection)
	if err != nil {
		return nil, err
	}
	a.How.Connection = connection.Name
	return Open(ctx, backend, trusting, a.How)
}

// Ask asks the backend of a Connection how to sign in there. It sends nothing that
// others could not read along.
func (a Access) Ask(ctx context.Context, connection *v1alpha1.Connection) (restapi.Info, error) {
	trusting, err := a.trusting(connection)
	if err != nil {
		return restapi.Info{}, err
	}
	return Ask(ctx, connection.Spec.BackendURL, trusting, signin.How{PlainHTTP: true})
}

// Saved is the person's ID token for the backend of a Connection, without asking
// anybody: session.ErrNone when that is not possible.
func (a Access) Saved(ctx context.Context, connection *v1alpha1.Connection) (token, username string, err error) {
	backend, trusting, err := a.at(connection)
	if err != nil {
		return "", "", err
	}
	if !a.How.PlainHTTP && !session.Private(backend) {
		return "", "", session.ErrNone
	}
	return trusting.Silent(ctx, backend)
}

// at is where the backend of a Connection is, in the form under which sessions are
// saved, and a sign-in that trusts what the Connection does.
func (a Access) at(connection *v1alpha1.Connection) (backend string, trusting *signin.SignIn, err error) {
	if backend, err = session.BackendURL(connection.Spec.BackendURL); err != nil {
		return "", nil, fmt.Errorf("connection %q: spec.backendURL: %w", connection.Name, err)
	}
	trusting, err = a.trusting(connection)
	return backend, trusting, err
}

func (a Access) trusting(connection *v1alpha1.Connection) (*signin.SignIn, error) {
	trusting, err := a.SignIn.Trusting(connection.Spec.CABundle)
	if err != nil {
		return nil, fmt.Errorf("connection %q: spec.caBundle: %w", connection.Name, err)
	}
	return trusting, nil
}
