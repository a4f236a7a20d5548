package controlplane

import (
	"context"
	"net/http"
	"net/url"

	"gitbind.dev/gitbridge/api/restapi"
)

// Shares are those by which others get at a cluster's repository.
func (c *Client) Shares(ctx context.Context, clusterID string) ([]restapi.Share, error) {
	var out []restapi.Share
	return out, c.call(ctx, http.MethodGet, sharesPath(clusterID), nil, &out)
}

// Share lets somebody at a cluster's repository. Done twice it is done once. The answer
// has the names in full.
func (c *Client) Share(ctx context.Context, clusterID string, share restapi.Share) (restapi.Share, error) {
	var out restapi.Share
	return out, c.call(ctx, http.MethodPost, sharesPath(clusterID), share, &out)
}

// Unshare takes a share back.
func (c *Client) Unshare(ctx context.Context, clusterID, id string) error {
	return c.call(ctx, http.MethodDelete, sharesPath(clusterID)+"/"+url.PathEscape(id), nil, &struct{}{})
}

func sharesPath(clusterID string) string {
	return "/v1/clusters/" + url.PathEscape(clusterID) + "/shares"
}

// Transfer offers a cluster to another user, or to nobody any more.
func (c *Client) Transfer(ctx context.Context, clusterID, to string) (restapi.Cluster, error) {
	var out restapi.Cluster
	return out, c.call(ctx, http.MethodPost, transferPath(clusterID), restapi.TransferRequest{To: to}, &out)
}

// AcceptTransfer makes the person the owner of a cluster that is offered to them.
func (c *Client) AcceptTransfer(ctx context.Context, clusterID string) (restapi.Cluster, error) {
	var out restapi.Cluster
	return out, c.call(ctx, http.MethodPost, transferPath(clusterID)+"/accept", nil, &out)
}

func transferPath(clusterID string) string {
	return "/v1/clusters/" + url.PathEscape(clusterID) + "/transfer"
}
