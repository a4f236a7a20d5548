package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"gitbind.dev/gitbridge/api/restapi"
)

// Rotate gives a cluster's konnector a new credential. All that it had before
// end at once.
func (c *Client) Rotate(ctx context.Context, clusterID string) (restapi.Credential, error) {
	var out restapi.Credential
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
