package apiserviceexport

import (
	"encoding/json"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/grant"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

func export(resource string) v1alpha1.APIServiceExport {
	api := v1alpha1.ExportedAPI{Group: "example.com", Version: "v1", Resource: resource}
	return v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Name: api.BindingName()}, Spec: v1alpha1.APIServiceExportSpec{API: api}}
}

func TestOneExportThatIsNotOfferedDoesNotStopTheOthers(t *testing.T) {
	a, b, c, going := export("as"), export("bs"), export("cs"), export("gone")
	now := metav1.Now()
	going.DeletionTimestamp = &now
	granted, refused := divide([]v1alpha1.APIServiceExport{c, b, a, going}, []rbacv1.PolicyRule{grant.Rule(a.Spec.API), grant.Rule(c.Spec.API), grant.Rule(going.Spec.API)})
	if len(granted) != 2 || granted[0].Name != "as.example.com" || granted[1].Name != "cs.example.com" {
		t.Errorf("granted %v", granted)
	}
	if len(refused) != 1 || refused[0].Name != "bs.example.com" {
		t.Errorf("refused %v", refused)
	}
}

func TestARoleHasTheRightsOnItsExportsAndSaysSoWhenThereAreNone(t *testing.T) {
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: "k3x9d2abqw", UID: "u1"}}
	for want, granted := range map[string][]*v1alpha1.APIServiceExport{
		`"rules":[]`: nil,
		`"rules":[{"apiGroups":["example.com"],"resources":["as"],"verbs":["get","list","watch","create","update","patch","delete"]}]`: {ptr.To(export("as"))},
	} {
		b, err := json.Marshal(role(cb, granted))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("got %s, %v, want %s", b, err, want)
		}
	}
}

func TestOfExport(t *testing.T) {
	for ns, want := range map[string]int{"gb-k3x9d2abqw": 1, "default": 0, "gb-": 0, "gb-k3x9d2abqw-team-a": 0} {
		e := export("as")
		e.Namespace = ns
		if got := ofExport(t.Context(), client.Object(&e)); len(got) != want {
			t.Errorf("%s: %v", ns, got)
		}
	}
}
