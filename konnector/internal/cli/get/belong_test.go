package get

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestClaimsStandWithWhatTheyBelongTo(t *testing.T) {
	t.Parallel()
	const databases, backups, restores = "databases.example.com", "backups.example.com", "restores.example.com"
	isDatabase := &v1alpha1.ReferenceCondition{Field: "spec.type", Value: "database"}
	offers := map[string]*v1alpha1.Offer{
		backups: {References: []v1alpha1.Reference{
			{Field: "spec.instanceRef", API: "queues.example.com", When: &v1alpha1.ReferenceCondition{Field: "spec.type", Value: "queue"}},
			{Field: "spec.instanceRef", API: databases, When: isDatabase},
		}},
		restores: {References: []v1alpha1.Reference{{Field: "spec.backupRef", API: backups}, {Field: "spec.instanceRef", API: databases}}},
		// These may name each other.
		"loops.example.com": {References: []v1alpha1.Reference{{Field: "spec.next", API: "loops.example.com"}}},
	}
	of := func(binding, namespace, name string, spec map[string]any) claim {
		return claim{binding: binding, object: unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
		}}}
	}
	got := together([]claim{
		of(backups, "a", "daily", map[string]any{"instanceRef": "orders", "type": "database"}),
		of(restores, "a", "kept", map[string]any{"backupRef": "gone", "instanceRef": "orders"}),
		of("loops.example.com", "a", "l1", map[string]any{"next": "l2"}),
		of("loops.example.com", "a", "l2", map[string]any{"next": "l1"}),
		of("loops.example.com", "a", "self", map[string]any{"next": "self"}),
		of(databases, "a", "orders", nil),
		of(restores, "a", "undo", map[string]any{"backupRef": "daily", "instanceRef": "orders"}),
		of(backups, "b", "elsewhere", map[string]any{"instanceRef": "orders", "type": "database"}),
		of(backups, "b", "odd", map[string]any{"instanceRef": 7, "type": []any{}}),
	}, offers)
	var lines []string
	for _, c := range got {
		lines = append(lines, c.indent()+c.object.GetNamespace()+"/"+c.object.GetName())
	}
	want := []string{"a/self", "a/orders", "└ a/daily", "  └ a/undo", "└ a/kept", "b/elsewhere", "b/odd", "a/l1", "└ a/l2"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
