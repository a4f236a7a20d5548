package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/app"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/test/env"
)

const clusterID = "k3x9d2abqw"

func gitstoreCredentials(context.Context) (string, string, error) { return user, password, nil }

var worlds atomic.Int64

// world is one Connection with one bound API in the shared cluster, its
// repository, a person and a bridge. The bridge writes to status what the test
// says, by the rules of the contract.
type world struct {
	*testing.T
	*cluster
	host       *host
	name       string
	plural     string
	group      string
	binding    string
	namespace  string
	kind       schema.GroupVersionKind
	connection *v1alpha1.Connection
	person     store.Branch
	bridge     store.Branch
	writes     *writes
	// metrics is where /metrics is served; "" for nowhere.
	metrics string
	// opener opens Secrets; nil for the Connections' keys.
	opener func(connection string) *encryption.Opener
	// now is the konnector's clock; nil for the right one.
	now  func() time.Time
	stop func()
	// metadataKeys are those of the published export.
	metadataKeys []string
	// offer is what it says for people.
	offer *v1alpha1.Offer
	// inputs are what it has go up, and sender seals that; nil for the Connections' keys.
	inputs []v1alpha1.PermissionClaim
	sender func(connection string) *encryption.Sender
	// changes is how changes come to main.
	changes v1alpha1.Changes
	// policies are those of the offer.
	policies []runtime.RawExtension
}

// newWorld makes everything but the konnector's process.
func newWorld(t *testing.T) *world { return newWorldIn(t, clusters.Take(t)) }

func newWorldIn(t *testing.T, c *cluster) *world {
	n := worlds.Add(1)
	w := &world{
		T: t, cluster: c, host: newHost(t), name: fmt.Sprintf("w%d", n),
		plural: "postgresqlinstances", group: fmt.Sprintf("w%d.example.org", n),
		namespace: fmt.Sprintf("team-w%d", n), writes: &writes{},
	}
	w.binding = w.plural + "." + w.group
	w.kind = schema.GroupVersionKind{Group: w.group, Version: "v1", Kind: "PostgresqlInstance"}
	w.person = w.host.open("Ada", "ada@example.org").Branch("main")
	bridgeName, bridgeEmail := contract.BridgeIdentity()
	w.bridge = w.host.open(bridgeName, bridgeEmail).Branch("status")
	w.must(c.client.Create(t.Context(), namespace(w.namespace)))
	w.must(c.grant(t.Context(), w.plural, w.group))
	w.connection = &v1alpha1.Connection{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: v1alpha1.ConnectionSpec{
			BackendURL: w.host.Server.URL, RepositoryURL: w.host.url(), ClusterID: clusterID,
			SecretRef: v1alpha1.SecretReference{Namespace: "gitbind-system", Name: w.name},
		},
	}
	t.Cleanup(func() {
		if w.stop != nil {
			w.stop()
		}
	})
	return w
}

// newLoop is a world in which the API is bound and the konnector runs.
func newLoop(t *testing.T) *world { return newWorld(t).loop() }

// newAttributedLoop has the attribution policy turned on, as
// `kubectl gitbind bind` does. That takes the API server some seconds.
func newAttributedLoop(t *testing.T) *world {
	w := newWorld(t)
	w.must(w.client.Create(t.Context(), attribution.ForBinding(w.group, w.plural)))
	return w.loop()
}

func (w *world) loop() *world {
	w.publish(nil)
	return w.loopPublished()
}

// loopPublished is loop for an API that the test has published.
func (w *world) loopPublished() *world {
	w.begin()
	w.ready()
	return w
}

func (w *world) begin() {
	w.must(w.client.Create(w.Context(), w.secret()))
	w.must(w.client.Create(w.Context(), w.connection))
	w.bind()
	w.start()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) secret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gitbind-system", Name: w.name},
		StringData: map[string]string{"username": user, "password": password},
	}
}

func (w *world) bind() {
	w.Helper()
	w.must(w.client.Create(w.Context(), w.unbound()))
}

// start runs the konnector, as its own ServiceAccount.
func (w *world) start() {
	w.Helper()
	config := rest.CopyConfig(w.konnector)
	config.Wrap(w.writes.count)
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), testr.NewWithOptions(w.T, testr.Options{LogTimestamp: true})))
	done := make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{
			Options: program.Options{MetricsListen: w.metrics},
			Config:  config, Namespace: "gitbind-system", Workers: 256, Now: w.now, Opener: w.opener, Sender: w.sender,
		})
	}()
	w.stop = func() {
		w.stop = nil
		cancel()
		if err := <-done; err != nil {
			w.Errorf("konnector: %v", err)
		}
	}
}

// ready waits until claims are worked on, and until the API server lets people make
// them and, where the attribution policy is bound, says who did: it looks only every few
// seconds for new schemas that a MutatingAdmissionPolicy needs.
func (w *world) ready() {
	w.Helper()
	w.bindingIs("Bound")
	w.eventually("the definition has an old date", func() error { return env.Backdate(w.Context(), w.client, w.binding) })
	policy := attribution.ForBinding(w.group, w.plural)
	attributed := w.client.Get(w.Context(), client.ObjectKeyFromObject(policy), policy) == nil
	most := 200 * time.Millisecond
	w.eventually("claims can be made", func() error {
		// Until the API server has seen that date, it would wait.
		ctx, cancel := context.WithTimeout(w.Context(), most)
		defer cancel()
		most = min(2*most, 5*time.Second)
		o := w.object("attempt", spec("small"))
		if err := w.alice.Create(ctx, o, client.DryRunAll); err != nil {
			return err
		}
		if attributed && o.GetAnnotations()[v1alpha1.ChangedByAnnotation] == "" {
			return errors.New("the attribution policy is not at work yet")
		}
		return nil
	})
}

// bindingIs waits until a binding is ready, or not, for a reason. An API server that has just begun
// to serve a kind may send nothing of it for 45 s; the konnector starts over after a minute.
func (w *world) bindingIs(reason string) (message string) {
	w.Helper()
	most := patience
	if reason == "Bound" {
		most = patienceAtStart
	}
	w.await(most, "binding is "+reason, func() error { return w.bindingReason(reason, &message) })
	return message
}

func (w *world) bindingReason(reason string, message *string) error {
	b := &v1alpha1.APIServiceBinding{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, b); err != nil {
		return err
	}
	return hasReason(b.Status.Conditions, "Ready", reason, message)
}

func (w *world) connectionIs(reason string) (message string) {
	w.Helper()
	w.eventually("connection is "+reason, func() error {
		return hasReason(w.getConnection().Status.Conditions, "Ready", reason, &message)
	})
	return message
}

func (w *world) getConnection() *v1alpha1.Connection {
	w.Helper()
	c := &v1alpha1.Connection{}
	w.must(w.client.Get(w.Context(), client.ObjectKey{Name: w.name}, c))
	return c
}

func hasReason(conditions []metav1.Condition, kind, reason string, message *string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return errors.New("no condition")
	}
	if *message = c.Message; c.Reason != reason {
		return fmt.Errorf("it is %s: %s", c.Reason, c.Message)
	}
	return nil
}

// eventually looks until there is no error any more. It ends before a poll would
// do what an event is to do.
// patience is how long the konnector may take to do what is expected, and patienceAtStart how long
// it may take where an API server has just begun to serve a kind, or a garbage collector to work.
const patience, patienceAtStart = 45 * time.Second, 2 * time.Minute

func (w *world) eventually(what string, look func() error) {
	w.Helper()
	w.await(patience, what, look)
}

func (w *world) await(most time.Duration, what string, look func() error) {
	w.Helper()
	if err := env.Await(most, look); err != nil {
		w.Fatalf("never: %s: %v", what, err)
	}
}

// never is for what must not happen, so there is nothing to wait for: it has the konnector
// look, and fails when something is the case after all.
func (w *world) never(what string, happened func() bool) {
	w.Helper()
	w.looks()
	if happened() {
		w.Fatalf("it happened: %s", what)
	}
}

// looks waits until the konnector has said something of a claim that is made now. By then it
// has looked at all that the API server told it before, also after a restart. What the
// branches got before it may be told of later. The claim is left out of writes, log and
// changedSince.
func (w *world) looks() {
	w.Helper()
	u := w.object("", spec("small"))
	u.SetGenerateName(besideName)
	w.must(w.alice.Create(w.Context(), u))
	w.eventually("the konnector looks", func() error {
		if _, reason, _ := condition(w.get(u.GetName()), "Committed"); reason == "" {
			return errors.New("it has not")
		}
		return nil
	})
}

// The claims of looks are named besideName and more; notBeside leaves their files out.
const (
	besideName = "beside-"
	notBeside  = ":(exclude,glob)bindings/*/claims/*/" + besideName + "*"
)

// writes counts the konnector's writes, by verb and resource.
type writes struct {
	mu  sync.Mutex
	all []string
	// reviews counts how often it asked for its rights.
	reviews int
	// refuse, if set, says which requests get no answer.
	refuse func(r *http.Request) bool
}

func (w *writes) refuseIf(refuse func(r *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *writes) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, "accessreviews") {
			w.mu.Lock()
			w.reviews++
			w.mu.Unlock()
		}
		// Before it is sent, as its effect may be seen before the answer is.
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "accessreviews") && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "/"+besideName) {
			w.mu.Lock()
			w.all = append(w.all, r.Method+" "+r.URL.Path)
			refused := w.refuse != nil && w.refuse(r)
			w.mu.Unlock()
			if refused {
				return nil, errors.New("no answer")
			}
		}
		return next.RoundTrip(r)
	})
}

// take returns what was written to objects since the last time.
func (w *writes) take(group string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	w.all = slices.DeleteFunc(w.all, func(s string) bool {
		if strings.Contains(s, "/apis/"+group+"/") {
			out = append(out, s)
			return true
		}
		return group == ""
	})
	return out
}

func (w *writes) takeAll() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.all
	w.all = nil
	return out
}

// definition is the API's CRD, as the bridge publishes it.
func (w *world) definition() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	conditions := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}}
	var crd apiextensionsv1.CustomResourceDefinition
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	crd.Name = w.binding
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: w.group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: w.plural, Singular: "postgresqlinstance", Kind: w.kind.Kind},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Required: []string{"service"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"service": text,
						"plan":    {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"small"`)}, {Raw: []byte(`"medium"`)}, {Raw: []byte(`"big"`)}}},
						"expose":  {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"Internal"`)}},
						"parameters": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"maxConnections": {Type: "integer"}, "logStatement": text,
						}},
					}},
					"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"managed":    {Type: "object", XPreserveUnknownFields: new(true)},
						"conditions": conditions,
						// Other fields of it have no place but what the konnector makes.
						"gitbind": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"commit": text, "message": text, "conditions": conditions}},
					}},
				},
			}},
		}},
	}
	return &crd
}

// publish writes the export to status.
func (w *world) publish(change func(*apiextensionsv1.CustomResourceDefinition)) {
	w.Helper()
	crd := w.definition()
	if change != nil {
		change(crd)
	}
	raw, err := json.Marshal(crd)
	w.must(err)
	data, err := yaml.Marshal(&v1alpha1.APIServiceExport{
		TypeMeta:   metav1.TypeMeta{APIVersion: "gitbind.dev/v1alpha1", Kind: "APIServiceExport"},
		ObjectMeta: metav1.ObjectMeta{Name: w.binding},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "postgresql", API: v1alpha1.ExportedAPI{Group: w.group, Version: "v1", Resource: w.plural}},
		Status: v1alpha1.APIServiceExportStatus{
			CRD: &runtime.RawExtension{Raw: raw}, MetadataKeys: w.metadataKeys, Inputs: w.inputs, Changes: w.changes, Offer: w.offer, Policies: w.policies,
		},
	})
	w.must(err)
	w.put(w.bridge, "publish", contract.ExportPath(w.binding), data)
}
