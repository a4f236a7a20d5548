// Package backend asks the backend of a Connection's control plane, as the konnector of
// its app cluster. It follows no redirects, and repeats nothing of an answer that it
// does not understand: it may hold a credential.
package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/repository"
)

// ErrRefused says that the backend does not take the credential.
var ErrRefused = errors.New("the backend refuses the credential")

// ErrUnsupported says that the backend does not know what it was asked. Of what is in front of
// the backend, and answers in its place while it is away, nothing like that is concluded.
var ErrUnsupported = errors.New("the backend does not know this: it may be older than this konnector")

const (
	askTimeout = 20 * time.Second
	maxAnswer  = 64 << 10
)

// Backend is one control plane's.
type Backend struct {
	url, clusterID string
	http           *http.Client
}

// Of is how a Connection's backend is asked. Guard, if not nil, is put around what
// sends requests. The caller calls done.
func Of(conn *v1alpha1.Connection, guard func(http.RoundTripper) http.RoundTripper) (b *Backend, done func(), err error) {
	roots, err := repository.Roots(conn.Spec.CABundle)
	if err != nil {
		return nil, nil, err
	}
	transport := repository.Transport(roots)
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if guard != nil {
		c.Transport = guard(transport)
	}
	return &Backend{url: conn.Spec.BackendURL, clusterID: conn.Spec.ClusterID, http: c}, transport.CloseIdleConnections, nil
}

// Ask asks about one thing of the cluster, for example "credential", with its
// konnector's credential. Body, if not nil, is sent, and the answer is read into out.
func (b *Backend) Ask(ctx context.Context, method, thing, user, password string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	path := "/v1/clusters/" + url.PathEscape(b.clusterID) + "/" + thing
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(b.url, "/")+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.SetBasicAuth(user, password)
	res, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return ErrRefused
	case http.StatusOK:
		if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
			return fmt.Errorf("what answers at %s is not the backend: %w", b.url, err)
		}
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode == http.StatusNotFound && restapi.IsError(res.Header.Get("Content-Type"), text) {
		return ErrUnsupported
	}
	return fmt.Errorf("the backend answered %s", res.Status)
}
