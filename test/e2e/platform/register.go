package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"gitbind.dev/gitbridge/api/restapi"
)

// Register connects a cluster that does not exist, for whose person an ID token is: it
// has a repository that nobody else pushes to, and a credential for it.
func (p *Platform) Register(ctx context.Context, idToken, name, clusterUID string) (*restapi.Cluster, error) {
	body, err := json.Marshal(restapi.ConnectRequest{Name: name, ClusterUID: clusterUID})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.BackendURL+"/v1/clusters", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+idToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var out restapi.Cluster
	if err := json.Unmarshal(data, &out); err != nil || out.Credential == nil {
		return nil, fmt.Errorf("register cluster %s: %s: %s", name, res.Status, data)
	}
	return &out, nil
}
