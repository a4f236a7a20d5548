package contract

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// TestEqualObjectsGiveEqualBytes writes maps whose keys a natural order puts in a cycle
// ("-5" < "1R" < "8.5a" < "-5"), filled in another order each time.
func TestEqualObjectsGiveEqualBytes(t *testing.T) {
	keys := []string{"-5", "1R", "8.5a", "a10", "a9", "10", "9", "x", "on", ""}
	written := map[string]bool{}
	for range 2000 {
		m := map[string]string{}
		for _, i := range rand.Perm(len(keys)) {
			m[keys[i]] = "v"
		}
		data, err := MarshalYAML(map[string]any{"data": m})
		if err != nil {
			t.Fatal(err)
		}
		written[string(data)] = true
	}
	if len(written) != 1 {
		t.Errorf("one map was written in %d ways", len(written))
	}
}

func TestWhatMarshalYAMLWritesReadsAsWhatItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type inner struct {
			Data  map[string][]byte `json:"data,omitempty"`
			Count int64             `json:"count"`
			Part  *float64          `json:"part,omitempty"`
			Lists [][]string        `json:"lists,omitempty"`
		}
		in := inner{
			Data:  rapid.MapOf(rapid.String(), rapid.SliceOfN(rapid.Byte(), 1, 40)).Draw(t, "data"),
			Count: rapid.Int64().Draw(t, "count"),
			Lists: rapid.SliceOf(rapid.SliceOfN(rapid.String(), 1, 4)).Draw(t, "lists"),
		}
		if len(in.Data) == 0 {
			in.Data = nil
		}
		if len(in.Lists) == 0 {
			in.Lists = nil
		}
		data, err := MarshalYAML(in)
		if err != nil {
			t.Fatal(err)
		}
		var out inner
		if err := yaml.UnmarshalStrict(data, &out); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(in, out) {
			t.Fatalf("%+v was read as %+v\n%s", in, out, data)
		}
	})
}

func TestMarshalYAMLNamesNoValue(t *testing.T) {
	_, err := MarshalYAML(map[string]any{"password": func() {}})
	if err == nil || strings.Contains(err.Error(), "password") {
		t.Errorf("err = %v; want one without the key", err)
	}
}
