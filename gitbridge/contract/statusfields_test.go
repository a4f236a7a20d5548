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
	want.Status = map[string]any{"ready": true}
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
	case reflect.Int:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf(map[string]string{"x": "x"}))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}
