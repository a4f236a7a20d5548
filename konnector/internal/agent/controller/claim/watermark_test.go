package claim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versions is an API server of which only the newest resourceVersion is asked.
type versions struct {
	client.Reader
	newest string
	err    error
	asked  int
}

func (v *versions) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	v.asked++
	list.SetResourceVersion(v.newest)
	return v.err
}

func TestOnlyWhatWasWrittenAfterTheWatermarkIsCommittedFromTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Database"}
		server := &versions{newest: "100", err: errors.New("away")}
		b := &watermark{}
		precedes := func(version string, want bool) {
			t.Helper()
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetResourceVersion(version)
			got, err := b.precedes(t.Context(), server, kind, u)
			if got != want || err != nil && !errors.Is(err, server.err) {
				t.Errorf("an object of %s: %v, %v", version, got, err)
			}
		}
		precedes("101", false)
		server.err = nil
		precedes("99", false)
		precedes("100", false)
		precedes("101", true)
		precedes("1000", true)
		precedes("no version", false)
		if server.asked != 2 {
			t.Errorf("asked %d times", server.asked)
		}
		b.delay()
		server.newest = "200"
		precedes("1000", false)
		time.Sleep(oldWatches)
		precedes("200", false)
		precedes("201", true)
		if server.asked != 3 {
			t.Errorf("asked %d times", server.asked)
		}
	})
}
