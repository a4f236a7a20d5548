package controlplane

import (
	"context"
	"net/http"
	"net/url"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// Changes are the proposed changes of a cluster. More says that there are others.
func (c *Client) Changes(ctx context.Context, clusterID string) (changes []restapi.Change, more bool, err error) {
	out := withHeader{body: &changes}
	err = c.call(ctx, http.MethodGet, "/v1/clusters/"+url.PathEscape(clusterID)+"/changes", nil, &out)
	return changes, out.header.Get(restapi.MoreHeader) != "", err
}

// Change is a proposed change as a whole. Its branch is named with its prefix.
func (c *Client) Change(ctx context.Context, clusterID, branch string) (restapi.Change, error) {
	var out restapi.Change
	return out, c.call(ctx, http.MethodGet, "/v1/clusters/"+url.PathEscape(clusterID)+"/"+contract.BranchPath(branch), nil, &out)
}

// Review says what the person thinks of a proposed change.
func (c *Client) Review(ctx context.Context, clusterID string, r restapi.Review) (restapi.Reviewed, error) {
	var out restapi.Reviewed
	return out, c.call(ctx, http.MethodPost, "/v1/clusters/"+url.PathEscape(clusterID)+"/reviews", r, &out)
}
