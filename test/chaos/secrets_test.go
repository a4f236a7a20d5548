package chaos

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/test/scan"
)

const (
	orders  = "widgets.chaos.example team-a/orders"
	billing = "widgets.chaos.example team-a/billing"
)

func TestWhatIsDeliveredToAnotherClaimIsAViolation(t *testing.T) {
	values := scan.New()
	value := func(claim, object string, number int) string {
		return values.Value(fmt.Sprintf("%s %s %d", claim, object, number))
	}
	for name, tc := range map[string]struct {
		key  string
		is   credential
		want string
	}{
		"the same value":                       {orders, credential{value(orders, "there", 5), "here"}, ""},
		"the next value":                       {orders, credential{value(orders, "there", 6), "here"}, ""},
		"the first value of the next claim":    {orders, credential{value(orders, "next", 6), "next here"}, ""},
		"another claim's":                      {orders, credential{value(billing, "other", 6), "here"}, "was delivered to it"},
		"an earlier claim's of this name":      {orders, credential{value(orders, "there", 6), "next here"}, "was delivered to the claim with UID"},
		"of another object":                    {orders, credential{value(orders, "next", 6), "here"}, "was delivered to the claim with UID"},
		"one that was replaced":                {orders, credential{value(orders, "there", 4), "here"}, "after number 5"},
		"one that the control plane never had": {orders, credential{"invented", "here"}, "nobody made"},
	} {
		d := newDeliveries(values)
		d.add(orders, credential{value(orders, "there", 5), "here"})
		d.add(tc.key, tc.is)
		c := &checker{counts: Counts{}}
		d.tell(c)
		if tc.want == "" && len(c.found) > 0 || tc.want != "" && (len(c.found) != 1 || !strings.Contains(c.found[0].What, tc.want)) {
			t.Errorf("%s: %v, want %q", name, c.found, tc.want)
		}
	}
}

func TestASecretThatIsNotAsOnTheControlPlaneIsAViolation(t *testing.T) {
	values := scan.New()
	last := values.Value("orders 2")
	object := func(uid string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": uid}}}
	}
	sealed := []string{"bindings/b/secrets/team-a/orders-creds.yaml"}
	for name, tc := range map[string]struct {
		issued, delivered map[string]credential
		sealed            []string
		want              string
	}{
		"equal":               {map[string]credential{orders: {last, "there"}}, map[string]credential{orders: {last, "here"}}, sealed, ""},
		"lost":                {map[string]credential{orders: {last, "there"}}, nil, sealed, "is not in the app cluster"},
		"an older one":        {map[string]credential{orders: {last, "there"}}, map[string]credential{orders: {values.Value("orders 1"), "here"}}, sealed, `is of "orders 1" in the app cluster, and of "orders 2"`},
		"not the claim's":     {map[string]credential{orders: {last, "there"}}, map[string]credential{orders: {last, "?"}}, sealed, `belongs to "?"`},
		"left over":           {nil, map[string]credential{orders: {last, "here"}}, nil, "none on the control plane"},
		"a file left over":    {nil, nil, sealed, "0 Secrets travel"},
		"of a claim that was": {map[string]credential{orders: {last, "was there"}}, nil, nil, ""},
	} {
		c := &checker{counts: Counts{}, values: values}
		c.secrets(&state{
			app: map[string]*unstructured.Unstructured{orders: object("here")}, control: map[string]*unstructured.Unstructured{orders: object("there")},
			issued: tc.issued, delivered: tc.delivered, sealed: tc.sealed,
		})
		if tc.want == "" && len(c.found) > 0 || tc.want != "" && (len(c.found) != 1 || !strings.Contains(c.found[0].What, tc.want)) {
			t.Errorf("%s: %v, want %q", name, c.found, tc.want)
		}
	}
}
