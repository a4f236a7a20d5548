package githost

import (
	"context"
	"time"
)

// Credential opens a cluster's repository for an agent, by HTTP basic.
type Credential struct {
	Username, Password string
	// Expires is when the host ends it by itself, and RenewAfter from when on another one of
	// the same name is to be issued. Zero for one that stays until it is ended.
	Expires, RenewAfter time.Time
}

// Accounts is a Host that does not ask the backend whom to let in: it gives agents
// credentials of its own. An agent is "konnector" or "bridge".
type Accounts interface {
	Host
	// Ready tells whether the host answers, and lets the backend do what it must.
	Ready(ctx context.Context) error
	// CreateEmpty makes the repository, if there is none, without a first commit: one is moved
	// there, and Create does the rest then.
	CreateEmpty(ctx context.Context, cluster string) error
	// Page is where people look at a cluster's repository, change it and review changes.
	Page(cluster string) string
	// Issue gives an agent of a cluster another credential, beside those that it has. The
	// name tells it from the others; the one before of the same name ends, at the latest when
	// it expires.
	Issue(ctx context.Context, cluster, agent, name string) (Credential, error)
	// Retain ends an agent's credentials but those whose names counting gives. That is
	// asked after the credentials were listed: one that is issued meanwhile stays.
	Retain(ctx context.Context, cluster, agent string, counting func(context.Context) ([]string, error)) error
}
