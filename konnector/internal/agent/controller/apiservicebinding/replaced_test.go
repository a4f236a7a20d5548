package apiservicebinding

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/request"
)

// A definition that somebody put in the place of ours may have our claims, which nobody would
// let go of when the binding is gone.
func TestABindingWaitsForClaimsUnderADefinitionThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	kept := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c0", Finalizers: []string{v1alpha1.Finalizer}}}
	other := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c1"}}
	for _, c := range []struct {
		name      string
		kind      string
		objects   []metav1.PartialObjectMetadata
		forbidden bool
		holds     bool
	}{
		{"claims with our finalizer", "PostgresqlInstance", []metav1.PartialObjectMetadata{other, kept}, false, true},
		{"claims that may not be listed", "PostgresqlInstance", nil, true, true},
		{"objects of others", "PostgresqlInstance", []metav1.PartialObjectMetadata{other}, false, false},
		{"no claim was ever kept, and none may be listed", "", nil, true, false},
	} {
		for _, policy := range []v1alpha1.DeletionPolicy{v1alpha1.DeletionPolicy(contract.Orphan), v1alpha1.DeletionPolicy(contract.Delete)} {
			t.Run(fmt.Sprint(c.name, ", ", policy), func(t *testing.T) {
				w := newWorld(t)
				w.crd.Annotations = map[string]string{v1alpha1.ConnectionAnnotation: "another"}
				if err := w.Client.Update(t.Context(), w.crd); err != nil {
					t.Fatal(err)
				}
				w.binding.Spec.DeletionPolicy = policy
				w.adopted()
				w.put("main", map[string]string{contract.RequestPath(binding): asked[:len(asked)-len("{}\n")] + "{deletionPolicy: " + string(policy) + "}\n"})
				w.look()
				w.objects, w.forbidden = c.objects, c.forbidden
				w.binding.DeletionTimestamp, w.binding.Status.Kind = new(metav1.Now()), c.kind
				l, err := w.lookAt(t.Context(), w.binding)
				if err != nil || (l.action == request.Hold) != c.holds {
					t.Fatalf("%s, %v", l.action, err)
				}
				if !c.holds {
					return
				}
				if result, err := w.unbind(t.Context(), l); err != nil || result.RequeueAfter < countWait {
					t.Errorf("%+v, %v", result, err)
				}
				if c := w.ready(); c.Reason != "CRDConflict" || !strings.Contains(c.Message, "kubectl annotate crd "+binding+" "+v1alpha1.ConnectionAnnotation+"=default --overwrite") {
					t.Errorf("it says %s: %s", c.Reason, c.Message)
				}
				if w.look().file == nil {
					t.Error("the request is gone")
				}
			})
		}
	}
}
