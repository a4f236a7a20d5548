package contract

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEncodeStatusForgetsNoField fills every field that there is.
func TestEncodeStatusForgetsNoField(t *testing.T) {
	var want Status
	fill(reflect.ValueOf(&want).Elem())
	want.APIVersion, want.Kind = APIVersion, "ClaimStatus"
	data, err := EncodeStatus(&want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeStatus(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{map[string]any{"x": "x"}}))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

func TestACopyOfAStatusSharesNothing(t *testing.T) {
	t.Parallel()
	var s Status
	fill(reflect.ValueOf(&s).Elem())
	out := s.copy()
	if diff := cmp.Diff(&s, out); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, path := range shared(reflect.ValueOf(&s), reflect.ValueOf(out), "") {
		t.Errorf("Status%s is shared", path)
	}
}

// shared gives the paths of all pointers, maps and slices that two equal values share.
func shared(a, b reflect.Value, path string) (out []string) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Map:
		for _, key := range a.MapKeys() {
			out = append(out, shared(a.MapIndex(key), b.MapIndex(key), path+"["+key.String()+"]")...)
		}
	case reflect.Slice:
		for i := range a.Len() {
			out = append(out, shared(a.Index(i), b.Index(i), path+"[]")...)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			out = append(out, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	}
	return out
}
