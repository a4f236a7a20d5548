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

// signing has the key with which the bridge signs: one for all clusters, in a Secret
// of its own namespace. It is made when it is asked for first.
type signing struct {
	client client.Client
	// server reads from the API server: this Secret is not watched.
	server client.Reader

	mu     sync.Mutex
	signer *encryption.Signer
}

// Signer signs with the key.
func (s *signing) Signer(ctx context.Context) (*encryption.Signer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signer != nil {
		return s.signer, nil
	}
	secret := &corev1.Secret{}
	at := client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeEncryptionSecret}
	err := s.server.Get(ctx, at, secret)
	if apierrors.IsNotFound(err) {
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
			Data:       map[string][]byte{encryption.SigningKeyEntry: encryption.GenerateSigningKey()},
		}
		err = s.client.Create(ctx, secret, client.FieldOwner(tenant.FieldOwner))
		if apierrors.IsAlreadyExists(err) {
			err = s.server.Get(ctx, at, secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get the bridge's signing key, Secret %s: %w", at, err)
	}
	s.signer, err = encryption.ParseSigningKey(secret.Data[encryption.SigningKeyEntry])
	if err != nil {
		return nil, fmt.Errorf("the bridge's Secret %s has no signing key in %s: delete it, and the bridge makes another one", at, encryption.SigningKeyEntry)
	}
	return s.signer, nil
}

// Commits signs commits with the same key.
func (s *signing) Commits(ctx context.Context) (*commits.Signer, error) {
	signer, err := s.Signer(ctx)
	if err != nil {
		return nil, err
	}
	return signer.Commits()
}

// Public is the public half.
func (s *signing) Public(ctx context.Context) (string, error) {
	signer, err := s.Signer(ctx)
	if err != nil {
		return "", err
	}
	return signer.Public(), nil
}
