package claim

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"gitbind.dev/test/fakeapi"
)

// Who denies chooses the code, and some of them mean other things where the API server itself
// gives them.
func TestADenialIsARefusalWhateverItsCode(t *testing.T) {
	r := &reconciler{}
	for _, code := range []int32{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTeapot} {
		denied := webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "not on Fridays", Code: code})
		var refusal *refusedError
		if err := r.refused(inStep(), denied); !errors.As(err, &refusal) || refusal.file != `admission webhook "hook.example.org" denied the request: not on Fridays` {
			t.Errorf("%d: %v", code, err)
		}
		if err := moved(denied); errors.Is(err, errMoved) {
			t.Errorf("%d: it is taken for another version of the object", code)
		}
	}
	if !isTrouble(denied(fakeapi.PolicyDenies(schema.GroupResource{Resource: "databases"}, "orders", "freeze", "not now"))) {
		t.Error("nobody is told what the konnector may not note")
	}
	if reason, message := explain(denied(fakeapi.PolicyDenies(schema.GroupResource{Resource: "databases"}, "orders", "freeze", "not now"))); reason != "Denied" || !strings.Contains(message, "not now") {
		t.Errorf("%s: %s", reason, message)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "databases"}, "orders", errors.New("the object has been modified"))
	if err := r.refused(inStep(), conflict); !errors.Is(err, errMoved) {
		t.Errorf("another version: %v", err)
	}
}
