package apiservicebinding

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/policies/bound"
)

// fight is a world in which others write a definition or a policy, too.
type fight struct {
	*world
	// by is who has written last, before the konnector did.
	by string
	// writes counts the konnector's.
	writes int
}

func newFight(t *testing.T) *fight {
	t.Helper()
	f := &fight{world: newWorld(t)}
	f.granted(nil)
	mark := func(o client.Object) {
		old, now := metav1.NewTime(f.now.Add(-time.Hour)), metav1.NewTime(f.now)
		fields := []metav1.ManagedFieldsEntry{
			{Manager: "installer", Time: &old}, {Manager: f.by, Time: &now}, {Manager: ourManager, Time: &now},
			{Manager: "kube-apiserver", Subresource: "status", Time: new(metav1.NewTime(f.now.Add(time.Minute)))},
		}
		if f.by == "" {
			fields = append(fields[:1], fields[2:]...)
		}
		o.SetManagedFields(fields)
	}
	f.Live = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			mark(o)
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if all, ok := list.(*admissionv1.ValidatingAdmissionPolicyList); ok {
				for i := range all.Items {
					mark(&all.Items[i])
				}
			}
			return err
		},
	})
	f.Client = interceptor.NewClient(f.Client.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			f.writes++
			return c.Update(ctx, o, opts...)
		},
	})
	return f
}

// goesOn has others write again and again: first before an edit of the export, and then in answer
// to each write.
func (f *fight) goesOn(write func(), round func() (reason, message string)) {
	f.Helper()
	expect := func(when string, writes int, held bool) {
		f.Helper()
		reason, message := round()
		if f.writes != writes || (reason == "ManyWrites") != held || held && !strings.Contains(message, "argocd-controller") {
			f.Errorf("%s: %d writes, want %d; it says %s: %s", when, f.writes, writes, reason, message)
		}
	}
	for i := range 2 * MaxRewrites {
		write()
		expect("another one's edit of the export", i+1, false)
	}
	f.by, f.writes = "argocd-controller", 0
	for i := range 2 * MaxRewrites {
		write()
		expect("a fight", min(i+1, MaxRewrites), i+1 >= MaxRewrites)
	}
	f.now = f.now.Add(RewriteEvery)
	expect("a minute later", MaxRewrites+1, true)
	expect("in step for a moment", MaxRewrites+1, true)
	f.now = f.now.Add(RewriteEvery)
	expect("in step for a minute", MaxRewrites+1, false)
}

// A tool that puts another definition in the place of ours is not answered for ever.
func TestADefinitionThatOthersWriteIsWrittenNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	want := f.crd.DeepCopy()
	f.goesOn(func() {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := f.Live.Get(t.Context(), client.ObjectKey{Name: binding}, live); err != nil {
			t.Fatal(err)
		}
		live.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "theirs"
		if err := f.Live.(client.Client).Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}, func() (reason, message string) {
		l := f.look()
		crd, not, err := f.install(t.Context(), l, want)
		if err != nil || crd == nil {
			t.Fatal(crd, err)
		}
		if not == nil {
			return l.schema.Reason, l.schema.Message
		}
		if not.retry <= 0 || not.retry > RewriteEvery || l.schema.Reason != not.reason {
			t.Errorf("retry after %s, %+v", not.retry, l.schema)
		}
		return not.reason, not.message
	})
}

func TestAPolicyThatOthersWriteIsWrittenNowAndThen(t *testing.T) {
	t.Parallel()
	f := newFight(t)
	f.turnedOn()
	objects := offeredPolicy(t, "strict")
	round := func() (reason, message string) {
		l := &look{binding: f.binding, policies: &objects}
		if err := f.installPolicies(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		return l.judged.Reason, l.judged.Message
	}
	round()
	f.goesOn(func() {
		live := &admissionv1.ValidatingAdmissionPolicy{}
		if err := f.Live.Get(t.Context(), client.ObjectKey{Name: bound.Names(binding)[0]}, live); err != nil {
			t.Fatal(err)
		}
		live.Annotations[v1alpha1.PolicyAnnotation] = "theirs"
		if err := f.Live.(client.Client).Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}, round)
}
