package connection

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/repository"
)

// ready is the condition Ready: one word for programs, and for people what to
// do.
func ready(repo *repository.Repository, p *problem) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	if p != nil {
		return no(p.reason, p.message)
	}
	h := repo.Health()
	switch {
	case h.Err() != nil:
		return no(repository.Explain(h.Err()))
	case connecting(repo):
		return no("Connecting", "The repository is being read.")
	case h.Replaced != "":
		return no("HistoryReplaced", h.Replaced)
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Connected",
		Message: "The repository is followed.",
	}
}

// connecting: neither does it work yet, nor has anything failed.
func connecting(repo *repository.Repository) bool {
	h := repo.Health()
	return h.Err() == nil && !h.Contacted
}

// events is the condition Events.
func events(conn *v1alpha1.Connection, repo *repository.Repository, p *problem) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionEvents, Status: metav1.ConditionFalse}
	switch {
	case conn.Spec.BackendURL == "":
		c.Reason, c.Message = "NotConfigured", "spec.backendURL is empty: changes in Git are found within a minute."
	case repo == nil, p != nil:
		c.Reason, c.Message = "NotConnected", "Changes in Git are not followed."
	default:
		switch err := repo.Health().Events; {
		case err == nil:
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Connected", "Changes in Git are found at once."
		case errors.Is(err, store.ErrUnauthorized):
			c.Reason, c.Message = repository.ReasonCredentialRefused, "The backend refuses the credential: changes in Git are found within a minute. Connect this cluster again (kubectl gitbind connect)."
		default:
			c.Reason, c.Message = "BackendUnreachable", "The backend does not answer: changes in Git are found within a minute. It is tried again by itself."
		}
	}
	return c
}
