package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
)

// identityKey is where the Secret's data has the identities as age-keygen writes them,
// newest first. The signing key lies beside them.
const identityKey = "age.key"

// kept is how many identities stay when another one is made: what was encrypted to the
// one before must be read until the bridge has encrypted it anew.
const kept = 2

// errKey says that the Secret holds no keys that can be used.
var errKey = errors.New("it cannot be used")

// keys are an app cluster's.
type keys struct {
	identities encryption.Identities
	signer     *encryption.Signer
	// version is that of the Secret.
	version string
}

// ensure makes the keys where there are none, and another identity where a person asks
// for one.
func (r *Reconciler) ensure(ctx context.Context, conn *v1alpha1.Connection) (*keys, error) {
	at := client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.EncryptionSecret(conn.Name)}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, at, secret)
	if apierrors.IsNotFound(err) {
		if secret, err = generate(at); err == nil {
			err = r.Client.Create(ctx, secret)
		}
		if err == nil {
			logr.FromContextOrDiscard(ctx).Info("key made", "connection", conn.Name, "secret", at.Name)
		}
	}
	if err != nil {
		return nil, err
	}
	if _, asked := secret.Annotations[v1alpha1.RotateAnnotation]; asked {
		if err := r.rotate(ctx, secret); err != nil {
			return nil, err
		}
	}
	return read(secret)
}

func generate(at client.ObjectKey) (*corev1.Secret, error) {
	identity, recipient, err := encryption.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
		Data: map[string][]byte{
			identityKey:                fileOf(identity, recipient),
			encryption.SigningKeyEntry: encryption.GenerateSigningKey(),
		},
	}, nil
}

// fileOf is an identity as age-keygen writes it.
func fileOf(identity, recipient string) []byte {
	return fmt.Appendf(nil, "# public key: %s\n%s\n", recipient, identity)
}

// rotate puts another identity before those that are there.
func (r *Reconciler) rotate(ctx context.Context, secret *corev1.Secret) error {
	identity, recipient, err := encryption.GenerateIdentity()
	if err != nil {
		return err
	}
	s := secret.DeepCopy()
	file := fileOf(identity, recipient)
	left := kept - 1
	for line := range strings.Lines(string(s.Data[identityKey])) {
		if strings.HasPrefix(line, "AGE-SECRET-KEY-") && left > 0 {
			file = append(append(file, bytes.TrimSpace([]byte(line))...), '\n')
			left--
		}
	}
	s.Data[identityKey] = file
	delete(s.Annotations, v1alpha1.RotateAnnotation)
	if err := r.Client.Update(ctx, s); err != nil {
		return err
	}
	*secret = *s
	return nil
}

func read(secret *corev1.Secret) (*keys, error) {
	k := &keys{version: secret.ResourceVersion}
	var err error
	if k.identities, err = encryption.ParseIdentities(secret.Data[identityKey]); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errKey, identityKey, err)
	}
	if k.signer, err = encryption.ParseSigningKey(secret.Data[encryption.SigningKeyEntry]); err != nil {
		return nil, fmt.Errorf("%w: %s is no signing key, 32 bytes in base64", errKey, encryption.SigningKeyEntry)
	}
	return k, nil
}
