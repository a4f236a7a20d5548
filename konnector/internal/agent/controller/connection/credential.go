package connection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/repository"
)

// credential is for HTTP basic authentication, at the backend and with Git, or with Git for
// SSH.
type credential struct{ user, password, gitUser, gitPassword, privateKey, knownHosts string }

// credential reads the Secret.
func (r *Reconciler) credential(ctx context.Context, conn *v1alpha1.Connection) (*credential, *problem, error) {
	ref := conn.Spec.SecretRef
	if ref.Namespace != r.Namespace {
		return nil, &problem{"SecretInvalid", fmt.Sprintf("spec.secretRef.namespace is %s: the konnector reads Secrets in namespace %s only.", ref.Namespace, r.Namespace)}, nil
	}
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &problem{repository.ReasonNoCredential, fmt.Sprintf("Secret %s/%s with the credential for the repository does not exist. Create it, or connect this cluster again (kubectl gitbind connect).", ref.Namespace, ref.Name)}, nil
		}
		return nil, nil, fmt.Errorf("get secret: %w", err)
	}
	c := credential{user: string(secret.Data["username"]), password: string(secret.Data["password"])}
	c.gitUser, c.gitPassword = conn.GitCredential(secret.Data)
	privateKey, knownHosts := v1alpha1.SSHCredential(secret.Data)
	c.privateKey, c.knownHosts = string(privateKey), string(knownHosts)
	ssh := v1alpha1.IsSSH(conn.Spec.RepositoryURL)
	switch basic := !ssh || conn.Spec.BackendURL != ""; {
	case basic && (c.user == "" || c.password == ""):
		return nil, &problem{"SecretInvalid", fmt.Sprintf("Secret %s/%s lacks the key username or password. Connect this cluster again (kubectl gitbind connect).", ref.Namespace, ref.Name)}, nil
	case ssh && (c.privateKey == "" || c.knownHosts == ""):
		return nil, &problem{"SecretInvalid", fmt.Sprintf("Secret %s/%s lacks the key %s or %s, for a repository over SSH: a private key, and what ssh-keyscan prints of the host, after a look whether that is right.", ref.Namespace, ref.Name, v1alpha1.SSHPrivateKeyKey, v1alpha1.KnownHostsKey)}, nil
	}
	return &c, nil, nil
}

// use takes up the credential that the Secret has now, which was renewed or rotated perhaps:
// what is asked of the backend and of Git is asked with it from now on.
func (c *connected) use(cred *credential, repo *repository.Repository) {
	if old := c.credential.Swap(cred); *old != *cred || repo.Suspended() {
		repo.Resume()
	}
}
