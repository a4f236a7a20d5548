package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/signing"
)

// signedBy waits until the konnector signs with a key that is none of others.
func (w *world) signedBy(others ...string) (key string) {
	w.Helper()
	w.eventually("the Connection has the key", func() error {
		if key = w.getConnection().Status.SigningKey; key == "" || slices.Contains(others, key) {
			return fmt.Errorf("its key is %q", key)
		}
		return nil
	})
	return key
}

// verify is what stock git says of main's commits of claims if keys count, newest first:
// G is good, U is another key's, and N is none.
func (w *world) verify(keys ...string) []string {
	w.Helper()
	text := ""
	for _, key := range keys {
		text += signing.AllowedSigner("konnector", signing.Key(key)) + "\n"
	}
	file := filepath.Join(w.TempDir(), "allowed_signers")
	w.must(os.WriteFile(file, []byte(text), 0o600))
	return strings.Fields(w.git("-c", "gpg.ssh.allowedSignersFile="+file, "log", "--format=%G?", "main", "--", ":(glob)bindings/*/claims/**"))
}

func TestCommitsAreSignedWithTheKeyOfTheCluster(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.fileIs("orders", plan("small"))
	if key := w.getConnection().Status.SigningKey; key != "" {
		t.Errorf("nothing is to be signed, and the key is %q", key)
	}

	w.must(w.client.Patch(t.Context(), w.getConnection(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"signCommits":true}}`))))
	first := w.signedBy()
	w.setSpec("orders", "medium", "plan")
	w.fileIs("orders", plan("medium"))
	if got := w.verify(first); !slices.Equal(got, []string{"G", "N"}) {
		t.Errorf("git says %v", got)
	}

	// Without a key that can be used nothing is committed.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.EncryptionSecret(w.name)}}
	w.must(w.client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"data":{"`+encryption.SigningKeyEntry+`":null}}`))))
	if message := w.connectionIs("NoSigningKey"); !strings.Contains(message, secret.Name) || !strings.Contains(message, "delete it") {
		t.Errorf("it says %q", message)
	}
	w.setSpec("orders", "big", "plan")
	w.must(w.client.Delete(t.Context(), secret))
	second := w.signedBy(first)
	w.connectionIs("Connected")
	w.fileIs("orders", plan("big"))
	if got := w.verify(second); !slices.Equal(got, []string{"G", "U", "N"}) {
		t.Errorf("git says %v", got)
	}
}
