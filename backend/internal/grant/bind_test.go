package grant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestBindRulesNeverMeanAllTemplates(t *testing.T) {
	if got := BindRules(nil); len(got) > 0 {
		t.Errorf("without templates: %+v", got)
	}
	rules := BindRules([]string{"b", "a", "b"})
	if diff := cmp.Diff([]rbacv1.PolicyRule{{
		APIGroups: []string{"gitbind.dev"}, Resources: []string{"apiserviceexporttemplates"}, ResourceNames: []string{"a", "b"}, Verbs: []string{"bind"},
	}}, rules); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, BindTemplates(append(rules, rbacv1.PolicyRule{Resources: []string{"secrets"}, ResourceNames: []string{"c"}, Verbs: []string{"get"}}))); diff != "" {
		t.Error(diff)
	}
}
