// Package webhook is somebody else's mutating admission webhook for one API of a
// cluster in a test: a real API server asks it about each object that is created or
// updated. What it answers is the test's.
package webhook

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Answer is a JSON patch for an object in JSON, "[]" to leave it as it is. An error
// refuses the object in its words; ErrBroken is a webhook that fails.
type Answer func(object []byte) (patch []byte, err error)

// ErrBroken is the answer of a webhook that fails.
var ErrBroken = errors.New("the webhook is broken")

// Install serves a webhook and registers it in a cluster under a name. The API server
// begins to ask a moment later. The caller closes the server.
func Install(ctx context.Context, cluster *rest.Config, name string, api schema.GroupResource, answer Answer) (*httptest.Server, error) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	if err := register(ctx, cluster, name, api, server); err != nil {
		server.Close()
		return nil, fmt.Errorf("install webhook %s: %w", name, err)
	}
	return server, nil
}

func register(ctx context.Context, cluster *rest.Config, name string, api schema.GroupResource, server *httptest.Server) error {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return err
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "webhook." + name + ".example", AdmissionReviewVersions: []string{"v1"},
			SideEffects:   new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: new(admissionregistrationv1.Fail),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{api.Group}, APIVersions: []string{"*"}, Resources: []string{api.Resource}},
			}},
		}},
	}
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	return err
}

func (a Answer) serve(w http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	patch, err := a(review.Request.Object.Raw)
	switch {
	case errors.Is(err, ErrBroken):
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case err != nil:
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: err.Error()}
	default:
		review.Response.Patch, review.Response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
