package chaos

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gitbind.dev/test/env"
)

// hooked is a field that the webhook adds to each object that has none.
const hooked = "hooked"

// webhook is somebody else's admission webhook in the app cluster, for one API: it
// adds a field, and at random it refuses a write, or breaks.
type webhook struct {
	server *httptest.Server

	mu sync.Mutex
	// rng is nil as long as each write is let through.
	rng *rand.Rand
}

func (r *run) installWebhook(ctx context.Context, a *api) error {
	r.webhook = &webhook{}
	r.webhook.server = httptest.NewUnstartedServer(http.HandlerFunc(r.webhook.serve))
	r.webhook.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.webhook.server.StartTLS()
	client, err := kubernetes.NewForConfig(r.Cluster(env.App).Config())
	if err != nil {
		return err
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "chaos"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "webhook.chaos.example", AdmissionReviewVersions: []string{"v1"},
			SideEffects:   new(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy: new(admissionregistrationv1.Fail),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(r.webhook.server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.webhook.server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{a.resource.Group}, APIVersions: []string{"*"}, Resources: []string{a.resource.Resource}},
			}},
		}},
	}
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	return err
}

// trouble has the webhook refuse and break, by chance, or let all through for nil.
func (w *webhook) trouble(rng *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rng = rng
}

// roll is from 0 to 99, and 99 when nothing is to go wrong.
func (w *webhook) roll() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rng == nil {
		return 99
	}
	return w.rng.IntN(100)
}

func (w *webhook) serve(answer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(answer, "no review", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	switch roll := w.roll(); {
	case roll < 3:
		http.Error(answer, "the webhook is broken", http.StatusInternalServerError)
		return
	case roll < 6:
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not now"}
	default:
		review.Response.Patch = addHooked(review.Request.Object.Raw)
		review.Response.PatchType = new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request = nil
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(review)
}

// addHooked is a JSON patch that adds the field to an object without it.
func addHooked(object []byte) []byte {
	var u struct {
		Spec struct {
			Cluster map[string]string `json:"cluster"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object, &u); err != nil || u.Spec.Cluster[hooked] != "" {
		return []byte("[]")
	}
	if u.Spec.Cluster == nil {
		return fmt.Appendf(nil, `[{"op":"add","path":"/spec/cluster","value":{%q:"yes"}}]`, hooked)
	}
	return fmt.Appendf(nil, `[{"op":"add","path":"/spec/cluster/%s","value":"yes"}]`, hooked)
}
