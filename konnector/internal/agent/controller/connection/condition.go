package connection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
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
	case h.Copied != "":
		return no(repository.ReasonCopied, h.Copied)
	case h.Err() != nil:
		return no(repository.Explain(h.Err()))
	case connecting(repo):
		return no("Connecting", "The repository is being read.")
	case h.Replaced != "":
		return no("HistoryReplaced", h.Replaced)
	case h.StatusReplaced != "":
		return no("StatusReplaced", h.StatusReplaced)
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Connected",
		Message: "The repository is followed.",
	}
}

// removals is the condition Removals.
func removals(l breaker.Limits, files, objects int, at store.Hash) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionRemovals, Status: metav1.ConditionTrue, Reason: "NoneHeld", Message: "No removal waits for an approval."}
	var what []string
	if files > 0 {
		what = append(what, fmt.Sprintf("the files of %d claims are gone from main", files))
	}
	if objects > 0 {
		what = append(what, fmt.Sprintf("%d claims are being deleted here", objects))
	}
	if len(what) == 0 {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, "TooManyAtOnce"
	c.Message = fmt.Sprintf("Held: %s, in all more than %d within %s, or at least half of a binding. No service is deleted for them. If all of that is right: kubectl gitbind approve --removals %s. Each one alone: kubectl gitbind resolve.",
		strings.Join(what, " and "), l.Most, duration.HumanDuration(l.Window), at)
	return c
}

// requests is the condition Requests, nil when all that main asks for is this
// Connection's: an API belongs to one.
func requests(conn *v1alpha1.Connection, asked []string, bindings []v1alpha1.APIServiceBinding) *metav1.Condition {
	var elsewhere []string
	for _, b := range bindings {
		if b.Spec.Connection != conn.Name && slices.Contains(asked, b.Name) {
			elsewhere = append(elsewhere, fmt.Sprintf("%s (Connection %s)", b.Name, b.Spec.Connection))
		}
	}
	if len(elsewhere) == 0 {
		return nil
	}
	slices.Sort(elsewhere)
	return &metav1.Condition{Type: v1alpha1.ConditionRequests, Status: metav1.ConditionFalse, Reason: "BoundElsewhere", Message: fmt.Sprintf(
		"main asks for APIs that are bound to another control plane: %s. An API belongs to one: its claims in this repository are not followed. Remove the request.yaml here, or unbind the API there.", strings.Join(elsewhere, ", "))}
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
