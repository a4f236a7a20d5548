package ui

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"gitbind.dev/backend/internal/refusal"
)

// maxForm bounds a form: two names.
const maxForm = 4 << 10

// bind grants an offer to a cluster and goes to the binding.
func (h *handler) bind(w http.ResponseWriter, r *http.Request) {
	who, ok := h.Session.Identity(r)
	if !ok {
		h.fail(w, r, errSignedOut())
		return
	}
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Now().Add(pageTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	_ = ctl.SetReadDeadline(time.Time{})
	cluster, offer := r.PostForm.Get("cluster"), r.PostForm.Get("offer")
	if err != nil || cluster == "" || len(validation.IsDNS1123Subdomain(offer)) > 0 {
		h.fail(w, r, refusal.New(refusal.Invalid, "choose a cluster and an offer of the catalogue"))
		return
	}
	bound, err := h.Control.Bind(r.Context(), who, cluster, offer)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	http.Redirect(w, r, bindingPath(cluster, bound.Name)+"?granted="+offer, http.StatusSeeOther)
}

func clusterPath(id string) string { return "/clusters/" + id }

func bindingPath(id, binding string) string { return clusterPath(id) + "/bindings/" + binding }
