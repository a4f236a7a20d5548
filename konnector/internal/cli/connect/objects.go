package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/usage"
)

// connectionTo is the Connection to a cluster's place in the control plane.
func connectionTo(in Input, cluster restapi.Cluster) *v1alpha1.Connection {
	return &v1alpha1.Connection{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Connection"},
		ObjectMeta: metav1.ObjectMeta{Name: in.Name},
		Spec: v1alpha1.ConnectionSpec{
			BackendURL:    in.BackendURL,
			RepositoryURL: cluster.RepositoryURL,
			ClusterID:     cluster.ID,
			SecretRef:     v1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-" + in.Name},
			CABundle:      in.CABundle,
		},
	}
}

// objects are what connecting applies beside the installation and the Secret, in order.
func objects(connection *v1alpha1.Connection) []client.Object {
	return []client.Object{credentialRole(connection), credentialRoleBinding(connection), connection}
}

// credentialRole lets the konnector renew the credential in this Connection's
// Secret, and the keys in the other one. Which Secrets those are is not known when the konnector is installed.
func credentialRole(connection *v1alpha1.Connection) *rbacv1.Role {
	ref := connection.Spec.SecretRef
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: v1alpha1.CredentialRole(connection.Name)},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{ref.Name, v1alpha1.EncryptionSecret(connection.Name)}, Verbs: []string{"update"}}},
	}
}

func credentialRoleBinding(connection *v1alpha1.Connection) *rbacv1.RoleBinding {
	name := v1alpha1.CredentialRole(connection.Name)
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: connection.Spec.SecretRef.Namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: appcluster.SystemNamespace, Name: "konnector"}},
	}
}

// Secret is what the konnector signs in to the repository with.
func Secret(ref v1alpha1.SecretReference, credential *restapi.Credential) *corev1.Secret {
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		Type:       corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(credential.Username),
			corev1.BasicAuthPasswordKey: []byte(credential.Password),
			v1alpha1.ExpiresKey:         []byte(credential.Expires.UTC().Format(time.RFC3339)),
		},
	}
	at := credential.RepositoryURL
	if git := credential.Git; git != nil {
		at = git.RepositoryURL
		s.Data[v1alpha1.GitUsernameKey], s.Data[v1alpha1.GitPasswordKey] = []byte(git.Username), []byte(git.Password)
		if !git.Expires.IsZero() {
			s.Data[v1alpha1.GitExpiresKey] = []byte(git.Expires.UTC().Format(time.RFC3339))
			s.Data[v1alpha1.GitRenewAfterKey] = []byte(git.RenewAfter.UTC().Format(time.RFC3339))
		}
	}
	if at != "" {
		s.Data[v1alpha1.RepositoryURLKey] = []byte(at)
	}
	return s
}

// writtenWithin is how long what belongs to a new credential may take to be written.
const writtenWithin = time.Minute

// Unbroken is a context for writing what belongs to a new credential: the one before it has
// ended, so that an interruption waits until the new one is in its place. That is noted, as another
// one waits for nothing. End is to be called when it is written.
func Unbroken(ctx context.Context, notes io.Writer) (writing context.Context, end func()) {
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writtenWithin)
	noted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(noted)
		fmt.Fprintln(notes, "The new credential is being written: another interruption would lose it.")
	})
	return writing, func() {
		if !stop() {
			<-noted
		}
		cancel()
	}
}

// Lost says of an error that the credential before may have ended, and nobody has the new one.
func Lost(err error) error {
	return &usage.Remains{Err: err, What: "The credential before may have ended, and the new one is lost: run this again"}
}

// Unanswered is an error of a request for a new credential: it is Lost if the backend may have had
// the request, and its answer has not come.
func Unanswered(err error) error {
	var dial *net.OpError
	if !errors.Is(err, controlplane.ErrUnreachable) || errors.As(err, &dial) && dial.Op == "dial" {
		return err
	}
	return Lost(err)
}

// ApplySecret gives the konnector a credential, and leaves nothing of the one before. An apply
// takes away only what it owns, and the konnector owns what it has renewed: what the new one
// lacks is applied empty first. That is so with every Secret that is there already, as the
// konnector may renew meanwhile.
func ApplySecret(ctx context.Context, cluster *appcluster.Cluster, ref v1alpha1.SecretReference, credential *restapi.Credential) (string, error) {
	secret := Secret(ref, credential)
	there := &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta}
	if err := cluster.Get(ctx, client.ObjectKeyFromObject(secret), there); apierrors.IsNotFound(err) {
		return cluster.Apply(ctx, secret)
	} // Apply tells of any other error.
	emptied := secret.DeepCopy()
	for _, key := range v1alpha1.OptionalCredentialKeys() {
		if _, ok := secret.Data[key]; !ok {
			emptied.Data[key] = []byte{}
		}
	}
	line, err := cluster.Apply(ctx, emptied)
	if err != nil {
		return "", err
	}
	_, err = cluster.Apply(ctx, secret)
	return line, err
}
