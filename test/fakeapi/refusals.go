package fakeapi

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PolicyDenies is the no of a ValidatingAdmissionPolicy, whose binding has its name.
func PolicyDenies(of schema.GroupResource, name, policy, message string) error {
	words := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", policy, policy, message)
	err := apierrors.NewForbidden(of, name, errors.New(words))
	err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: words}}
	return err
}

// NamespaceEnds is the no to what is to be made in a namespace that is being deleted.
func NamespaceEnds(of schema.GroupResource, name, namespace string) error {
	err := apierrors.NewForbidden(of, name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
	}}
	return err
}

// WebhookFails is the no to all that a webhook is asked about which does not answer.
func WebhookFails(webhook, why string) error {
	return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: failed to call webhook: %s", webhook, why))
}

// UndeclaredField is the no to an apply of an object with a field that its kind has not, ".spec.x".
// It has no reason, however strictly fields are validated.
func UndeclaredField(kind schema.GroupVersionKind, namespace, name, field string) error {
	return unexplained(fmt.Sprintf("failed to create typed patch object (%s/%s; %s, Kind=%s): %s: field not declared in schema", namespace, name, kind.GroupVersion(), kind.Kind, field))
}

// TooLarge is the no to an object that etcd does not take.
func TooLarge() error { return unexplained("etcdserver: request is too large") }

// unexplained is an error within the API server that is no status.
func unexplained(words string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: words}}
}
