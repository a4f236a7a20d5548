package request

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
