package contract

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPathAndKeyAreInverse(t *testing.T) {
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			Binding:   label.Draw(t, "plural") + "." + label.Draw(t, "group"),
			Namespace: label.Draw(t, "namespace"),
			Name:      label.Draw(t, "name") + rapid.SampledFrom([]string{"", ".yaml", ".b", "-claims"}).Draw(t, "tail"),
		}
		got, err := ParsePath(k.Path())
		if err != nil || got != k {
			t.Fatalf("ParsePath(%q) = %v, %v; want %v", k.Path(), got, err, k)
		}
	})
}

func TestParsePathRefuses(t *testing.T) {
	const b = "postgresqlinstances.anynines.com"
	for path, isClaimPath := range map[string]bool{
		"bindings/" + b + "/claims/team-a/orders.yaml.txt":                       false,
		"bindings/" + b + "/claims/team-a/orders.yml":                            false,
		"bindings/" + b + "/claims/orders.yaml":                                  false,
		"bindings/" + b + "/claims/team-a/sub/orders.yaml":                       false,
		"bindings/" + b + "/export.yaml":                                         false,
		"README.md":                                                              false,
		"bindings/" + b + "/claims/team-a/..yaml":                                true,
		"bindings/" + b + "/claims/Team-A/orders.yaml":                           true,
		"bindings/" + b + "/claims/team-a/Orders.yaml":                           true,
		"bindings/nogroup/claims/team-a/orders.yaml":                             true,
		"bindings/Instances.anynines.com/claims/team-a/orders.yaml":              true,
		"bindings/.anynines.com/claims/team-a/orders.yaml":                       true,
		"bindings/instances./claims/team-a/orders.yaml":                          true,
		"bindings/instances.Anynines/claims/team-a/orders.yaml":                  true,
		"bindings/" + b + "/claims/../orders.yaml":                               true,
		"bindings/" + b + "/claims/team-a/" + strings.Repeat("x", 201) + ".yaml": true,
	} {
		_, err := ParsePath(path)
		if err == nil {
			t.Errorf("ParsePath(%q): no error", path)
		}
		if errors.Is(err, ErrNotClaimPath) == isClaimPath {
			t.Errorf("ParsePath(%q): %v", path, err)
		}
	}
}

func TestStatusOfOtherFilesHasItsOwnFolder(t *testing.T) {
	long := strings.Repeat("a", 199)
	for path, want := range map[string]string{
		"bindings/a.b/claims/n/c.yaml": "bindings/a.b/claims/n/c.yaml",
		"bindings/a.b/export.yaml":     "refused/bindings/a.b/export.yaml",
		"bindings/a.b/claims/N/c.yaml": "refused/bindings/a.b/claims/N/c.yaml",
		// What Git clients would not check out.
		"bindings/../x":      "refused/sha256-",
		"bindings/a\nb":      "refused/sha256-",
		"bindings/.GIT/hook": "refused/sha256-",
		"bindings/GIT~1":     "refused/sha256-",
		"bindings//x":        "refused/sha256-",
		"bindings/./x":       "refused/sha256-",
		"bindings/a:b":       "refused/sha256-",
		"bindings/a\xff":     "refused/sha256-",
		// As long and as deep as it may be, and one more.
		strings.Repeat("a", 200):                                   "refused/" + strings.Repeat("a", 200),
		strings.Repeat("a", 201):                                   "refused/sha256-",
		strings.Repeat("a/", 50) + "a":                             "refused/" + strings.Repeat("a/", 50) + "a",
		strings.Repeat("a/", 51) + "a":                             "refused/sha256-",
		strings.Repeat(long+"/", 9) + long + "a":                   "refused/" + strings.Repeat(long+"/", 9) + long + "a",
		long + "a/" + strings.Repeat(long+"/", 8) + long + "a":     "refused/sha256-",
		long + "\xff/" + strings.Repeat(long+"/", 8) + long + "aa": "refused/sha256-",
	} {
		if got := StatusPath(path); got != want && (!strings.HasSuffix(want, "-") || !strings.HasPrefix(got, want)) {
			t.Errorf("StatusPath(%q) = %q, want %q", path, got, want)
		}
	}
}

func TestTheLongestNameIsOne(t *testing.T) {
	want := Key{Binding: binding, Namespace: strings.Repeat("n", 63), Name: strings.Repeat("x", MaxNameLength)}
	if got, err := ParsePath(want.Path()); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	for _, k := range []Key{
		{Binding: binding, Namespace: want.Namespace + "n", Name: "orders"},
		{Binding: binding, Namespace: "team-a", Name: want.Name + "x"},
	} {
		if k.Validate() == nil {
			t.Errorf("%v is valid", k)
		}
	}
}

func TestThePathOfInputsNamesTheirClaim(t *testing.T) {
	want := Key{Binding: binding, Namespace: "team-a", Name: "orders.eu"}
	if got, ok := ParseInputsPath(want.InputsPath()); !ok || got != want || !IsReserved(want.InputsPath()) {
		t.Errorf("%s is of %v", want.InputsPath(), got)
	}
	for _, path := range []string{want.Path(), "bindings/a.b/inputs/n/C.yaml", "bindings/a.b/inputs/n/c", "bindings/a.b/inputs/c.yaml", "bindings/a.b/inputs/n/c/x.yaml"} {
		if k, ok := ParseInputsPath(path); ok {
			t.Errorf("%s is of %v", path, k)
		}
	}
}

func TestOnlyTheInputsOfABindingAreReserved(t *testing.T) {
	for path, want := range map[string]bool{
		"bindings/a.b/inputs":             true,
		"bindings/a.b/inputs/x.yaml":      true,
		"bindings/a.b/inputs.yaml":        false,
		"bindings/a.b/claims/n/c.yaml":    false,
		"bindings/a.b/x/inputs":           false,
		"bindings/inputs":                 false,
		"bindings":                        false,
		"other/a.b/inputs/x.yaml":         false,
		"README.md":                       false,
		"bindings/inputs/claims/n/inputs": false,
	} {
		if got := IsReserved(path); got != want {
			t.Errorf("IsReserved(%q) = %v", path, got)
		}
	}
}
