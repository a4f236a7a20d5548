package renewal

import (
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
)

// errRefused says that the backend does not take the credential.
var errRefused = errors.New("the backend refuses the credential")

// errUnsupported says that the backend renews nothing.
var errUnsupported = errors.New("the backend does not renew credentials: it may be older than this konnector")

const (
	askTimeout = 20 * time.Second
	maxAnswer  = 64 << 10
)

// backend is the control plane's backend, as a cluster's konnector asks it.
type backend struct {
	url, clusterID string
	http           *http.Client
}

// look asks until when a credential counts. It is also a use of it.
func (b *backend) look(ctx context.Context, user, password string) (restapi.Credential, error) {
	return b.ask(ctx, http.MethodGet, user, password)
}

// renew asks for the next credential. The present one counts until that is used.
func (b *backend) renew(ctx context.Context, user, password string) (restapi.Credential, error) {
	c, err := b.ask(ctx, http.MethodPost, user, password)
	if err == nil && (c.Username == "" || c.Password == "") {
		return c, errUnsupported
	}
	return c, err
}

func (b *backend) ask(ctx context.Context, method, user, password string) (out restapi.Credential, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	path := "/v1/clusters/" + url.PathEscape(b.clusterID) + "/credential"
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(b.url, "/")+path, nil)
	if err != nil {
		return out, err
	}
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(user, password)
	res, err := b.http.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return out, errRefused
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusMethodNotAllowed:
		return out, errUnsupported
	case res.StatusCode != http.StatusOK:
		return out, fmt.Errorf("the backend answered %s", res.Status)
	}
	if json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&out) != nil || out.Expires.IsZero() {
		// What it answered may hold a credential, and is not repeated.
		return out, errUnsupported
	}
	return out, nil
}
