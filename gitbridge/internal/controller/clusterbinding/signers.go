package clusterbinding

import (
	"fmt"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/signing"
)

// allowedSigners are whose signatures of commits count for a binding, in the form of
// OpenSSH's file; "" where it asks for no signatures.
func allowedSigners(b *v1alpha1.ClusterBinding) (string, error) {
	if b.Spec.Signatures == nil {
		return "", nil
	}
	text := b.Spec.Signatures.AllowedSigners + "\n"
	if b.Spec.Encryption == nil {
		return text, nil
	}
	for _, public := range b.Spec.Encryption.SigningKeys {
		key, err := signing.Ed25519Key(public)
		if err != nil {
			return "", fmt.Errorf("spec.encryption.signingKeys: %w", err)
		}
		text += signing.AllowedSigner("konnector", key) + "\n"
	}
	return text, nil
}

// counts is what a session asks; nil where no signatures are asked for. The holder of
// a key writes the time of their commits, so that a key must count now, too: what is pushed after
// it was revoked may say that it is older.
func counts(allowed string, now func() time.Time) (func(signing.Key, time.Time) bool, error) {
	if allowed == "" {
		return nil, nil
	}
	all, err := signing.ParseAllowedSigners(allowed)
	if err != nil {
		return nil, fmt.Errorf("spec.signatures.allowedSigners: %w", err)
	}
	return func(key signing.Key, at time.Time) bool { return all.Allows(key, at) && all.Allows(key, now()) }, nil
}
