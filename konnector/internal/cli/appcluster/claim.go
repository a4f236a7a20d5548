package appcluster

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/konnector/internal/choice"
)

// ClaimStatus is what the konnector says of a claim, in status.gitbind.
type ClaimStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
	Commit     string             `json:"commit"`
	Message    string             `json:"message"`
	// Hold is absent while nothing waits for a person.
	Hold *choice.Hold `json:"hold"`
	// Secrets are those of the service that are in the claim's namespace.
	Secrets []DeliveredSecret `json:"secrets"`
}

// DeliveredSecret is a Secret that came from the control plane.
type DeliveredSecret struct {
	Name string `json:"name"`
	// Since is when the control plane made it as it is, in RFC 3339.
	Since string `json:"since"`
}

// StatusOf reads status.gitbind. Of what is no status of ours it is empty: that
// is another tool's doing.
func StatusOf(u *unstructured.Unstructured) ClaimStatus {
	var s struct {
		Status struct {
			Gitbind ClaimStatus `json:"gitbind"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &s); err != nil {
		return ClaimStatus{}
	}
	return s.Status.Gitbind
}

// Current is a condition that is about an object of this generation; nil when
// nobody has looked at that yet.
func Current(conditions []metav1.Condition, kind string, generation int64) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < generation {
		return nil
	}
	return c
}

// True is a condition of a claim as it is now, if it is true; nil otherwise.
func True(u *unstructured.Unstructured, kind string) *metav1.Condition {
	c := Current(StatusOf(u).Conditions, kind, u.GetGeneration())
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// Uncommitted is what keeps a claim from being committed, for example that the Git
// host is out of reach; nil for nothing, and for what only a person can decide.
func Uncommitted(u *unstructured.Unstructured) *metav1.Condition {
	if u == nil {
		return nil
	}
	c := Current(StatusOf(u).Conditions, "Committed", u.GetGeneration())
	if c == nil || c.Status == metav1.ConditionTrue || c.Reason == "Held" {
		return nil
	}
	return c
}
