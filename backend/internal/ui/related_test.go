package ui

import (
	"fmt"
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// TestH4_ClaimsOfOneContentAreReadEachWithinTheBound has a file under many names: it is decoded
// for each of them.
func TestH4_ClaimsOfOneContentAreReadEachWithinTheBound(t *testing.T) {
	t.Parallel()
	w := newWorld()
	parent := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}
	near, offers := []item{{key: parent}}, map[string]*v1alpha1.Offer{}
	content := "apiVersion: example.com/v1\nkind: Backup\nmetadata: {name: daily, namespace: team-a}\nspec: {instanceRef: orders}\n"
	w.files[prod+":main"] = map[string]string{}
	for i := range 2 * maxRelated {
		k := contract.Key{Binding: fmt.Sprintf("backups%d.example.com", i), Namespace: "team-a", Name: "daily"}
		w.files[prod+":main"][k.Path()] = content
		near = append(near, item{key: k, path: k.Path(), blob: hash(content)})
		offers[k.Binding] = &v1alpha1.Offer{References: []v1alpha1.Reference{{Field: "spec.instanceRef", API: api}}}
	}
	parents, err := (&handler{Config: Config{Git: w}}).parents(t.Context(), prod, near, offers)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, p := range parents {
		if p == 0 {
			read++
		}
	}
	if read != maxRelated {
		t.Errorf("%d claims were read, want %d", read, maxRelated)
	}
}
