package selection

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestWhatAClaimSelects(t *testing.T) {
	spec := map[string]any{"spec": map[string]any{"ca": map[string]any{"name": "my-ca"}, "number": int64(3)}}
	up := v1alpha1.DirectionUp
	all := []v1alpha1.PermissionClaim{
		{Name: "$(name)-$(name)-tls"},
		{Name: "settings", Direction: up, Resource: v1alpha1.ResourceConfigMaps, Keys: []string{"a"}},
		{Field: "spec.ca.name", Direction: up},
		{Field: "spec.none.name", Direction: up},
		{Field: "spec.number", Direction: up},
		{MatchLabels: map[string]string{"of": "$(name)", "tier": "gold"}, Direction: up},
	}
	for name, c := range map[string]struct {
		direction v1alpha1.Direction
		resource  v1alpha1.Resource
		want      []Selection
	}{
		"down":          {v1alpha1.DirectionDown, v1alpha1.ResourceSecrets, []Selection{{Name: "orders-orders-tls"}}},
		"secrets up":    {up, v1alpha1.ResourceSecrets, []Selection{{Name: "my-ca"}, {Labels: map[string]string{"of": "orders", "tier": "gold"}}}},
		"configmaps up": {up, v1alpha1.ResourceConfigMaps, []Selection{{Name: "settings", Keys: []string{"a"}}}},
	} {
		if diff := cmp.Diff(c.want, Of(c.direction.Of(all), c.resource, "orders", spec)); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
	if all[5].MatchLabels["of"] != "$(name)" {
		t.Error("the offer was changed")
	}
}

// The control plane's own is not for a tenant to write.
func TestTheRootCAOfAClusterStaysThere(t *testing.T) {
	all := []Selection{{Name: "kube-root-ca.crt"}, {Labels: map[string]string{"of": "orders"}}}
	if _, ok := Judge(all, metav1.ObjectMeta{Name: "kube-root-ca.crt", Labels: map[string]string{"of": "orders"}}); ok {
		t.Error("it is taken")
	}
}

func TestWhatTravelsOfAnObject(t *testing.T) {
	m := metav1.ObjectMeta{Name: "x", Labels: map[string]string{"of": "orders", "tier": "gold", "more": "1"}}
	byName, byLabel := Selection{Name: "x", Keys: []string{"b"}}, Selection{Labels: map[string]string{"of": "orders"}, Keys: []string{"a"}}
	for name, c := range map[string]struct {
		selections []Selection
		taken      bool
		keys       []string
		labels     map[string]string
	}{
		"by nothing":       {nil, false, nil, nil},
		"by another name":  {[]Selection{{Name: "y"}}, false, nil, nil},
		"by name":          {[]Selection{byName}, true, []string{"b"}, nil},
		"by both":          {[]Selection{byName, byLabel}, true, []string{"a", "b"}, map[string]string{"of": "orders"}},
		"by all keys, too": {[]Selection{byName, {Name: "x"}}, true, nil, nil},
		"by a label less":  {[]Selection{{Labels: map[string]string{"of": "orders", "no": "1"}}}, false, nil, nil},
		"by two labels":    {[]Selection{{Labels: map[string]string{"of": "orders"}}, {Labels: map[string]string{"tier": "gold"}}}, true, nil, map[string]string{"of": "orders", "tier": "gold"}},
	} {
		got, ok := Judge(c.selections, m)
		if ok != c.taken || !cmp.Equal(got.Keys, c.keys) || !cmp.Equal(got.Labels, c.labels) {
			t.Errorf("%s: %v %+v", name, ok, got)
		}
	}
	if got := Only(map[string]int{"a": 1, "b": 2}, []string{"a", "c"}); !cmp.Equal(got, map[string]int{"a": 1}) {
		t.Errorf("only a is %v", got)
	}
}
