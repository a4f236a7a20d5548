package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"gitbind.dev/backend/internal/githost"
)

// refusal is an answer that is no success.
type refusal struct {
	status int
	// words are the host's own, and location is where it sends the client instead.
	words, location string
}

func (e *refusal) Error() string {
	return fmt.Sprintf("%d %s: %s", e.status, http.StatusText(e.status), e.words)
}

// status is that of a refusal, 0 for everything else.
func status(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

func isNotFound(err error) bool { return status(err) == http.StatusNotFound }

// trouble says what could not be done, and why if that is the operator's to mend.
func trouble(what string, err error) error {
	if err == nil {
		return nil
	}
	if code := status(err); code == http.StatusUnauthorized || code == http.StatusForbidden {
		err = fmt.Errorf("%w (%w)", githost.ErrCredential, err)
	}
	return fmt.Errorf("gitlab: %s: %w", what, err)
}

// maxWords is how much of a refusal's own words is read, in bytes.
const maxWords = 1 << 10

// call asks the host's API: in goes as JSON, nil for nothing, and the answer is read into out,
// nil for none. Next is the number of the next page of a list, 0 after the last.
func (h *Host) call(ctx context.Context, method, path string, in, out any) (next int, err error) {
	token, err := h.cfg.Token()
	if err != nil {
		return 0, fmt.Errorf("read the token: %w", err)
	}
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, h.cfg.URL+"/api/v4"+path, body)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Private-Token", token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := h.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		words, _ := io.ReadAll(io.LimitReader(answer.Body, maxWords))
		return 0, &refusal{answer.StatusCode, strings.TrimSpace(string(words)), answer.Header.Get("Location")}
	}
	if out != nil {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			return 0, fmt.Errorf("read the answer to %s %s: %w", method, path, err)
		}
	}
	next, _ = strconv.Atoi(answer.Header.Get("X-Next-Page"))
	return next, nil
}

// get reads one thing, and send changes or makes one.
func (h *Host) get(ctx context.Context, path string, out any) error {
	_, err := h.call(ctx, http.MethodGet, path, nil, out)
	return err
}

func (h *Host) send(ctx context.Context, method, path string, in, out any) error {
	_, err := h.call(ctx, method, path, in, out)
	return err
}

// list reads a whole list, page by page. A filter is "" or begins with "&".
func list[T any](ctx context.Context, h *Host, path, filter string) ([]T, error) {
	var all []T
	for page := 1; page != 0; {
		var some []T
		next, err := h.call(ctx, http.MethodGet, fmt.Sprintf("%s?per_page=100&page=%d%s", path, page, filter), nil, &some)
		if err != nil {
			return nil, err
		}
		all, page = append(all, some...), next
	}
	return all, nil
}

// project is the path of a cluster's project in the API.
func (h *Host) project(id string) string { return "/projects/" + url.PathEscape(h.path(id)) }
