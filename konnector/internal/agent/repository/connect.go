package repository

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/notify"
)

// Credentials gives the HTTP basic credential as it is now.
type Credentials func(ctx context.Context) (user, password string, err error)

// GitCredentials give what opens the repository as it is now: over HTTP, and over SSH, where
// it is a private key and the file known_hosts.
type GitCredentials struct {
	Basic Credentials
	SSH   func(ctx context.Context) (privateKey, knownHosts []byte, err error)
}

// Connect is the Remote of a Connection: Git over HTTP or SSH with git, and the backend's
// events with backend. What is sent to Git passes guard, and observer is told of it. Commits of
// main are signed if signer is not nil. Nothing is asked for yet.
func Connect(c v1alpha1.ConnectionSpec, git GitCredentials, backend Credentials, signer *signing.Signer, guard func(http.RoundTripper) http.RoundTripper, observer store.Observer, now func() time.Time) (Remote, error) {
	roots, err := Roots(c.CABundle)
	if err != nil {
		return Remote{}, err
	}
	name, email := contract.ComponentIdentity(contract.Konnector, c.ClusterID)
	announcements := notify.AnnouncementsFor(c.BackendURL, c.RepositoryURL)
	repo, err := gitstore.Open(gitstore.Options{
		URL:         c.RepositoryURL,
		Credentials: git.Basic,
		SSH:         git.SSH,
		RootCAs:     roots,
		Committer:   store.Signature{Name: name, Email: email},
		Signer:      signer,
		Guard:       guard,
		Observer:    observer,
		Pushed:      announcements.Add,
		Now:         now,
		TrustHints:  notify.FromHost(c.BackendURL, c.RepositoryURL),
	})
	if err != nil {
		return Remote{}, fmt.Errorf("open %s: %w", c.RepositoryURL, err)
	}
	remote := Remote{Main: repo.Branch("main"), Status: repo.Branch("status"), Branch: repo.Branch}
	if c.BackendURL != "" {
		remote.Listen = func(ctx context.Context, onEvent func(string, store.Hash), onError func(error)) {
			notify.Listen(ctx, notify.Options{
				URL: c.BackendURL, ClusterID: c.ClusterID, Credentials: backend, RootCAs: roots,
				OnEvent: onEvent, OnError: onError, Announcements: announcements,
			})
		}
	}
	return remote, nil
}
