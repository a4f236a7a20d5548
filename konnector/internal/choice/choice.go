// Package choice is what a person can decide about a claim that is held, or that
// lost a conflict: the names, what a claim's status offers, and how the answer is
// written on the claim. The agent offers choices and acts on answers, the kubectl
// plugin shows the ones and writes the others.
//
// It decides nothing: which choices a claim has is the agent's decision.
package choice

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Choice is what a person can decide about a claim.
type Choice string

// The choices.
const (
	// Cluster: the object's version is committed.
	Cluster Choice = "cluster"
	// File: the file's version is written to the object.
	File Choice = "file"
	// Delete: the removal goes on.
	Delete Choice = "delete"
	// Release: the object goes, the file stays, and makes a new one.
	Release Choice = "release"
	// Keep: the file comes back from the object.
	Keep Choice = "keep"
)

// All are the choices that there are. Which of them a claim has, its Hold says.
func All() []Choice { return []Choice{Cluster, File, Delete, Release, Keep} }

// Answer is the value of v1alpha1.ResolveAnnotation that takes the choice on what
// a token names.
func (c Choice) Answer(token string) string { return string(c) + "." + token }

// Taken is the choice that an answer takes, out of those that were offered under a
// token; "" when it takes none of them.
func Taken(answer, token string, offered []Choice) Choice {
	i := slices.IndexFunc(offered, func(c Choice) bool { return answer == c.Answer(token) })
	if i < 0 {
		return ""
	}
	return offered[i]
}

// Hold is status.gitbind.hold of a claim: what waits for a person's decision.
type Hold struct {
	Reason string `json:"reason"`
	// Token names exactly what is decided on: after another edit it is another
	// one. It is empty when there is nothing to choose.
	Token   string   `json:"token,omitempty"`
	Choices []Choice `json:"choices,omitempty"`
	// Kept is the branch with the object's version, if that was committed.
	Kept string `json:"kept,omitempty"`
	// File is what main says, as YAML in the canonical form; empty when main has
	// no file there, one that is no claim, or one that is too long to be shown.
	File string `json:"file,omitempty"`
}

// HoldOf is what a claim's status says that a person is to decide; nil for
// nothing.
func HoldOf(u *unstructured.Unstructured) *Hold {
	fields, ok, err := unstructured.NestedMap(u.Object, "status", "gitbind", "hold")
	if err != nil || !ok {
		return nil
	}
	var h Hold
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &h); err != nil {
		return nil
	}
	return &h
}

// Status is the Hold as a claim's status has it.
func (h Hold) Status() map[string]any {
	out := map[string]any{"reason": h.Reason}
	for field, value := range map[string]string{"token": h.Token, "kept": h.Kept, "file": h.File} {
		if value != "" {
			out[field] = value
		}
	}
	if len(h.Choices) > 0 {
		choices := make([]any, len(h.Choices))
		for i, c := range h.Choices {
			choices[i] = string(c)
		}
		out["choices"] = choices
	}
	return out
}
