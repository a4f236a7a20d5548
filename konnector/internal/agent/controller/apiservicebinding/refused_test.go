package apiservicebinding

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/agent/request"
	"gitbind.dev/test/fakeapi"
)

// denials are how an API server says no for a policy or a webhook, which choose the code.
func denials() map[string]error {
	said := func(code int32) error {
		return webhookerrors.ToStatusErr("hook.example.org", &metav1.Status{Message: "no", Code: code})
	}
	return map[string]error{
		"a webhook without a code":     said(0),
		"a webhook that says conflict": said(http.StatusConflict),
		"a webhook that knows of none": said(http.StatusNotFound),
		"a policy":                     fakeapi.PolicyDenies(schema.GroupResource{Group: "anynines.com", Resource: "postgresqlinstances"}, "c0", "p", "no"),
	}
}

// ending is a look at a binding that is being deleted and has three claims.
func (w *world) ending(action request.Action) *look {
	w.Helper()
	l := w.look()
	l.crd, l.action, l.facts.Claims, l.facts.Objects = w.crd, action, 3, 3
	l.binding.DeletionTimestamp = new(metav1.Now())
	for i := range 3 {
		l.objects = append(l.objects, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: key(i).Namespace, Name: key(i).Name, UID: "u", ResourceVersion: "1", Finalizers: []string{v1alpha1.Finalizer},
		}})
	}
	return l
}

// ready is the condition Ready of the binding.
func (w *world) ready() metav1.Condition {
	w.Helper()
	b := &v1alpha1.APIServiceBinding{}
	if err := w.Live.Get(w.Context(), client.ObjectKey{Name: binding}, b); err != nil {
		w.Fatal(err)
	}
	if c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// An object that cannot be deleted or let go of keeps no other one, and is named.
func TestAnObjectThatIsRefusedKeepsNoOther(t *testing.T) {
	t.Parallel()
	errs := denials()
	errs["a webhook that does not answer"] = fakeapi.WebhookFails("hook.example.org", "no route")
	errs["no right"] = apierrors.NewForbidden(schema.GroupResource{}, "c0", nil)
	for name, no := range errs {
		for action, reason := range map[request.Action]string{request.DeleteClaims: "DeletingClaims", request.LetGo: "LettingGo"} {
			t.Run(fmt.Sprint(action, ", ", name), func(t *testing.T) {
				w := newWorld(t)
				w.granted(nil)
				l := w.ending(action)
				var done []string
				write := func(o client.Object) error {
					if o.GetName() == key(0).Name {
						return no
					}
					done = append(done, o.GetName())
					return nil
				}
				w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
					Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
						return write(o)
					},
					Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
						return write(o)
					},
				})
				result, err := w.unbind(t.Context(), l)
				if err != nil || result.RequeueAfter < countWait {
					t.Errorf("%+v, %v", result, err)
				}
				if !slices.Equal(done, []string{"c1", "c2"}) {
					t.Errorf("done: %v", done)
				}
				if c := w.ready(); c.Reason != reason || !strings.Contains(c.Message, "team-a/c0: "+told(t.Context(), no)) {
					t.Errorf("it says %s: %s", c.Reason, c.Message)
				}
				// It would take hold again of what was let go of.
				if want := action == request.DeleteClaims; w.isRunning() != want {
					t.Errorf("the claim controller runs: %v", !want)
				}
			})
		}
	}
}

// What has another version by now, or is gone, is no trouble, and soon looked at again.
func TestAnObjectThatChangedMeanwhileIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for name, stale := range map[string]error{
		"changed": apierrors.NewConflict(schema.GroupResource{}, "c0", nil), "gone": apierrors.NewNotFound(schema.GroupResource{}, "c0"),
	} {
		w := newWorld(t)
		w.granted(nil)
		l := w.ending(request.LetGo)
		patched := 0
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				if patched++; patched == 1 {
					return stale
				}
				return nil
			},
		})
		if result, err := w.unbind(t.Context(), l); err != nil || result.RequeueAfter == 0 || result.RequeueAfter > conflictWait || patched != 3 {
			t.Errorf("%s: %+v, %v, after %d patches", name, result, err, patched)
		}
	}
}

// A binding goes also where a webhook or a policy is against taking back what was made for it.
func TestABindingGoesWithoutWhatMayNotBeRemoved(t *testing.T) {
	t.Parallel()
	for name, no := range denials() {
		for _, mayMark := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the definition may be marked: ", mayMark), func(t *testing.T) {
				w := newWorld(t)
				w.Recorder = events.NewFakeRecorder(1)
				w.turnedOn()
				w.binding.Finalizers = []string{v1alpha1.BindingFinalizer}
				if err := w.Client.Update(t.Context(), w.binding); err != nil {
					t.Fatal(err)
				}
				for _, o := range []client.Object{
					&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:api:" + binding}},
					&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:api:" + binding}},
				} {
					if err := w.Client.Create(t.Context(), o); err != nil {
						t.Fatal(err)
					}
				}
				objects := offeredPolicy(t, "strict")
				if err := w.installPolicies(t.Context(), &look{binding: w.binding, policies: &objects}); err != nil {
					t.Fatal(err)
				}
				w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
						if o.GetName() == binding && mayMark {
							return c.Update(ctx, o, opts...)
						}
						return no
					},
					Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return no },
				})
				l := &look{binding: w.binding, crd: w.crd, action: request.TakeBack}
				if _, err := w.takeBack(t.Context(), l); err != nil || !l.released || len(l.binding.Finalizers) > 0 {
					t.Fatalf("released %v, %v", l.released, err)
				}
				for _, what := range []string{"CustomResourceDefinition " + binding, "ClusterRole gitbind:api:" + binding, "ClusterRoleBinding gitbind:api:" + binding} {
					if c := w.ready(); !strings.Contains(c.Message, what) {
						t.Errorf("it does not name %s: %s", what, c.Message)
					}
				}
			})
		}
	}
}

// Before Kubernetes 1.36 an API server has no kind MutatingAdmissionPolicyBinding: nothing was made of it,
// and nothing is to be removed.
func TestABindingGoesWhereTheAPIServerLacksAKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.adopted()
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, ok := o.(*admissionv1.MutatingAdmissionPolicyBinding); ok {
				return &meta.NoKindMatchError{GroupKind: admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding").GroupKind(), SearchedVersions: []string{"v1"}}
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	l := &look{binding: w.binding, action: request.TakeBack}
	if _, err := w.takeBack(t.Context(), l); err != nil || !l.released {
		t.Fatalf("released %v, %v", l.released, err)
	}
	if c := w.ready(); c.Message != "" {
		t.Errorf("it says that something is left: %s", c.Message)
	}
}

// Nor does it keep an API from being bound again: rights that go are told when they are needed.
func TestAnAPIIsBoundThoughItsRightsCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, no := range denials() {
		w := newWorld(t)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:api:" + binding, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding", Name: binding, UID: "b0"},
		}}}
		if err := w.Client.Create(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return no },
		})
		if err := w.keepRights(t.Context(), binding); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An object that keeps the definition from going is named: the rights to let go of it stay
// as long.
func TestAnObjectThatKeepsTheDefinitionIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.granted(nil)
	l := w.ending(request.TakeBack)
	no := denials()["a webhook without a code"]
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return no
		},
	})
	result, err := w.unbind(t.Context(), l)
	if err != nil || result.RequeueAfter < countWait || l.released {
		t.Errorf("%+v, %v, released %v", result, err, l.released)
	}
	if c := w.ready(); c.Reason != "Unbinding" || !strings.Contains(c.Message, "team-a/c0: "+told(t.Context(), no)) {
		t.Errorf("it says %s: %s", c.Reason, c.Message)
	}
}

// An object that was let go of stays with finalizers of others, and with it the definition.
func TestAnObjectThatFinalizersOfOthersKeepIsNamed(t *testing.T) {
	t.Parallel()
	for _, action := range []request.Action{request.KeepOn, request.DeleteClaims, request.TakeBack} {
		w := newWorld(t)
		w.granted(nil)
		l := w.ending(action)
		for i, finalizers := range [][]string{{"example.com/theirs"}, {v1alpha1.Finalizer, "example.com/theirs"}, {v1alpha1.Finalizer}} {
			l.objects[i].DeletionTimestamp, l.objects[i].Finalizers = new(metav1.Now()), finalizers
		}
		w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return nil
			},
		})
		result, err := w.unbind(t.Context(), l)
		if err != nil || result.RequeueAfter < countWait {
			t.Errorf("%s: %+v, %v", action, result, err)
		}
		if m := w.ready().Message; !strings.Contains(m, "Others' finalizers keep team-a/c0 (example.com/theirs)") || strings.Contains(m, "team-a/c1") {
			t.Errorf("%s: it says %s", action, m)
		}
	}
}
