package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
)

var (
	// errKey says that the Secret holds no keys that can be used.
	errKey = errors.New("it cannot be used")
	// errUnregistered says that no other key is made yet: the bridge encrypts to the one
	// before the newest, as far as is known, and another rotation would lose that.
	errUnregistered = errors.New("the newest key is not registered yet")
)

// keys are an app cluster's.
type keys struct {
	identities encryption.Identities
	signer     *encryption.Signer
	// version is that of the Secret.
	version string
}

// ensure makes the keys where there are none, and another identity where a person asks
// for one. The error is nil, or comes with the keys that there are, where that could not be done.
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
	k, err := read(secret)
	if _, asked := secret.Annotations[v1alpha1.RotateAnnotation]; err != nil || !asked {
		return k, err
	}
	if conn.Spec.BackendURL != "" && r.registered(conn.Name) != k.identities.Recipients()[0] {
		return k, errUnregistered
	}
	if err := r.rotate(ctx, secret); err != nil {
		return k, err
	}
	return read(secret)
}

func generate(at client.ObjectKey) (*corev1.Secret, error) {
	identities, err := encryption.RotateIdentities(nil)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
		Data: map[string][]byte{
			encryption.IdentitiesEntry: identities,
			encryption.SigningKeyEntry: encryption.GenerateSigningKey(),
		},
	}, nil
}

// rotate puts another identity before those that are there.
func (r *Reconciler) rotate(ctx context.Context, secret *corev1.Secret) error {
	identities, err := encryption.RotateIdentities(secret.Data[encryption.IdentitiesEntry])
	if err != nil {
		return err
	}
	s := secret.DeepCopy()
	s.Data[encryption.IdentitiesEntry] = identities
	delete(s.Annotations, v1alpha1.RotateAnnotation)
	if err := r.Client.Update(ctx, s); err != nil {
		return err
	}
	*secret = *s
	return nil
}

func read(secret *corev1.Secret) (*keys, error) {
	if secret.Labels[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByKonnector {
		return nil, fmt.Errorf("%w: a control plane sent it with a claim, and knows the keys. To have others made, delete it (kubectl delete secret -n %s %s)", errKey, secret.Namespace, secret.Name)
	}
	k := &keys{version: secret.ResourceVersion}
	var err error
	if k.identities, err = encryption.ParseIdentities(secret.Data[encryption.IdentitiesEntry]); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errKey, encryption.IdentitiesEntry, err)
	}
	if k.signer, err = encryption.ParseSigningKey(secret.Data[encryption.SigningKeyEntry]); err != nil {
		return nil, fmt.Errorf("%w: %s is no signing key, 32 bytes in base64", errKey, encryption.SigningKeyEntry)
	}
	return k, nil
}
