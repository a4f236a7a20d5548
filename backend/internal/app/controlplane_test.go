package app

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestTheCacheKeepsOfWhatIsLargeOnlyWhatIsRead(t *testing.T) {
	large := runtime.RawExtension{Raw: []byte(`{"large":true}`)}
	meta := metav1.ObjectMeta{Name: "databases.example.com", Generation: 3}
	managed := meta
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	offer, usage := &v1alpha1.Offer{DisplayName: "PostgreSQL"}, &v1alpha1.QuotaUsage{Claims: 4}
	conditions := []metav1.Condition{{Type: v1alpha1.ConditionGranted}}
	for _, c := range []struct{ has, keeps client.Object }{
		{
			&v1alpha1.APIServiceExport{ObjectMeta: managed, Spec: v1alpha1.APIServiceExportSpec{Template: "small"}, Status: v1alpha1.APIServiceExportStatus{
				CRD: &large, Policies: []runtime.RawExtension{large}, Offer: offer, Quota: usage, Conditions: conditions,
			}},
			&v1alpha1.APIServiceExport{ObjectMeta: meta, Spec: v1alpha1.APIServiceExportSpec{Template: "small"}, Status: v1alpha1.APIServiceExportStatus{
				Offer: offer, Quota: usage, Conditions: conditions,
			}},
		},
		{
			&v1alpha1.DryRun{ObjectMeta: managed, Spec: v1alpha1.DryRunSpec{Branch: "changes/1", Claims: make([]v1alpha1.ProposedClaim, 1)}},
			&v1alpha1.DryRun{ObjectMeta: meta, Spec: v1alpha1.DryRunSpec{Branch: "changes/1"}},
		},
		{&v1alpha1.ClusterBinding{ObjectMeta: managed}, &v1alpha1.ClusterBinding{ObjectMeta: meta}},
	} {
		kept := cached(labels.Everything())
		transform := kept.DefaultTransform
		for of, options := range kept.ByObject {
			if reflect.TypeOf(of) == reflect.TypeOf(c.has) && options.Transform != nil {
				transform = options.Transform
			}
		}
		got, err := transform(c.has)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.keeps, got); diff != "" {
			t.Errorf("%T: %s", c.has, diff)
		}
	}
}
