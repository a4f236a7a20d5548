package backoff

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// After an outage of an API server, or of a Git host, however long it was.
func TestL8_WhatFailedForLongIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	o := Controller(8)
	var wait time.Duration
	for range 100 {
		wait = o.RateLimiter.When(ctrl.Request{})
	}
	if wait > 30*time.Second || o.MaxConcurrentReconciles != 8 {
		t.Errorf("after %s, by %d workers", wait, o.MaxConcurrentReconciles)
	}
	for host := RateLimiter[ctrl.Request](MaxHostWait); host.NumRequeues(ctrl.Request{}) < 100; {
		wait = host.When(ctrl.Request{})
	}
	if wait > 5*time.Minute || wait < time.Minute {
		t.Errorf("after %s, where a Git host elsewhere is asked", wait)
	}
	if wait := Controller(8).RateLimiter.When(ctrl.Request{}); wait > 100*time.Millisecond {
		t.Errorf("what failed in another controller counts: after %s", wait)
	}
}

// The default of controller-runtime is to wait up to 16 minutes and 40 seconds.
func TestL8_AllControllersTryAgainSoon(t *testing.T) {
	t.Parallel()
	controllers := 0
	for _, part := range []string{"backend", "gitbridge", "konnector"} {
		err := filepath.WalkDir(filepath.Join("../..", part), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "backoff" {
				return err
			}
			text, err := os.ReadFile(path)
			made := bytes.Count(text, []byte("ControllerManagedBy(")) + bytes.Count(text, []byte("controller.NewTypedUnmanaged("))
			limited := bytes.Count(text, []byte("\tWithOptions(")) + bytes.Count(text, []byte("\tRateLimiter: "))
			if made != limited || bytes.Contains(text, []byte("controller.Options{")) {
				t.Errorf("%s: a controller has the default rate limiter, not that of backoff.Controller", path)
			}
			controllers += made
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if controllers < 14 {
		t.Errorf("only %d controllers were found", controllers)
	}
}
