package apiserviceexport

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/exportedapi"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/fakeapi"
)

// granted are exports that come to nothing but that they are granted.
type granted struct{}

func (granted) Export(context.Context, *v1alpha1.APIServiceExport) (exportedapi.API, error) {
	return exportedapi.API{Access: decision.Granted}, nil
}

// counted counts what is read from an API server.
type counted struct {
	client.Reader
	gets int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.gets++
	return c.Reader.Get(ctx, key, o, opts...)
}

// At a start, each export is looked at before its repository is followed, and again then.
func TestAnExportThatWasPublishedIsNotReadBeforeItsRepositoryIsFollowed(t *testing.T) {
	for name, want := range map[string]int{"published": 0, "new": 1} {
		e := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-a", Name: name}}
		if name == "published" {
			meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue, Reason: "Published"})
		}
		c := fakeapi.New(fakeapi.Builder().WithObjects(e).WithStatusSubresource(e))
		server := &counted{Reader: c}
		r := &Reconciler{
			Client: c, Server: server, Exports: granted{}, Sessions: &session.Registry{}, IsOurs: func(string) bool { return true },
			published: map[types.NamespacedName]string{},
		}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err != nil || server.gets != want {
			t.Errorf("%s: %d reads, want %d, %v", name, server.gets, want, err)
		}
	}
}

// resolved are exports that come to a definition, and to what a template says of it.
type resolved struct{ api exportedapi.API }

func (r *resolved) Export(context.Context, *v1alpha1.APIServiceExport) (exportedapi.API, error) {
	return r.api, nil
}

func (r *resolved) Watch(context.Context, schema.GroupVersionKind, string, string, func()) error {
	return nil
}

// fixture publishes one export to a repository that is followed.
type fixture struct {
	*Reconciler
	*testing.T
	resolved
	key    client.ObjectKey
	remote *memstore.Remote
	began  atomic.Int32
}

func start(t *testing.T) *fixture {
	e := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "gb-a", Name: "caches.example.org"}}
	c := fakeapi.New(fakeapi.Builder().WithObjects(e).WithStatusSubresource(e))
	f := &fixture{T: t, key: client.ObjectKeyFromObject(e), remote: memstore.New()}
	f.api = exportedapi.API{Access: decision.Granted, Definition: &exportedapi.Definition{
		Binding: e.Name, Version: "1", Snapshot: &runtime.RawExtension{Raw: []byte(`{"kind":"CustomResourceDefinition"}`)},
	}}
	if _, err := f.remote.Branch("main").Update(t.Context(), store.Edit{Subject: "Begin", Apply: func(t *store.Tree) error { return t.Write("README.md", []byte("hello")) }}); err != nil {
		t.Fatal(err)
	}
	s := session.New(session.Options{
		Cluster: tenant.Cluster{ID: "a", UID: "u", Namespace: e.Namespace}, Main: f.remote.Branch("main"), Status: f.remote.Branch("status"), Limits: breaker.Default(), Now: time.Now,
		Save: func(context.Context, session.Checkpoint) error { return nil }, Enqueue: func(string, bool) {}, Began: func() { f.began.Add(1) }, Changed: func() {},
	})
	f.Reconciler = &Reconciler{
		Client: c, Server: c, Exports: f, Objects: f, Sessions: &session.Registry{}, IsOurs: func(string) bool { return true }, published: map[types.NamespacedName]string{},
	}
	f.Sessions.Add(s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, nil, nil) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	f.until("main is followed", func() bool { return s.View().Main != nil && s.Works() })
	return f
}

func (f *fixture) until(what string, is func() bool) {
	f.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatal("never: ", what)
		}
	}
}

// publish looks at the export, and returns what the branch status and the control plane have
// of it then.
func (f *fixture) publish() (file string, e v1alpha1.APIServiceExport) {
	f.Helper()
	if result, err := f.Reconcile(f.Context(), ctrl.Request{NamespacedName: f.key}); err != nil || result != (ctrl.Result{}) {
		f.Fatalf("%+v, %v", result, err)
	}
	status, err := f.remote.Branch("status").Fetch(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	data, err := status.Read(contract.ExportPath(f.key.Name))
	if err != nil {
		f.Fatal(err)
	}
	if err := f.Client.Get(f.Context(), f.key, &e); err != nil {
		f.Fatal(err)
	}
	return string(data), e
}

// The workers are those of all app clusters.
func TestL8_AWorkerWaitsForASilentHostForASetTime(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(f *fixture){
		"publish": func(*fixture) {},
		"withdraw": func(f *fixture) {
			_, e := f.publish()
			if err := f.Client.Delete(f.Context(), &e); err != nil {
				f.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := start(t)
				prepare(f)
				silent := make(chan struct{})
				f.remote.SetFault(func(c memstore.Call) error {
					if c.Op == memstore.Push && !c.After {
						<-silent
					}
					return nil
				})
				end := sync.OnceFunc(func() { close(silent) })
				time.AfterFunc(time.Hour, end)
				defer end()
				began := time.Now()
				_, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key})
				if took := time.Since(began); err == nil || took > pushTimeout {
					t.Errorf("it waited %s, %v", took, err)
				}
			})
		})
	}
}

func TestL8_AnExportIsTriedAgainWhenItsRepositoryIsReachedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		_, e := f.publish()
		f.api.Snapshot = &runtime.RawExtension{Raw: []byte(`{"kind":"CustomResourceDefinition","spec":{}}`)}
		down, asked := errors.New("no answer"), atomic.Int32{}
		f.remote.SetFault(func(c memstore.Call) error {
			if c.Branch == "status" {
				asked.Add(1)
			}
			return down
		})
		f.until("it is not reached", func() bool { return !f.Sessions.Get("a").IsReached() })
		began := f.began.Load()
		asked.Store(0)
		if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err != nil || asked.Load() > 0 {
			t.Errorf("the host was asked %d times, %v", asked.Load(), err)
		}
		if err := f.Client.Delete(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err != nil || asked.Load() > 0 {
			t.Errorf("the host was asked %d times, %v", asked.Load(), err)
		}
		f.remote.SetFault(nil)
		f.until("exports are looked at", func() bool { return f.began.Load() > began })
		if _, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key}); err != nil {
			t.Error(err)
		}
		if _, ok := f.Sessions.Get("a").Status.Snapshot().Entry(contract.ExportPath(f.key.Name)); ok {
			t.Error("it is not withdrawn")
		}
	})
}

func TestWhatATemplateSaidLastStaysWhenItIsGone(t *testing.T) {
	f := start(t)
	f.api.Keys, f.api.Changes, f.api.Offer = contract.Keys{"example.com/"}, v1alpha1.ChangesPullRequest, &v1alpha1.Offer{DisplayName: "Cache"}
	f.api.PermissionClaims = []v1alpha1.PermissionClaim{{Name: "$(name)-ca", Direction: v1alpha1.DirectionUp}}
	f.api.PolicyObjects = []runtime.RawExtension{{Raw: []byte(`{"kind":"ValidatingAdmissionPolicy"}`)}}
	file, before := f.publish()
	for _, want := range []string{"example.com/", "PullRequest", "Cache", "$(name)-ca", "ValidatingAdmissionPolicy"} {
		if !strings.Contains(file, want) {
			t.Errorf("%s is not published:\n%s", want, file)
		}
	}
	f.api = exportedapi.API{Access: decision.Granted, Definition: f.api.Definition, Unusable: &transform.TemplateError{Template: "cache", Reason: "does not exist any more"}}
	again, after := f.publish()
	if diff := cmp.Diff(file, again); diff != "" {
		t.Errorf("on the branch status: -before +after:\n%s", diff)
	}
	if diff := cmp.Diff(before.Status, after.Status); diff != "" {
		t.Errorf("on the control plane: -before +after:\n%s", diff)
	}
}

func TestADefinitionThatIsTooLargeIsToldAndTheOneBeforeStays(t *testing.T) {
	f := start(t)
	small := f.api.Definition
	file, before := f.publish()
	large := *small
	large.Version, large.Snapshot = "2", &runtime.RawExtension{Raw: []byte(`{"description":"` + strings.Repeat("x", store.MaxFile) + `"}`)}
	f.api.Definition = &large
	again, e := f.publish()
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionPublished)
	if c.Status != metav1.ConditionFalse || c.Reason != "TooLarge" || !strings.Contains(c.Message, "may have 1048576") {
		t.Errorf("%+v", c)
	}
	if again != file || !equal(e.Status.CRD, before.Status.CRD) {
		t.Error("the one before is not there any more")
	}
	if s := f.Sessions.Get("a"); !s.Works() {
		t.Errorf("the host is blamed for it: %+v", s.Condition())
	}
	f.api.Definition = small
	if _, e = f.publish(); !meta.IsStatusConditionTrue(e.Status.Conditions, v1alpha1.ConditionPublished) {
		t.Errorf("%+v", e.Status.Conditions)
	}
}

// What is used changes with each claim, and has nothing to do with what is published in Git.
func TestAnUpdateOfTheUsageAloneIsPassedOver(t *testing.T) {
	was := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Spec: v1alpha1.APIServiceExportSpec{Template: "a"}}
	for name, c := range map[string]struct {
		change func(e *v1alpha1.APIServiceExport)
		want   bool
	}{
		"the usage":             {func(e *v1alpha1.APIServiceExport) { e.Status.Quota = &v1alpha1.QuotaUsage{Claims: 1} }, true},
		"what is not kept here": {func(*v1alpha1.APIServiceExport) {}, false},
		"the usage, and more": {func(e *v1alpha1.APIServiceExport) {
			e.Status.Quota = &v1alpha1.QuotaUsage{Claims: 1}
			meta.SetStatusCondition(&e.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionGranted, Status: metav1.ConditionTrue, Reason: "Granted"})
		}, false},
	} {
		is := was.DeepCopy()
		is.ResourceVersion = "2"
		c.change(is)
		if got := isOnlyUsage(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
