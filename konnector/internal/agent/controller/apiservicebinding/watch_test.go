package apiservicebinding

import (
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/informers/informerstest"
)

// slowManager is of an API server that cannot say at first where objects are.
type slowManager struct {
	ctrl.Manager
	meta.RESTMapper
	server http.Handler
	asked  int
}

func (m *slowManager) GetConfig() *rest.Config        { return &rest.Config{} }
func (m *slowManager) GetHTTPClient() *http.Client    { return &http.Client{Transport: m} }
func (m *slowManager) GetScheme() *runtime.Scheme     { return clientgoscheme.Scheme }
func (m *slowManager) GetRESTMapper() meta.RESTMapper { return m }

func (m *slowManager) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.asked++; m.asked == 1 {
		return nil, errors.New("the server is currently unable to handle the request")
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// RoundTrip asks the server without a network, on which the clock of a test would wait.
func (m *slowManager) RoundTrip(r *http.Request) (*http.Response, error) {
	body, to := io.Pipe()
	go func() {
		m.server.ServeHTTP(answer{header: http.Header{}, Writer: to}, r)
		_ = to.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

// answer is one that is well.
type answer struct {
	header http.Header
	io.Writer
}

func (a answer) Header() http.Header { return a.header }
func (a answer) WriteHeader(int)     {}

func TestPoliciesAreWatchedThoughTheAPIServerWasSlowAtTheStart(t *testing.T) {
	t.Parallel()
	kind := admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
	policy, err := json.Marshal(&admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector},
			OwnerReferences: []metav1.OwnerReference{{Name: binding}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeRoot)
	server := &informerstest.Server{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Objects: func() iter.Seq[[]byte] { return slices.Values([][]byte{policy}) }}
	synctest.Test(t, func(t *testing.T) {
		mgr := &slowManager{RESTMapper: mapper, server: server}
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
		defer q.ShutDown()
		if err := watchPolicies(t.Context(), mgr, q); err != nil {
			t.Fatal(err)
		}
		asked := make(chan string, 1)
		go func() {
			req, _ := q.Get()
			asked <- req.Name
		}()
		select {
		case name := <-asked:
			if name != binding {
				t.Errorf("looked at %s", name)
			}
		case <-time.After(time.Minute):
			t.Error("a minute later, no policy is watched")
		}
	})
}
