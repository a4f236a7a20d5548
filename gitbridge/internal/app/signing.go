package app

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/tenant"
	commits "gitbind.dev/gitbridge/signing"
)

// signing has the keys of the bridge: with which it signs, and to which app clusters
// encrypt. They are those of all clusters, in a Secret of its own namespace, and are made
// when they are asked for first.
type signing struct {
	client client.Client
	// server reads from the API server: this Secret is not watched.
	server client.Reader

	mu         sync.Mutex
	signer     *encryption.Signer
	identities encryption.Identities
}

// Signer signs with the key.
func (s *signing) Signer(ctx context.Context) (*encryption.Signer, error) {
	signer, _, err := s.keys(ctx)
	if signer != nil {
		// What keeps app clusters' inputs from being opened keeps nothing from being signed.
		return signer, nil
	}
	return nil, err
}

// Identities open what app clusters send.
func (s *signing) Identities(ctx context.Context) (encryption.Identities, error) {
	_, identities, err := s.keys(ctx)
	return identities, err
}

// keys are both, or the signer and what is wrong with the identities.
func (s *signing) keys(ctx context.Context) (*encryption.Signer, encryption.Identities, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signer != nil {
		return s.signer, s.identities, nil
	}
	at := client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeEncryptionSecret}
	secret, err := s.secret(ctx, at)
	if secret == nil {
		return nil, nil, fmt.Errorf("get the bridge's keys, Secret %s: %w", at, err)
	}
	signer, signerErr := encryption.ParseSigningKey(secret.Data[encryption.SigningKeyEntry])
	if signerErr != nil {
		return nil, nil, fmt.Errorf("the bridge's Secret %s has no signing key in %s: delete it, and the bridge makes another one", at, encryption.SigningKeyEntry)
	}
	if err != nil {
		return signer, nil, fmt.Errorf("make a key in the bridge's Secret %s: %w", at, err)
	}
	identities, err := encryption.ParseIdentities(secret.Data[encryption.IdentitiesEntry])
	if err != nil {
		return signer, nil, fmt.Errorf("the bridge's Secret %s has no key in %s: %w. Delete that entry, and the bridge makes another one", at, encryption.IdentitiesEntry, err)
	}
	s.signer, s.identities = signer, identities
	return signer, identities, nil
}

// secret has the keys. It is made where there is none, and an identity where there is
// none, as of a bridge that could not take what app clusters send, or where a person asks
// for another one. Beside an error, it is the one that is there, if it could be read.
func (s *signing) secret(ctx context.Context, at client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := s.server.Get(ctx, at, secret)
	if apierrors.IsNotFound(err) {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
			Data:       map[string][]byte{encryption.SigningKeyEntry: encryption.GenerateSigningKey()},
		}
		if made.Data[encryption.IdentitiesEntry], err = encryption.RotateIdentities(nil); err != nil {
			return nil, err
		}
		switch err = s.client.Create(ctx, made, client.FieldOwner(tenant.FieldOwner)); {
		case err == nil:
			return made, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, err
		}
		err = s.server.Get(ctx, at, secret)
	}
	if err != nil {
		return nil, err
	}
	if _, asked := secret.Annotations[v1alpha1.RotateAnnotation]; !asked && len(secret.Data[encryption.IdentitiesEntry]) > 0 {
		return secret, nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	identities, err := encryption.RotateIdentities(secret.Data[encryption.IdentitiesEntry])
	if err != nil {
		return secret, err
	}
	secret.Data[encryption.IdentitiesEntry] = identities
	delete(secret.Annotations, v1alpha1.RotateAnnotation)
	return secret, s.client.Update(ctx, secret, client.FieldOwner(tenant.FieldOwner))
}

// Commits signs commits with the same key.
func (s *signing) Commits(ctx context.Context) (*commits.Signer, error) {
	signer, err := s.Signer(ctx)
	if err != nil {
		return nil, err
	}
	return signer.Commits()
}

// Public are the public halves.
func (s *signing) Public(ctx context.Context) (v1alpha1.EncryptionKeys, error) {
	signer, identities, err := s.keys(ctx)
	if err != nil {
		return v1alpha1.EncryptionKeys{}, err
	}
	return v1alpha1.EncryptionKeys{Recipients: identities.Recipients()[:1], SigningKeys: []string{signer.Public()}}, nil
}
