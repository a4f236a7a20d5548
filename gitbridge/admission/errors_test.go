package admission

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"gitbind.dev/test/fakeapi"
)

// A webhook's "conflict" is no reason to look at the object again, and at once.
func TestStale(t *testing.T) {
	t.Parallel()
	databases := schema.GroupResource{Group: "example.org", Resource: "databases"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"another version":              {apierrors.NewConflict(databases, "orders", errors.New("the object has been modified")), true},
		"none":                         {fmt.Errorf("apply: %w", apierrors.NewNotFound(databases, "orders")), true},
		"a webhook that says so":       {webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: http.StatusConflict}), false},
		"a webhook that knows of none": {webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: http.StatusNotFound}), false},
		"nothing":                      {nil, false},
	} {
		if got := Stale(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	databases := schema.GroupResource{Group: "example.org", Resource: "databases"}
	said := func(code int32) error {
		return webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: code})
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a webhook":                       {said(http.StatusForbidden), true},
		"a webhook that says nothing":     {webhookerrors.ToStatusErr("hook.example.org", nil), true},
		"a webhook that says conflict":    {fmt.Errorf("apply: %w", said(http.StatusConflict)), true},
		"a policy":                        {fakeapi.PolicyDenies(databases, "orders", "p", "no"), true},
		"a webhook that does not answer":  {fakeapi.WebhookFails("hook.example.org", "refused"), false},
		"another version":                 {apierrors.NewConflict(databases, "orders", errors.New("the object has been modified")), false},
		"no right":                        {apierrors.NewForbidden(databases, "orders", errors.New("no right")), false},
		"a value that speaks of one":      {apierrors.NewBadRequest(`spec.note: "admission webhook "x" denied the request"`), false},
		"a value that speaks of a policy": {apierrors.NewBadRequest(`spec.note: ValidatingAdmissionPolicy 'p' with binding 'p' denied request`), false},
		"no API server":                   {errors.New(`admission webhook "x" denied the request`), false},
		"nothing":                         {nil, false},
	} {
		if got := Denied(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
