package onboarding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// A share is named by the same words when it is given and when it is taken back.
func TestAShareTellsTheOfferOfItsBinding(t *testing.T) {
	w := newWorld(t, v1alpha1.ClusterBindingSpec{})
	export := &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gb-" + id, Name: "databases.example.com"},
		Spec:       v1alpha1.APIServiceExportSpec{Template: "small-databases"},
	}
	if err := w.api.Create(t.Context(), export); err != nil {
		t.Fatal(err)
	}
	want := restapi.Share{Role: restapi.RepositoryWrite, User: "bob", Binding: "databases.example.com", Offer: "small-databases"}
	shares := func(want ...restapi.Share) {
		t.Helper()
		got, err := w.Shares(t.Context(), alice, id)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("listed, %v: -want +got:\n%s", err, diff)
		}
	}
	for _, word := range []string{"databases.example.com", "databases", "small-databases"} {
		got, err := w.Share(t.Context(), alice, id, restapi.Share{Role: restapi.RepositoryWrite, User: "bob", Binding: word, Offer: "another"})
		if err != nil {
			t.Fatalf("share %s: %v", word, err)
		}
		if want.ID == "" {
			want.ID = got.ID
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("share %s: -want +got:\n%s", word, diff)
		}
		shares(want)
	}
	if err := w.api.Delete(t.Context(), export); err != nil {
		t.Fatal(err)
	}
	want.Offer = ""
	shares(want)
}
