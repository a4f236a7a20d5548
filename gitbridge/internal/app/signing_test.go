package app

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/test/fakeapi"
)

func TestWhatIsWrongWithAnIdentityKeepsNothingFromBeingSigned(t *testing.T) {
	t.Parallel()
	for name, identities := range map[string]string{"broken": "AGE-SECRET-KEY-X", "none, and none can be saved": ""} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeEncryptionSecret},
			Data:       map[string][]byte{encryption.SigningKeyEntry: encryption.GenerateSigningKey(), encryption.IdentitiesEntry: []byte(identities)},
		}
		c := fakeapi.New(fakeapi.Builder().WithObjects(secret), interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				return errors.New("no right")
			},
		})
		s := &signing{client: c, server: c}
		if signer, err := s.Signer(t.Context()); signer == nil || err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ids, err := s.Identities(t.Context()); err == nil {
			t.Errorf("%s: %d identities", name, len(ids))
		}
	}
}
