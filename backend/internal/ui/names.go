package ui

import (
	"context"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// apiNames are what people call the APIs of one cluster, by the name of their
// binding.
type apiNames map[string]string

func namesOf(exports []v1alpha1.APIServiceExport) apiNames {
	offers := map[string]*v1alpha1.Offer{}
	for i := range exports {
		offers[exports[i].Name] = exports[i].Status.Offer
	}
	return v1alpha1.DisplayNames(offers)
}

// of is the name of an API: that of its binding, where nothing else is known.
func (n apiNames) of(binding string) apiName {
	if name, ok := n[binding]; ok && name != "" {
		return apiName{visible(name), binding}
	}
	return apiName{binding, binding}
}

// apiName is the name of an API for people, and the technical one, which commands
// take.
type apiName struct{ Name, Technical string }

// Same tells that there is no other name than the technical one.
func (n apiName) Same() bool { return n.Name == n.Technical }

// names asks for those of a cluster. Without them pages have the technical ones.
func (h *handler) names(ctx context.Context, cb *v1alpha1.ClusterBinding) apiNames {
	exports, err := h.Control.Exports(ctx, cb)
	if err != nil {
		h.Log.ErrorContext(ctx, "Ask for the APIs of a cluster", "cluster", cb.Name, "error", err)
	}
	return namesOf(exports)
}

// group is the heading of an API in the catalogue, "" for none.
func group(e *v1alpha1.APIServiceExport) string {
	if e == nil || e.Status.Offer == nil {
		return ""
	}
	return visible(e.Status.Offer.Group)
}
