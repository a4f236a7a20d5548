// Package login turns an OIDC ID token into an identity of the control plane,
// or refuses it in plain words. It signs nobody in (that is between the person
// and the issuer), keeps no session, and trusts nothing in a token before its
// signature is verified.
package login

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/backend/internal/refusal"
)

// Identity is who somebody is, as the issuer says and as the control plane's
// RBAC knows them.
type Identity struct {
	// Issuer and Subject identify the person, for good.
	Issuer, Subject string
	// Username and Groups carry the prefix that the API server puts on them.
	Username string
	Groups   []string
}

// Issuers are all whose ID tokens count: that of the people first, which are
// told where to sign in, then those of pipelines. Each stands for itself: one
// that is down keeps nobody else out.
type Issuers []*Issuer

// Run finds the issuers, and returns when all are found or ctx ends.
func (all Issuers) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, i := range all {
		group.Go(func() error { return i.Run(ctx) })
	}
	return group.Wait()
}

// Ready tells which issuers' tokens cannot be verified now, or nil.
func (all Issuers) Ready() error {
	var errs []error
	for _, i := range all {
		errs = append(errs, i.Ready())
	}
	return errors.Join(errs...)
}

// Name is the name of a user or a group in the control plane's RBAC: with the prefix of
// the issuer that it is of, and of this person's where it has none. The error is a
// refusal.
func (all Issuers) Name(of Identity, group bool, name string) (string, error) {
	own := ""
	for _, i := range all {
		m := i.cfg.Username
		if group {
			m = i.cfg.Groups
		}
		if m.Claim == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(name, m.Prefix); ok {
			own, name = m.Prefix, rest
			break
		}
		if i.cfg.URL == of.Issuer {
			own = m.Prefix
		}
	}
	switch {
	case own == "":
		return "", refusal.New(refusal.Invalid, "your issuer names no groups: share with users, or give the prefix of another issuer")
	case !isName(name) || slices.ContainsFunc(kubernetesOwn, func(own string) bool { return strings.HasPrefix(name, own) }):
		return "", refusal.New(refusal.Invalid, "%.80q is no name of a user or a group at your issuer", name)
	}
	return own + name, nil
}

// Verify gives the identity that a raw ID token proves. The error is a refusal:
// Unauthenticated with words for its owner, or Unavailable while the token's
// issuer is out of reach.
func (all Issuers) Verify(ctx context.Context, raw string) (Identity, error) {
	unverified := peek(raw)
	if unverified == nil {
		return Identity{}, refusal.New(refusal.Unauthenticated, "this is no ID token: sign in again")
	}
	// What the token says about itself chooses only who is asked about it.
	for _, i := range all {
		if i.cfg.URL == unverified.Issuer {
			return i.Verify(ctx, raw)
		}
	}
	return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token is from another issuer: sign in at %s", all[0].cfg.URL)
}
