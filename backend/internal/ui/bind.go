package ui

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
)

// bind grants an offer to a cluster and goes to the binding.
func (h *handler) bind(r *http.Request, who login.Identity) (path string, err error) {
	cluster, offer := r.PostForm.Get("cluster"), r.PostForm.Get("offer")
	if cluster == "" || len(validation.IsDNS1123Subdomain(offer)) > 0 {
		return "", refusal.New(refusal.Invalid, "choose a cluster and an offer of the catalogue")
	}
	bound, err := h.Control.Bind(r.Context(), who, cluster, offer)
	if err != nil {
		return "", err
	}
	return bindingPath(cluster, bound.Name) + "?granted=" + offer, nil
}

func clusterPath(id string) string { return "/clusters/" + id }

func bindingPath(id, binding string) string { return clusterPath(id) + "/bindings/" + binding }
