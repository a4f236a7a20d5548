package onboarding

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestAClusterIsNamedByItsIdOrItsOnlyName(t *testing.T) {
	cluster := func(id, name string) v1alpha1.ClusterBinding {
		return v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.ClusterBindingSpec{DisplayName: name}}
	}
	// The last one is called as the first one's id: the id counts.
	own := []v1alpha1.ClusterBinding{cluster("aaa", "prod"), cluster("bbb", "dev"), cluster("ccc", "dev"), cluster("ddd", "aaa")}
	for _, c := range []struct {
		name, want, err string
	}{
		{"bbb", "bbb", ""},
		{"prod", "aaa", ""},
		{"aaa", "aaa", ""},
		{"dev", "", "give the id. yours are aaa (prod), bbb (dev), ccc (dev), ddd (aaa)"},
		{"nope", "", "yours are aaa (prod)"},
	} {
		got, err := named(own, c.name)
		switch {
		case c.err == "" && (err != nil || got.Name != c.want):
			t.Errorf("%s: %v, %v", c.name, got, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := named(nil, "prod"); err == nil || !strings.Contains(err.Error(), "none belongs to you") {
		t.Error(err)
	}
}
