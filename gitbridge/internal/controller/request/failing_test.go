package request

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAFailureIsToldWhenItLasts(t *testing.T) {
	var f failing
	now := time.Now()
	for _, c := range []struct {
		path  string
		after time.Duration
		want  bool
	}{{"a", 0, false}, {"a", time.Second, false}, {"b", 2 * time.Second, false}, {"a", tellFailureAfter, true}, {"b", tellFailureAfter, false}} {
		if got := f.lasts(c.path, now.Add(c.after)); got != c.want {
			t.Errorf("%s after %s: %v", c.path, c.after, got)
		}
	}
	f.works("a")
	if f.lasts("a", now.Add(time.Hour)) {
		t.Error("it worked in between")
	}
}

func TestWordsAreTheServers(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "apiserviceexports"}, "x", errors.New("by a policy"))
	for want, err := range map[string]error{
		"by a policy":     fmt.Errorf("create export x: %w", denied),
		"does not answer": errors.New("connect: connection refused to 10.0.0.1"),
	} {
		if got := words(err); !strings.Contains(got, want) || strings.Contains(got, "10.0.0.1") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
