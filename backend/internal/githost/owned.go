package githost

import (
	"context"
	"crypto/sha256"
	"fmt"
)

// Owned is a Host that keeps whose a repository is: that stays when the cluster's ClusterBinding
// is gone, and the next owner of the cluster's id may be another one.
type Owned interface {
	// Owner is the digest of whom a repository was last made for or handed to, "" where there is
	// no repository, or none is kept.
	Owner(ctx context.Context, cluster string) (string, error)
	// SetOwner keeps another one. The repository must exist.
	SetOwner(ctx context.Context, cluster, owner string) error
}

// OwnerDigest tells owners apart, and names nobody.
func OwnerDigest(issuer, subject string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "gitbind owner %q %q", issuer, subject)))
}
