package app_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/attribution"
	"gitbind.dev/test/env"
)

func TestB11_DeletingTheBindingUnbinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.client.Create(t.Context(), attribution.ForBinding(w.group, w.plural)))
	w.peopleRoles()
	rights := w.giveRights("earlier." + w.group)
	w.loop()
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.requestIs("", contract.Refuse)
	for _, o := range rights {
		w.must(w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
		if owners := o.GetOwnerReferences(); len(owners) > 0 {
			t.Errorf("%T goes with %v", o, owners)
		}
	}

	t.Run("B3_the CRD is pulled and marked as ours", func(*testing.T) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		w.must(w.client.Get(t.Context(), client.ObjectKey{Name: w.binding}, crd))
		if crd.Annotations[v1alpha1.ConnectionAnnotation] != w.name || crd.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByKonnector {
			t.Errorf("got %+v", crd.ObjectMeta)
		}
	})
	t.Run("B4_finalizer and markers are there", func(*testing.T) {
		if b := w.getBinding(); !slices.Contains(b.Finalizers, v1alpha1.BindingFinalizer) || b.Status.Request == nil || b.Status.Request.Blob == "" {
			t.Errorf("the binding has %v, %+v", b.Finalizers, b.Status.Request)
		}
		if u := w.get("orders"); !slices.Contains(u.GetFinalizers(), v1alpha1.Finalizer) || u.GetAnnotations()[v1alpha1.BaseAnnotation] == "" {
			t.Errorf("the claim has %v", u.GetFinalizers())
		}
	})

	// The garbage collector has to know of APIServiceBindings.
	w.must(w.env.Cluster(env.App).Rediscover(t.Context()))
	w.unbind()
	message := w.bindingSays("Ready", "ClaimsExist")
	for _, want := range []string{"there are 1 claim:", "Delete them", `{"spec":{"deletionPolicy":"Orphan"}}`} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is not in %q", want, message)
		}
	}
	t.Run("it goes on while there are claims", func(*testing.T) {
		w.setSpec("orders", "big", "plan")
		w.fileIs("orders", plan("big"))
		w.requestIs("", contract.Refuse)
	})
	t.Run("B15_a konnector that stops goes on where it was", func(*testing.T) {
		w.stop()
		w.setSpec("orders", "medium", "plan")
		w.start()
		w.fileIs("orders", plan("medium"))
	})
	w.deleteObject("orders")
	w.goes("orders")
	w.takenBack()
	w.noRequest()
	for _, o := range rights {
		w.eventually("the konnector's own rights go, too", func() error {
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "gitbind:api:" + w.binding}, o); !apierrors.IsNotFound(err) {
				return errorf("%T is there: %v", o, err)
			}
			return nil
		})
	}
}

func TestB12_OrphanLeavesTheServices(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.unbind()
	w.bindingSays("Ready", "ClaimsExist")
	w.setPolicy(v1alpha1.DeletionOrphan)
	w.requestIs("", contract.Orphan)
	// Nothing goes before the control plane knows.
	w.bindingSays("Ready", "WaitingForControlPlane")
	w.live(names...)
	edited := names[0]
	w.edit(edited, func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "true") })
	w.setSpec(edited, "big", "plan")
	w.answerRequest(contract.Applied, "")
	// Nor before main has all that the claims say.
	if m := w.bindingSays("Ready", "ClaimsNotOnMain"); !strings.Contains(m, w.namespace+"/"+edited+".") {
		t.Errorf("it says %q", m)
	}
	w.live(names...)
	w.edit(edited, func(u *unstructured.Unstructured) { w.annotate(u, v1alpha1.PauseAnnotation, "") })
	w.takenBack()
	w.noRequest()
	w.fileIs(edited, plan("big"))
	if n := w.files(); n != 2 {
		t.Errorf("%d files are left", n)
	}
	t.Run("what is bound again has the same claims", func(*testing.T) {
		w.must(w.grantAgain())
		w.bind()
		w.bindingIs("Bound")
		w.inStep(names...)
	})
}

// Nothing is let go of before main says that the API goes: what is edited as long as it cannot be
// pushed comes to main later.
func TestB12_AnEditWhileTheHostIsDownIsNotLost(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	name := w.claims(1)[0]
	w.setPolicy(v1alpha1.DeletionOrphan)
	w.requestIs("", contract.Orphan)
	w.answerRequest(contract.Applied, "")
	w.bindingSays("Granted", "Granted")
	w.host.setDown(true)
	w.unbind()
	w.bindingSays("Ready", "ConnectionNotReady")
	w.setSpec(name, "big", "plan")
	w.host.setDown(false)
	w.takenBack()
	w.noRequest()
	w.fileIs(name, plan("big"))
}

// Claims are kept in step as long as request.yaml is on main: also where only its removal is
// refused.
func TestB12_ClaimsGoOnWhileTheHostRefusesTheRemovalOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(2)
	w.setPolicy(v1alpha1.DeletionOrphan)
	w.requestIs("", contract.Orphan)
	w.answerRequest(contract.Applied, "")
	w.bindingSays("Granted", "Granted")
	w.host.judge(`while read old new ref; do
  if [ "$ref" = refs/heads/main ] && git diff --name-status $old $new | grep -q '^D.*request.yaml'; then echo 'requests stay' >&2; exit 1; fi
done`)
	w.unbind()
	if m := w.bindingSays("Granted", "PushRejected"); !strings.Contains(m, "still on main") || !strings.Contains(m, "requests stay") {
		t.Errorf("it says %q", m)
	}
	w.setSpec(names[0], "big", "plan")
	w.fileIs(names[0], plan("big"))
	w.commit(names[1], "service: a9s-postgresql13", "plan: medium")
	w.objectIs(names[1], plan("medium"))
	w.apply("late", spec("small"))
	w.committed("late")
	w.live(names...)
	w.requestIs("", contract.Orphan)
	w.host.judge("exit 0")
	w.takenBack()
	w.noRequest()
	w.fileIs(names[0], plan("big"))
	if n := w.files(); n != 3 {
		t.Errorf("%d files are left", n)
	}
}

func TestUnbindingWithDeleteDeletesTheClaims(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	names := w.claims(6)
	// A claim that only main has, as its namespace is missing.
	stray := contract.Key{Binding: w.binding, Namespace: "nowhere-" + w.name, Name: "stray"}
	data := strings.Replace(string(w.file("stray", "service: a9s-postgresql13")), w.namespace, stray.Namespace, 1)
	w.put(w.person, "Add a stray one", stray.Path(), []byte(data))
	w.setPolicy(v1alpha1.DeletionDelete)
	w.requestIs("", contract.Delete)
	w.unbind()
	w.terminates(names...)
	if m := w.bindingSays("Ready", "DeletingClaims"); !strings.Contains(m, "claims") {
		t.Errorf("message %q", m)
	}
	w.goes(names...)
	w.takenBack()
	w.noRequest()
	if n := w.files(); n != 0 {
		t.Errorf("%d files are left", n)
	}
	// Nobody has to approve it again on the other side.
	approved := strings.Count(w.host.run("-C", w.host.dir, "log", "--format=%B", "main"), contract.TrailerApproved)
	if approved != 7 {
		t.Errorf("%d removals are approved", approved)
	}
}

func TestABindingOutlivesItsConnectionOnlyWithClaims(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.must(w.client.Delete(t.Context(), w.connection))
	w.bindingIs("ConnectionNotFound")
	w.unbind()
	if m := w.bindingIs("ConnectionNotFound"); !strings.Contains(m, "Create the Connection again") {
		w.eventually("it says how on", func() error {
			if m := w.bindingIs("ConnectionNotFound"); !strings.Contains(m, "Create the Connection again") {
				return errorf("it says %q", m)
			}
			return nil
		})
	}
	w.live("orders")
	w.setPolicy(v1alpha1.DeletionOrphan)
	w.takenBack()
	if w.request() == nil || w.files() != 1 {
		t.Error("main was touched")
	}
}

func TestWhatMayNotBeRemovedIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ungrant()
	w.publish(nil)
	w.must(w.client.Create(t.Context(), w.secret()))
	w.must(w.client.Create(t.Context(), w.connection))
	w.bind()
	w.start()
	w.bindingIs("Forbidden")
	w.unbind()
	w.eventually("the binding goes", func() error {
		if w.getBinding() != nil {
			return errorf("it is there")
		}
		return nil
	})
	w.noRequest()
	w.eventually("an Event names what is left", func() error { return w.eventSays(w.binding, "NotRemoved", "CustomResourceDefinition "+w.binding) })
}

// A push that takes request.yaml off main deletes the binding by the konnector's hand:
// nobody has said of its claims that they may go.
func TestL2_ARequestThatIsRemovedApprovesNoRemovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.connection.Spec.Removals = &v1alpha1.RemovalLimits{Most: new(int32(0))}
	w.loop()
	names := w.claims(5)
	w.setPolicy(v1alpha1.DeletionDelete)
	w.requestIs("", contract.Delete)
	w.asks("")
	w.terminates(names...)
	w.held("ManyRemovals", names...)
	w.removalsHeld("5 claims are being deleted")
	for _, name := range names {
		w.fileIs(name, plan("small"))
	}
	if m := w.bindingSays("Ready", "DeletingClaims"); !strings.Contains(m, "no person's delete") || !strings.Contains(m, "kubectl gitbind approve") {
		t.Errorf("it does not say how on: %s", m)
	}
	// The request comes back, and what waits is let go of: all is as it was.
	before := w.getBinding().UID
	w.asks("{}")
	w.bindingIsAnother(before)
	w.bindingIs("Bound")
	for _, name := range names {
		w.resolve(name, "release")
	}
	w.inStep(names...)
}
