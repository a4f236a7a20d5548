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
	var out restapi.Cluster
	err := p.Ask(ctx, idToken, http.MethodPost, "/v1/clusters", restapi.ConnectRequest{Name: name, ClusterUID: clusterUID}, &out)
	if err == nil && out.Credential == nil {
		err = fmt.Errorf("register cluster %s: it has no credential", name)
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// StatusError is an answer of the backend's that is no success.
type StatusError struct {
	Code  int
	words string
}

func (e *StatusError) Error() string { return e.words }

// Ask asks the backend as the person for whom an ID token is, with in as JSON, and reads the
// answer into out. An answer that is no success is an error.
func (p *Platform) Ask(ctx context.Context, idToken, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.BackendURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+idToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return &StatusError{Code: res.StatusCode, words: fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, data)}
	}
	return json.Unmarshal(data, out)
}
