package ui

import (
	"context"
	"net/http"
	"strings"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// shareRow is a share in a list.
type shareRow struct {
	ID, Who, Kind, Role string
	// Part is what may be proposed or written, in words.
	Part string
}

// shareRows are the shares of a cluster, for its owner only.
func (h *handler) shareRows(ctx context.Context, who login.Identity, cb *v1alpha1.ClusterBinding) ([]shareRow, error) {
	shares, err := h.Control.Shares(ctx, who, cb.Name)
	if err != nil {
		return nil, err
	}
	var rows []shareRow
	for _, s := range shares {
		line := shareRow{ID: s.ID, Who: visible(s.User), Kind: "user", Role: string(s.Role)}
		if s.Group != "" {
			line.Who, line.Kind = visible(s.Group), "group"
		}
		line.Part = access.Part{Binding: s.Binding, Namespace: s.Namespace}.String()
		rows = append(rows, line)
	}
	return rows, nil
}

// sharedPath is where a cluster's page says who gets at its repository.
func sharedPath(id string) string { return clusterPath(id) + "#shared" }

func (h *handler) share(r *http.Request, who login.Identity) (path string, err error) {
	form := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	share := restapi.Share{Role: restapi.RepositoryRole(form("role")), Binding: form("binding"), Namespace: form("namespace")}
	if share.User = form("who"); form("kind") == "group" {
		share.User, share.Group = "", share.User
	}
	_, err = h.Control.Share(r.Context(), who, form("cluster"), share)
	return sharedPath(form("cluster")), err
}

func (h *handler) unshare(r *http.Request, who login.Identity) (path string, err error) {
	cluster := r.PostForm.Get("cluster")
	return sharedPath(cluster), h.Control.Unshare(r.Context(), who, cluster, r.PostForm.Get("share"))
}
