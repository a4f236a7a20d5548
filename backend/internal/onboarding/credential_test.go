package onboarding

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/copies"
	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/keyring"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/fakeapi"
)

// accounts is a Git host that calls a function while it issues.
type accounts struct {
	githost.Accounts
	while func()
	fails error
	// asked is how often it was asked for a credential.
	asked int
}

func (a *accounts) Issue(context.Context, string, string, string) (githost.Credential, error) {
	a.asked++
	if a.while != nil {
		a.while()
	}
	if a.fails != nil {
		return githost.Credential{}, a.fails
	}
	return githost.Credential{Username: "there", Password: "opens"}, nil
}

// places are where a Git host has its repositories.
type places struct{ githost.Host }

func (places) URL(cluster string) string { return "https://git.example.com/" + cluster + ".git" }

func TestWhatTheGitHostGivesIsForWhoseCredentialCounts(t *testing.T) {
	t.Parallel()
	const id = "k3x9d2abqw"
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	for name, c := range map[string]struct {
		copied bool
		// revoked is while the host issues.
		revoked bool
		// refusal is in what is answered; "" for none.
		refusal string
	}{
		"one that counts":   {false, false, ""},
		"revoked meanwhile": {false, true, "has ended"},
		"two live copies":   {true, false, "two live copies"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id}}
			if c.copied {
				cb.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCopied, Status: metav1.ConditionTrue}}
			}
			api := fakeapi.New(fakeapi.Builder().WithObjects(cb))
			keys := &keyring.Keyring{Client: api, Live: api, Lifetime: 90 * time.Hour, Now: clock}
			host := &accounts{}
			s := &Service{Client: api, Live: api, Host: places{}, Accounts: host, Keys: keys, Copies: copies.New(now), Log: slog.New(slog.DiscardHandler), Now: clock}
			shows := func() access.Caller {
				cred, err := keys.Issue(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return access.Caller{Cluster: id, Hash: credential.Hash(cred.Password)}
			}
			is := func(what string, git *restapi.GitCredential, err error) {
				t.Helper()
				if c.refusal == "" && (err != nil || git.Password != "opens" || git.RepositoryURL != "https://git.example.com/k3x9d2abqw.git") || c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
					t.Errorf("%s: %+v, %v", what, git, err)
				}
			}
			who := shows()
			if c.revoked {
				host.while = func() {
					if err := keys.Revoke(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
			}
			git, err := s.renewGit(t.Context(), who)
			is("renewed alone", git, err)
			if _, err := s.renewGit(t.Context(), who); err == nil || !strings.Contains(err.Error(), "a moment ago") {
				t.Errorf("renewed twice at once: %v", err)
			}
			now := now.Add(renewEvery)
			s.Now = func() time.Time { return now }
			cred, err := s.renew(t.Context(), shows())
			if err != nil {
				cred = &restapi.Credential{}
			}
			is("renewed with the rest", cred.Git, err)
			if c.copied {
				return // a person connects, and rotates
			}
			cred, err = keys.Issue(t.Context(), id)
			if err == nil {
				_, err = s.withGit(t.Context(), id, cred)
			}
			is("connected", cred.Git, err)
		})
	}
}
