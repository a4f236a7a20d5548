package renewal

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/backend"
)

// condition says until when the credential counts, and what a person has to do.
// It stays the same while nothing happens. trouble is what failed last.
func condition(conn *v1alpha1.Connection, k kept, n known, trouble error, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionCredential, Status: metav1.ConditionTrue, ObservedGeneration: conn.Generation}
	expires := n.expires
	if expires.IsZero() {
		expires = k.expires
	}
	until := expires.UTC().Format(time.RFC3339)
	const connect = "Connect this cluster again: kubectl gitbind connect."
	switch {
	case n.dead && !k.expires.IsZero() && !now.Before(k.expires):
		c.Status, c.Reason = metav1.ConditionFalse, "Expired"
		c.Message = fmt.Sprintf("It counted until %s. %s What is changed meanwhile is kept, and goes on then.", until, connect)
	case n.dead:
		c.Status, c.Reason = metav1.ConditionFalse, "Revoked"
		c.Message = fmt.Sprintf("The control plane does not take it any more: it was revoked, or replaced elsewhere. %s What is changed meanwhile is kept, and goes on then.", connect)
	case trouble != nil:
		c.Reason, c.Message = "RenewalFails", words(conn, trouble)
		if !expires.IsZero() {
			c.Message = fmt.Sprintf("It counts until %s. %s", until, c.Message)
		}
	case n.expires.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "NotLookedAt", "The backend was not asked yet."
	default:
		c.Reason = "Valid"
		c.Message = fmt.Sprintf("It counts until %s, and is renewed from %s on.", until, n.renewAfter.UTC().Format(time.RFC3339))
	}
	return c
}

// notRenewed is for a credential that this konnector has nobody to renew with.
func notRenewed(conn *v1alpha1.Connection) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionCredential, Status: metav1.ConditionUnknown, Reason: "NotRenewed", ObservedGeneration: conn.Generation,
		Message: "spec.backendURL is empty: the creator of the Secret replaces the credential in time.",
	}
}

func words(conn *v1alpha1.Connection, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("The konnector may not write a new one to Secret %s: its Role %s is missing. Connect this cluster again: kubectl gitbind connect.",
			conn.Spec.SecretRef.Name, v1alpha1.CredentialRole(conn.Name))
	case errors.Is(err, backend.ErrUnsupported):
		return "The backend does not renew it: bring the control plane up to date, or connect this cluster again before then (kubectl gitbind connect)."
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return "The API server does not take a new one. It is tried again."
	}
	return "The backend does not renew it just now. It is tried again."
}
