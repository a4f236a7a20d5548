package connect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backendv1alpha1 "gitbind.dev/backend/api/v1alpha1"
	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

// connectionTo is the Connection to a cluster's place in the control plane.
func connectionTo(in Input, cluster backendv1alpha1.Cluster) *konnectorv1alpha1.Connection {
	return &konnectorv1alpha1.Connection{
		TypeMeta:   metav1.TypeMeta{APIVersion: konnectorv1alpha1.GroupVersion.String(), Kind: "Connection"},
		ObjectMeta: metav1.ObjectMeta{Name: in.Name},
		Spec: konnectorv1alpha1.ConnectionSpec{
			BackendURL:    in.BackendURL,
			RepositoryURL: cluster.RepositoryURL,
			ClusterID:     cluster.ID,
			SecretRef:     konnectorv1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-" + in.Name},
			CABundle:      in.CABundle,
		},
	}
}

// Secret is what the konnector signs in to the repository with.
func Secret(ref konnectorv1alpha1.SecretReference, credential *backendv1alpha1.Credential) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
		Type:       corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey:  []byte(credential.Username),
			corev1.BasicAuthPasswordKey:  []byte(credential.Password),
			konnectorv1alpha1.ExpiresKey: []byte(credential.Expires.UTC().Format(time.RFC3339)),
		},
	}
}
