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

func TestWhatComesToTheControlPlaneForAnotherClaimIsAViolation(t *testing.T) {
	values := scan.New()
	value := func(claim string, number int) string { return values.Value(fmt.Sprintf("%s %d", claim, number)) }
	for name, tc := range map[string]struct{ is, want string }{
		"the same value":                     {value(orders, 5), ""},
		"the next value":                     {value(orders, 6), ""},
		"another claim's":                    {value(billing, 6), "came to the control plane as this claim's"},
		"one that was replaced":              {value(orders, 4), "before number 5"},
		"one that the app cluster never had": {"invented", "nobody made"},
	} {
		d := newDeliveries(values)
		d.addInput(orders, credential{value: value(orders, 5)})
		d.addInput(orders, credential{value: tc.is})
		c := &checker{counts: Counts{}}
		d.tell(c)
		if tc.want == "" && len(c.found) > 0 || tc.want != "" && (len(c.found) != 1 || !strings.Contains(c.found[0].What, tc.want)) {
			t.Errorf("%s: %v, want %q", name, c.found, tc.want)
		}
	}
}

func TestWhatAClaimRefersToThatIsNotAsInTheAppClusterIsAViolation(t *testing.T) {
	values := scan.New()
	old, last := map[string]credential{orders: {value: values.Value("orders 1")}}, map[string]credential{orders: {value: values.Value("orders 2")}}
	there := map[string]*unstructured.Unstructured{orders: {}}
	for name, tc := range map[string]struct {
		given, taken map[string]credential
		claims       map[string]*unstructured.Unstructured
		want         string
	}{
		"equal":                 {last, last, there, ""},
		"none yet":              {nil, nil, there, ""},
		"lost":                  {last, nil, there, "is not on the control plane"},
		"an older one":          {last, old, there, `is of "orders 1" on the control plane, and of "orders 2"`},
		"left over":             {nil, last, there, "no claim there refers to it"},
		"left of a claim":       {last, last, nil, "no claim there refers to it"},
		"a claim that has gone": {last, nil, nil, ""},
	} {
		c := &checker{counts: Counts{}, values: values}
		c.inputs(&state{app: tc.claims, control: tc.claims, main: tc.claims, given: tc.given, taken: tc.taken})
		if tc.want == "" && len(c.found) > 0 || tc.want != "" && (len(c.found) != 1 || !strings.Contains(c.found[0].What, tc.want)) {
			t.Errorf("%s: %v, want %q", name, c.found, tc.want)
		}
	}
	c := &checker{counts: Counts{}, values: values}
	if c.inputs(&state{inputs: []string{orders}}); len(c.found) != 1 || !strings.Contains(c.found[0].What, "is on main") {
		t.Errorf("a file without its claim: %v", c.found)
	}
}
