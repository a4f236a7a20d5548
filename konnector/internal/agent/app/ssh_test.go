package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gitbind.dev/test/githost"
)

func TestARepositoryIsReachedOverSSHByAKeyAndKnownHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(nil)
	host, privateKey := githost.NewSSH(t, filepath.Dir(w.host.dir))
	w.connection.Spec.RepositoryURL = "ssh://git@" + host.Address + "/" + filepath.Base(w.host.dir)
	secret := w.secret()
	w.must(w.client.Create(t.Context(), secret))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	says := func(reason, words string, change func(s *corev1.Secret)) {
		t.Helper()
		if change != nil {
			w.must(w.client.Get(t.Context(), w.secretKey(), secret))
			change(secret)
			w.must(w.client.Update(t.Context(), secret))
		}
		if message := w.connectionIs(reason); !strings.Contains(message, words) {
			t.Errorf("it says %q, want %q", message, words)
		}
	}
	says("SecretInvalid", "lacks the key ssh-privatekey or known_hosts", nil)
	says("HostKeyRefused", "known_hosts has none of it", func(s *corev1.Secret) {
		s.Data["ssh-privatekey"], s.Data["known_hosts"] = privateKey, []byte("# none\n")
	})
	other, _ := githost.NewSSHKey(t)
	says("CredentialRefused", "lets in nobody as git", func(s *corev1.Secret) {
		s.Data["ssh-privatekey"], s.Data["known_hosts"] = other, host.KnownHosts()
	})
	says("Connected", "", func(s *corev1.Secret) { s.Data["ssh-privatekey"] = privateKey })
	w.ready()
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.host.tell()
	w.objectIs("orders", plan("big"))

	// What is rotated counts from the next connection on, and what was applied meanwhile arrives.
	rotated := host.NewKey()
	host.Hangup()
	w.setSpec("orders", "medium", "plan")
	says("CredentialRefused", "lets in nobody as git", nil)
	says("Connected", "", func(s *corev1.Secret) { s.Data["ssh-privatekey"] = rotated })
	w.fileIs("orders", plan("medium"))
}
