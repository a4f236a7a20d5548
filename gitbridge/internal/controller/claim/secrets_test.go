package claim

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
)

// While main is held its files do not count: what travels already goes on as it is.
func TestNoSecretIsSealedWhileMainIsHeld(t *testing.T) {
	t.Parallel()
	f := start(t)
	asked := 0
	f.Secrets.Recipients = func(context.Context) ([]string, error) {
		asked++
		return nil, nil
	}
	f.beginSecrets(t.Context())
	f.step()
	if err := unstructured.SetNestedField(f.live.Object, "creds", "spec", "writeConnectionSecretToRef", "name"); err != nil {
		t.Fatal(err)
	}
	answer, _, _ := f.step()
	if asked != 1 || answer.Withheld[contract.AllSecrets] == "" {
		t.Fatalf("asked %d times for whom to encrypt to: %v", asked, answer.Withheld)
	}
	view := f.Session.View()
	view.Held = true
	s, err := f.look(t.Context(), view, f.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.act(t.Context(), s)
	if err != nil || o.answer.Result != contract.Applied {
		t.Fatalf("%v, %v", o.answer, err)
	}
	files, err := f.addSecrets(t.Context(), s, o.answer)
	if err != nil || len(files) > 0 || asked != 1 {
		t.Errorf("asked %d times for whom to encrypt to: %v, %v", asked, files, err)
	}
	if diff := cmp.Diff(answer.Withheld, o.answer.Withheld); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
