package claim

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/test/fakeapi"
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

// Its object runs on as it was, and who provides the service renews what is in its Secrets.
func TestSecretsFollowWhileAnEditIsRefused(t *testing.T) {
	t.Parallel()
	invalid := func(f *fixture) { f.push("apiVersion: nonsense\n") }
	for name, c := range map[string]struct {
		edit   func(*fixture)
		result contract.Result
		sealed bool
	}{
		"it cannot be read": {invalid, contract.Invalid, true},
		"the control plane denies it": {func(f *fixture) {
			f.push(good + "  parameters: {max_connections: 200}\n")
			f.patch = func() error { return fakeapi.PolicyDenies(resource.GroupResource(), "orders", "p", "no") }
		}, contract.Denied, true},
		"its removal is held": {func(f *fixture) {
			f.access = decision.NotBound
			f.step()
			f.push("")
			f.follow()
			f.step()
			f.access = ""
		}, contract.Held, true},
		"it is being deleted": {func(f *fixture) {
			f.live.SetDeletionTimestamp(&metav1.Time{Time: f.now})
			invalid(f)
		}, contract.Deleting, false},
		"somebody else's is there": {func(f *fixture) {
			f.live.SetLabels(nil)
			f.live.SetAnnotations(nil)
			invalid(f)
		}, contract.Held, false},
		"it has the labels of another": {func(f *fixture) {
			f.live.SetLabels(map[string]string{v1alpha1.LabelCluster: "another"})
			invalid(f)
		}, contract.Invalid, false},
	} {
		t.Run(name, func(t *testing.T) {
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
			c.edit(f)
			f.follow()
			f.step()
			f.now = f.now.Add(moreLossesWait)
			asked = 0
			answer, _, _ := f.step()
			if answer.Result != c.result || asked > 0 != c.sealed {
				t.Errorf("%s %s: asked %d times for whom to encrypt to", answer.Result, answer.Message, asked)
			}
		})
	}
}
