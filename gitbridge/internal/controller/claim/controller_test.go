package claim

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/crossplane"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/export"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/failure"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
	claimschema "gitbind.dev/gitbridge/schema"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/fakeapi"
)

// fixture is the controller with an API server whose errors are chosen. What it
// does with a real one is tested in internal/app.
type fixture struct {
	*testing.T
	*Controller
	remote *memstore.Remote
	people store.Branch
	now    time.Time
	path   string

	watchErr, saveErr error
	live              *unstructured.Unstructured
	// others are the objects of other claims, by name, and watched what watching
	// shows in the place of live.
	others  map[string]*unstructured.Unstructured
	watched func() *unstructured.Unstructured
	// sent is what was applied last.
	sent *unstructured.Unstructured
	// patch answers an apply or a delete first.
	patch func() error
	// access is what there is to the API; "" is Granted.
	access decision.Access
	// allowed answers whether the tenant may apply.
	allowed bool
	calls   []string
	// quota is that of the offer.
	quota *v1alpha1.Quota
	// offered is what travels with claims of the API, and templateGone takes it, and all else
	// that the template says.
	offered      []v1alpha1.PermissionClaim
	templateGone bool
	// follow waits until the session is at main's head.
	follow func()
	// status is the session's own branch status.
	status store.Branch
}

var (
	binding  = "postgresqlinstances.anynines.com"
	kind     = schema.GroupVersionKind{Group: "anynines.com", Version: "v1", Kind: "PostgresqlInstance"}
	resource = schema.GroupVersionResource{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}
	forbids  = apierrors.NewForbidden(resource.GroupResource(), "orders", errors.New("no"))
)

const good = "apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: orders, namespace: team-a}\nspec:\n  service: a9s-postgresql13\n  plan: postgresql-single-nano\n"

func start(t *testing.T) *fixture {
	f := &fixture{T: t, remote: memstore.New(), now: time.Unix(1000, 0), allowed: true,
		path: contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}.Path()}
	f.patch = func() error { return nil }
	f.people = f.remote.Branch("main")
	f.push(good)

	cluster := tenant.Cluster{ID: "k3x9d2abqw", UID: "u", Namespace: "gb-k3x9d2abqw"}
	f.status = f.remote.Branch("status")
	s := session.New(session.Options{
		Cluster: cluster, Main: f.remote.Branch("main"), Status: f.status, Now: time.Now, Limits: breaker.Default(),
		Save:    func(context.Context, session.Checkpoint) error { return f.saveErr },
		Enqueue: func(string, bool) {}, Began: func() {}, Changed: func() {},
	})
	bridge, tenantClient := fake.NewClientset(), fake.NewClientset()
	tenantClient.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		f.calls = append(f.calls, "may I?")
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: f.allowed}}, nil
	})
	kinds := map[schema.GroupVersionResource]string{resource: "PostgresqlInstanceList"}
	bridgeObjects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	bridgeObjects.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		f.calls = append(f.calls, "get")
		u := f.object(action.(clienttesting.GetAction).GetName())
		if u == nil {
			return true, nil, apierrors.NewNotFound(resource.GroupResource(), "orders")
		}
		return true, u, nil
	})
	tenantObjects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	tenantObjects.PrependReactor("patch", "*", f.reactToPatch)
	tenantObjects.PrependReactor("delete", "*", f.reactToDelete)
	f.Controller = &Controller{
		Session: s, APIs: f, Objects: f, Bridge: bridge, BridgeObjects: bridgeObjects, Tenant: tenantClient, TenantObjects: tenantObjects,
		Log: logr.Discard(), Workers: 1, Now: func() time.Time { return f.now },
	}
	f.queue, f.limiter = NewQueue(), workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryLast)
	f.namespaces.cluster, f.namespaces.client = cluster, bridge
	f.background = newBackgroundAnswers()

	ctx, cancel := context.WithCancel(t.Context())
	f.beginSecrets(ctx)
	f.beginQuotas()
	wake := make(chan store.Hash, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, wake, nil)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		f.queue.ShutDown()
	})
	f.follow = func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); s.View().Main.Head() != f.remote.Head("main"); time.Sleep(time.Millisecond) {
			store.Tell(wake, "")
			if time.Now().After(deadline) {
				t.Fatal("main is not followed")
			}
		}
	}
	f.follow()
	return f
}

func (f *fixture) reactToPatch(action clienttesting.Action) (bool, runtime.Object, error) {
	f.calls = append(f.calls, "apply")
	if err := f.patch(); err != nil {
		return true, nil, err
	}
	p := action.(clienttesting.PatchActionImpl)
	f.sent = &unstructured.Unstructured{}
	if err := f.sent.UnmarshalJSON(p.GetPatch()); err != nil {
		return true, nil, err
	}
	u, err := fakeapi.ApplyPatch(p, f.object(p.GetName()))
	if err == nil && len(p.PatchOptions.DryRun) == 0 {
		f.set(p.GetName(), u)
	}
	return true, u, err
}

func (f *fixture) reactToDelete(action clienttesting.Action) (bool, runtime.Object, error) {
	f.calls = append(f.calls, "delete")
	if err := f.patch(); err != nil {
		return true, nil, err
	}
	d := action.(clienttesting.DeleteActionImpl)
	live := f.object(d.GetName())
	if live == nil {
		return true, nil, apierrors.NewNotFound(resource.GroupResource(), d.GetName())
	}
	u, err := fakeapi.Delete(resource.GroupResource(), live, d.DeleteOptions)
	if err == nil && len(d.DeleteOptions.DryRun) == 0 {
		f.set(d.GetName(), u)
	}
	return true, nil, err
}

// object is what the API server has.
func (f *fixture) object(name string) *unstructured.Unstructured {
	if name == "orders" {
		return f.live
	}
	return f.others[name]
}

func (f *fixture) set(name string, u *unstructured.Unstructured) {
	if name == "orders" {
		f.live = u
		return
	}
	if f.others == nil {
		f.others = map[string]*unstructured.Unstructured{}
	}
	f.others[name] = u
}

// removeAsKonnector removes the claim's file as the app cluster's agent does, for an object
// with that UID.
func (f *fixture) removeAsKonnector(uid string) {
	f.Helper()
	f.pushAsKonnector(uid, map[string]string{f.path: ""})
}

func (f *fixture) pushAsKonnector(uid string, files map[string]string) {
	f.Helper()
	name, email := contract.ComponentIdentity(contract.Konnector, "k3x9d2abqw")
	committer, people := f.remote.Committer, f.people
	defer func() { f.remote.Committer, f.people = committer, people }()
	f.remote.Committer = store.Signature{Name: name, Email: email}
	f.people = f.remote.Branch("main")
	key, _ := contract.ParsePath(f.path)
	f.pushAll(files, store.Trailer{Key: contract.TrailerObject, Value: contract.ObjectTrailer{Key: key, UID: uid, Generation: 1}.String()})
}

// push puts the claim's file on main; "" removes it.
func (f *fixture) push(content string) {
	f.Helper()
	f.pushAll(map[string]string{f.path: content})
}

func (f *fixture) pushAll(files map[string]string, trailers ...store.Trailer) {
	f.Helper()
	_, err := f.people.Update(f.Context(), store.Edit{Author: store.Signature{Name: "alice", Email: "a@example.org"}, Subject: "change", Trailers: trailers, Apply: func(t *store.Tree) error {
		if err := t.Write("README.md", []byte("hello")); err != nil {
			return err
		}
		for path, content := range files {
			err := t.Write(path, []byte(content))
			if content == "" {
				err = t.Remove(path)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		f.Fatal(err)
	}
}

// step runs the controller once, and returns the answer and what it did.
func (f *fixture) step() (*contract.Status, []string, time.Duration) {
	f.Helper()
	return f.stepAt(f.path)
}

func (f *fixture) stepAt(path string) (*contract.Status, []string, time.Duration) {
	f.Helper()
	f.calls = nil
	wait := f.bringPath(f.Context(), Request{Path: path}, func() {})
	f.background.wait.Wait()
	return f.Session.Answers.Of(path), f.calls, wait
}

func (f *fixture) Resolve(context.Context, string, string) (exportedapi.API, error) {
	if f.access != "" {
		return exportedapi.API{Access: f.access, Why: "it is away"}, nil
	}
	data, err := os.ReadFile("../../export/testdata/postgresqlinstances.live.yaml")
	if err != nil {
		return exportedapi.API{}, err
	}
	var live apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &live); err != nil {
		return exportedapi.API{}, err
	}
	crd, err := export.CRD(&live, v1alpha1.ExportedAPI{Group: kind.Group, Version: kind.Version, Resource: resource.Resource})
	if err != nil {
		return exportedapi.API{}, err
	}
	fields, err := drift.NewFields(&live, kind.Version)
	if err != nil {
		return exportedapi.API{}, err
	}
	s, err := claimschema.New(crd)
	api := exportedapi.API{Access: decision.Granted, Definition: &exportedapi.Definition{
		Binding: binding, Kind: kind, Resource: resource, Shape: crossplane.Claim, Schema: s, Fields: fields, Version: "1",
		Versions: []string{"v1beta1", kind.Version},
	}}
	if f.templateGone {
		api.Unusable = &transform.TemplateError{Template: "pg", Reason: "does not exist any more"}
	} else {
		api.Quota, api.PermissionClaims, api.Offer = f.quota, f.offered, &v1alpha1.Offer{}
	}
	return api, err
}

func (f *fixture) Watch(context.Context, schema.GroupVersionKind, string, string, func()) error {
	return f.watchErr
}

func (f *fixture) Get(_ schema.GroupVersionKind, _, name string) (*unstructured.Unstructured, error) {
	if name == "orders" && f.watched != nil {
		return f.watched(), nil
	}
	return f.object(name), nil
}

func TestRightsThatArriveBetweenTwoCallsAreNoDenial(t *testing.T) {
	f := start(t)
	tries := 0
	f.patch = func() error {
		if tries++; tries == 1 {
			return forbids
		}
		return nil
	}
	answer, calls, _ := f.step()
	if diff := cmp.Diff([]string{"apply", "may I?", "may I?", "apply"}, calls); diff != "" || answer == nil || answer.Result != contract.Applied {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
}

func TestAForbiddenClaimWithRightsIsDenied(t *testing.T) {
	f := start(t)
	f.patch = func() error { return forbids }
	answer, _, wait := f.step()
	if answer == nil || answer.Result != contract.Denied || wait != reconsiderForbidden {
		t.Fatalf("answer %+v, again after %s", answer, wait)
	}
	// It is not sent again for every event, but now and then.
	for range 3 {
		if _, calls, _ := f.step(); len(calls) > 0 {
			t.Errorf("calls %v for a file that was refused", calls)
		}
	}
	f.now = f.now.Add(reconsiderForbidden)
	f.patch = func() error { return nil }
	if answer, _, _ := f.step(); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}

// Each of the two applies is the tenant's, who may not have the right to what is in them.
func TestWhatIsEmptiedIsAppliedAsTheTenantToo(t *testing.T) {
	f := start(t)
	f.push(good + "  parameters: {max_connections: 5}\n")
	f.follow()
	f.step()
	f.push(good + "  parameters: {}\n")
	f.follow()
	tries := 0
	f.patch = func() error {
		if tries++; tries == 1 {
			return apierrors.NewInvalid(kind.GroupKind(), "orders", field.ErrorList{field.Invalid(field.NewPath("spec", "parameters", "max_connections"), nil, "null")})
		}
		return nil
	}
	answer, calls, _ := f.step()
	if diff := cmp.Diff([]string{"apply", "get", "apply", "apply"}, calls); diff != "" || answer.Result != contract.Applied {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
}

func TestMissingRightsAreWaitedForAndThenSaid(t *testing.T) {
	f := start(t)
	f.patch, f.allowed = func() error { return forbids }, false
	answer, _, wait := f.step()
	if answer != nil || wait == 0 || wait > failure.TellAfter {
		t.Fatalf("answer %+v, again after %s", answer, wait)
	}
	f.now = f.now.Add(failure.TellAfter)
	answer, _, wait = f.step()
	if answer == nil || answer.Result != contract.Failed || wait == 0 {
		t.Fatalf("answer %+v, again after %s", answer, wait)
	}
	f.patch = func() error { return nil }
	if answer, _, _ := f.step(); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}

// What is in the queue already, or comes because an object changed, waits as well.
func TestNothingIsDoneForASuspendedCluster(t *testing.T) {
	f := start(t)
	f.Session.Stops.Suspend(&session.Stop{Reason: "Suspended"})
	if answer, calls, _ := f.step(); answer != nil || len(calls) > 0 {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
	f.Session.Stops.Suspend(nil)
	if answer, _, _ := f.step(); answer == nil || answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}

// Main goes on while an earlier version is applied: that it was answered says nothing of the
// later one, and status must not say that the later head is answered.
// An API that is bound again, in another version, has the files of the one before.
func TestAFileOfAnotherVersionIsTakenAsOneOfTheBoundVersion(t *testing.T) {
	f := start(t)
	f.step()
	of := func(version, more string) string {
		return strings.Replace(good, "anynines.com/v1", "anynines.com/"+version, 1) + more
	}
	f.push(of("v1beta1", ""))
	f.follow()
	if answer, _, _ := f.step(); answer.Result != contract.Applied || answer.Message != "" || f.sent.GetAPIVersion() != "anynines.com/v1" {
		t.Fatalf("%+v, sent %s", answer, f.sent.GetAPIVersion())
	}
	f.sent = nil
	for content, want := range map[string]string{
		of("v1beta1", "  size: large\n"): "spec.size is not a field",
		of("v3", ""):                     `but the API is bound as "anynines.com/v1"`,
	} {
		f.push(content)
		f.follow()
		if answer, _, _ := f.step(); answer.Result != contract.Invalid || answer.Problem.Line == 0 || !strings.Contains(answer.Message, want) || f.sent != nil {
			t.Errorf("%+v, %+v; want %s", answer, answer.Problem, want)
		}
	}
}

func TestAnAnswerIsOfTheVersionThatWasLookedAt(t *testing.T) {
	f := start(t)
	before := f.Session.View()
	f.patch = func() error {
		f.push(strings.ReplaceAll(good, "nano", "small"))
		f.follow()
		return nil
	}
	if answer, _, _ := f.step(); answer == nil || answer.Answers.Commit != string(before.Main.Head()) {
		t.Fatalf("answer %+v", answer)
	}
	if f.Session.Status.IsAnswered(f.Session.View().Generation) {
		t.Error("a head counts as answered whose claim was not looked at")
	}
	f.patch = func() error { return nil }
	if answer, _, _ := f.step(); answer.Answers.Commit != string(f.remote.Head("main")) || !f.Session.Status.IsAnswered(f.Session.View().Generation) {
		t.Errorf("answer %+v", answer)
	}
}

func TestNothingIsDeletedThatCouldNotBeRemembered(t *testing.T) {
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	f.saveErr = errors.New("the API server does not answer")
	if answer, calls, wait := f.step(); slices.Contains(calls, "delete") || answer.Result != contract.Applied || wait == 0 {
		t.Errorf("answer %s, calls %v, again after %s", answer.Result, calls, wait)
	}
	f.saveErr = nil
	if answer, calls, _ := f.step(); !slices.Contains(calls, "delete") || answer.Result != contract.Deleting {
		t.Errorf("answer %s, calls %v", answer.Result, calls)
	}
}

func TestADeleteThatIsRefusedIsTriedAgain(t *testing.T) {
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	// Somebody else changed it in between: decide again.
	f.patch = func() error {
		return apierrors.NewConflict(resource.GroupResource(), "orders", errors.New("changed"))
	}
	if answer, _, wait := f.step(); answer.Message != "" || wait == 0 {
		t.Errorf("answer %+v, again after %s", answer, wait)
	}
	f.patch = func() error {
		return apierrors.NewForbidden(resource.GroupResource(), "orders", errors.New("in use by a Usage"))
	}
	answer, _, wait := f.step()
	if answer.Result != contract.Deleting || answer.Answers.Blob != "" || wait == 0 || !strings.Contains(answer.Message, "in use by a Usage") {
		t.Errorf("answer %+v, again after %s", answer, wait)
	}
	f.patch = func() error { return nil }
	if answer, calls, _ := f.step(); !slices.Contains(calls, "delete") || answer.Message != "" {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
	// It is being deleted now, until the provider has done its part.
	if _, calls, _ := f.step(); f.live.GetDeletionTimestamp() == nil || slices.Contains(calls, "delete") {
		t.Errorf("calls %v, object %v", calls, f.live)
	}
	f.live = nil
	if answer, _, _ := f.step(); answer.Result != contract.Gone {
		t.Errorf("answer %+v", answer)
	}
}

func TestAForeignObjectIsNotDeleted(t *testing.T) {
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	f.live = f.live.DeepCopy()
	f.live.SetLabels(nil)
	f.live.SetResourceVersion(fakeapi.NewVersion())
	answer, calls, _ := f.step()
	if slices.Contains(calls, "delete") || answer.Result != contract.Deleting || !strings.Contains(answer.Message, "labels") {
		t.Errorf("answer %+v, calls %v", answer, calls)
	}
}

// Of an object that is not the claim's, nothing is counted, however often it is looked at.
func TestAForeignObjectHasNoClaimsCountedAgain(t *testing.T) {
	f := start(t)
	lists, said := 0, &v1alpha1.QuotaUsage{}
	f.quota = &v1alpha1.Quota{Cluster: &v1alpha1.QuotaLimit{Claims: new(int64(5))}}
	f.Usage = func(_ context.Context, _ string, u *v1alpha1.QuotaUsage) error { said = u; return nil }
	f.BridgeObjects.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		return true, &unstructured.UnstructuredList{}, nil
	})
	publish := func(claims int64) {
		t.Helper()
		if err := f.publishUsage(t.Context(), binding); err != nil || said.Claims != claims || lists != 1 {
			t.Errorf("published %+v after %d lists, %v", said, lists, err)
		}
	}
	publish(0)
	f.live = &unstructured.Unstructured{}
	f.live.SetName("orders")
	f.live.SetResourceVersion("7")
	f.live.SetUID("theirs")
	if answer, _, _ := f.step(); answer == nil || answer.Reason != contract.Foreign {
		t.Errorf("answer %+v", answer)
	}
	publish(0)
	f.live = nil
	if answer, _, _ := f.step(); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
	publish(1)
}

// A claim weighs by a field that its file leaves out what the API server fills in.
func TestAQuotaWeighsWithDefaults(t *testing.T) {
	f := start(t)
	f.quota = &v1alpha1.Quota{
		Cluster: &v1alpha1.QuotaLimit{Weight: new(int64(3))},
		Weights: &v1alpha1.QuotaWeights{Field: "spec.expose", Values: map[string]int64{"Internal": 4}},
	}
	answer, _, _ := f.step()
	if answer.Result != contract.Denied || answer.Reason != contract.OverQuota || !strings.Contains(answer.Message, "this claim weighs 4") || f.live != nil {
		t.Errorf("answer %+v, object %v", answer, f.live)
	}
	f.quota.Cluster.Weight = new(int64(4))
	if answer, _, _ := f.step(); answer.Result != contract.Applied || answer.Reason != "" {
		t.Errorf("answer %+v", answer)
	}
	if _, filled := f.sent.Object["spec"].(map[string]any)["expose"]; filled {
		t.Error("the default is applied as if the file said it")
	}
}

// A control plane whose definitions are older than the bridge takes no usage until they are
// installed.
func TestAUsageThatIsNotTakenIsTriedAgainLater(t *testing.T) {
	f := start(t)
	f.quota = &v1alpha1.Quota{Cluster: &v1alpha1.QuotaLimit{Claims: new(int64(5))}}
	tries, lines, refused := 0, 0, errors.New("field not declared in schema")
	f.Usage = func(context.Context, string, *v1alpha1.QuotaUsage) error { tries++; return refused }
	f.Log = funcr.New(func(string, string) { lines++ }, funcr.Options{})
	try := func(want time.Duration, triesWant, linesWant int) {
		t.Helper()
		if got := f.tryUsage(t.Context(), binding); got != want || tries != triesWant || lines != linesWant {
			t.Errorf("again after %s, with %d tries and %d lines, want %s, %d, %d", got, tries, lines, want, triesWant, linesWant)
		}
	}
	try(usageRetry, 1, 1)
	f.now = f.now.Add(usageRetry / 2)
	try(usageRetry/2, 1, 1) // Another claim was counted.
	f.now = f.now.Add(usageRetry / 2)
	try(2*usageRetry, 2, 1)
	for range 10 {
		f.now = f.now.Add(usageRetryMost)
		f.tryUsage(t.Context(), binding)
	}
	f.now = f.now.Add(usageRetryMost)
	try(usageRetryMost, 13, 1)
	f.now, refused = f.now.Add(usageRetryMost), nil
	try(0, 14, 1)
	refused = errors.New("away")
	try(usageRetry, 15, 2)
}

// After a restart, all APIs of all clusters are to be counted.
func TestFewUsagesAreCountedAtOnce(t *testing.T) {
	f := start(t)
	f.quota, f.Counting = &v1alpha1.Quota{Cluster: &v1alpha1.QuotaLimit{Claims: new(int64(5))}}, make(chan struct{}, 1)
	lists := 0
	f.BridgeObjects.(*dynamicfake.FakeDynamicClient).PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		return true, &unstructured.UnstructuredList{}, nil
	})
	f.Usage = func(context.Context, string, *v1alpha1.QuotaUsage) error { return nil }
	f.Counting <- struct{}{} // by another cluster
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.publishUsage(ctx, binding); !errors.Is(err, context.DeadlineExceeded) || lists > 0 {
		t.Errorf("%d lists, %v", lists, err)
	}
	<-f.Counting
	for range 2 {
		if err := f.publishUsage(t.Context(), binding); err != nil || lists != 1 {
			t.Errorf("%d lists, %v", lists, err)
		}
	}
}

// The apply landed and its reply was lost, and the file went before watching showed the object.
func TestWhatTheBridgeJustMadeIsNotSaidToBeGone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(f *fixture) (end func()){
		"the apply got no reply": func(f *fixture) func() {
			lost := f.TenantObjects.(*dynamicfake.FakeDynamicClient)
			lost.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if _, _, err := f.reactToPatch(action); err != nil {
					return true, nil, err
				}
				return true, nil, errors.New("connection reset")
			})
			return func() { lost.ReactionChain = lost.ReactionChain[1:] }
		},
		"the answer was not written": func(f *fixture) func() {
			f.remote.SetFault(func(c memstore.Call) error {
				if c.Branch == "status" && c.Op == memstore.Push {
					return errors.New("connection reset")
				}
				return nil
			})
			return func() { f.remote.SetFault(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.watched = func() *unstructured.Unstructured { return nil }
			end := lose(f)
			if answer, _, wait := f.step(); answer != nil || f.live == nil || wait == 0 {
				t.Fatalf("answer %+v, object %v, again after %s", answer, f.live, wait)
			}
			end()
			f.removeAsKonnector("u1")
			f.follow()
			if answer, calls, _ := f.step(); answer == nil || answer.Result != contract.Deleting || !slices.Contains(calls, "delete") {
				t.Errorf("answer %+v, calls %v", answer, calls)
			}
			f.live = nil
			if answer, _, _ := f.step(); answer.Result != contract.Gone || answer.UID != "u1" {
				t.Errorf("answer %+v", answer)
			}
		})
	}
}

// A claim that came and went while its kind cannot be watched waits, and main with it; a
// tombstone of before does not.
func TestWhatCameAndWentUnseenIsSaidToBeGoneWhenItCanBeSeen(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.watchErr = errors.New("watch: forbidden")
	f.step()
	f.now = f.now.Add(unwatched)
	f.removeAsKonnector("u1")
	f.follow()
	if answer, _, wait := f.step(); answer == nil || answer.Result != contract.Failed || wait == 0 || !f.Session.Status.IsAnswered(f.Session.View().Generation) {
		t.Errorf("answer %+v, again after %s", answer, wait)
	}
	f.watchErr = nil
	if answer, _, _ := f.step(); answer.Result != contract.Gone || !f.Session.Status.IsAnswered(f.Session.View().Generation) {
		t.Errorf("answer %+v", answer)
	}
	f.watchErr = errors.New("watch: forbidden")
	f.step()
	f.now = f.now.Add(unwatched)
	if answer, _, wait := f.step(); answer.Result != contract.Gone || wait != 0 {
		t.Errorf("answer %+v, again after %s", answer, wait)
	}
}

// What is being deleted is not said to be gone while nobody can look, as the app cluster would
// let go of the claim, and its Secrets with it.
func TestADeleteUnderWayGoesOnWhileNobodyCanLook(t *testing.T) {
	f := start(t)
	f.step()
	f.push("")
	f.follow()
	for range 2 {
		if answer, _, _ := f.step(); answer.Result != contract.Deleting {
			t.Fatalf("answer %+v", answer)
		}
	}
	f.access = decision.NotServed
	if answer, _, _ := f.step(); answer.Result != contract.Deleting {
		t.Errorf("not served: answer %+v", answer)
	}
	f.access, f.watchErr = "", errors.New("watch: forbidden")
	f.step()
	f.now = f.now.Add(unwatched)
	if answer, _, _ := f.step(); answer.Result != contract.Deleting {
		t.Errorf("not watched: answer %+v", answer)
	}
	f.watchErr, f.live = nil, nil
	if answer, _, _ := f.step(); answer.Result != contract.Gone {
		t.Errorf("answer %+v", answer)
	}
}

func TestWhyAnAPICannotBeUsedIsSaid(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.access = decision.NotServed
	if answer, _, _ := f.step(); answer == nil || answer.Result != contract.Failed || !strings.Contains(answer.Message, "it is away") {
		t.Errorf("answer %+v", answer)
	}
}

func TestAKindThatCannotBeWatchedIsSaidWhenItLasts(t *testing.T) {
	f := start(t)
	f.watchErr = errors.New("watch: forbidden")
	if answer, calls, wait := f.step(); answer != nil || len(calls) > 0 || wait == 0 {
		t.Errorf("answer %+v, calls %v, again after %s", answer, calls, wait)
	}
	f.now = f.now.Add(unwatched)
	for range 2 {
		// Nothing tells when it can be watched again, as there is no object.
		if answer, calls, wait := f.step(); answer == nil || answer.Result != contract.Failed || len(calls) > 0 || wait == 0 {
			t.Errorf("answer %+v, calls %v, again after %s", answer, calls, wait)
		}
	}
	f.watchErr = nil
	if answer, _, _ := f.step(); answer.Result != contract.Applied {
		t.Errorf("answer %+v", answer)
	}
}

func TestThatAKindCannotBeWatchedIsForgotten(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(f *fixture){
		"when losses are looked for and it can be watched": func(f *fixture) {
			if _, err := f.Controller.watched(f.Context(), binding, nil); err != nil {
				f.Fatal(err)
			}
		},
		"when its API is not served": func(f *fixture) {
			f.access = decision.NotServed
			f.step()
			f.access = ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			trouble := errors.New("watch: timeout")
			f.watchErr = trouble
			f.step()
			f.watchErr = nil
			pass(f)
			f.now, f.watchErr = f.now.Add(unwatched), trouble
			if s, err := f.look(t.Context(), f.Session.View(), f.path, nil); !errors.Is(err, trouble) {
				t.Errorf("after one failure: %+v, %v", s, err)
			}
		})
	}
}
