package env

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// httpReady tells that a URL answers with 200.
func httpReady(url string, client *http.Client) func(context.Context) error {
	if client == nil {
		client = http.DefaultClient
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return nil
	}
}

// until waits until check says true. Both an error of check, which may pass,
// and false mean to ask again; the last one is in the error when ctx is done.
func until(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	for {
		ok, err := check(ctx)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("wait for %s: %w (%w)", what, err, context.Cause(ctx))
			}
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-time.After(readyInterval):
		}
	}
}
