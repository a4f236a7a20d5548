package claim

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
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

// What a template that is gone offered is not known: what travels already stays, as all that
// was applied.
func TestSecretsStayWhenTheTemplateIsGone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Secrets.Signer = func(context.Context) (*encryption.Signer, error) {
		return nil, errors.New("another list is to be signed")
	}
	f.beginSecrets(t.Context())
	present, _, _ := f.step()
	f.templateGone = true
	s, err := f.look(t.Context(), f.Session.View(), f.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Present = new(*present)
	s.Present.Secrets = &contract.SecretList{Sequence: 7, Versions: map[string]int64{"orders-creds": 7}}
	s.Present.Withheld = map[string]string{"orders-ca": "it is of another claim"}
	o, err := f.act(t.Context(), s)
	if err != nil || o.answer.Result != contract.Applied {
		t.Fatalf("%v, %v", o.answer, err)
	}
	files, err := f.addSecrets(t.Context(), s, o.answer)
	if err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	if diff := cmp.Diff(s.Present.Secrets, o.answer.Secrets) + cmp.Diff(s.Present.Withheld, o.answer.Withheld); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}
