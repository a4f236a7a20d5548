package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	backendv1alpha1 "gitbind.dev/backend/api/v1alpha1"
)

// Rotate gives a cluster's konnector a new credential. All that it had before
// end at once.
func (c *Client) Rotate(ctx context.Context, clusterID string) (backendv1alpha1.Credential, error) {
	var out backendv1alpha1.Credential
	if err := c.call(ctx, http.MethodPost, credentialPath(clusterID)+"/rotate", nil, &out); err != nil {
		return out, err
	}
	if out.Username == "" || out.Password == "" {
		return out, fmt.Errorf("%s gave no credential: is its version older than this plugin's?", c.url)
	}
	return out, nil
}

// Revoke ends all credentials of a cluster's konnector at once. Done twice it is
// done once.
func (c *Client) Revoke(ctx context.Context, clusterID string) error {
	return c.call(ctx, http.MethodDelete, credentialPath(clusterID), nil, &struct{}{})
}

func credentialPath(clusterID string) string {
	return "/v1/clusters/" + url.PathEscape(clusterID) + "/credential"
}
