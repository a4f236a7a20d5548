package share

import (
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
)

func TestWhichSharesAreMeant(t *testing.T) {
	t.Parallel()
	given := restapi.Share{Role: restapi.RepositoryWrite, User: "oidc:bob", Binding: "databases.example.com", Offer: "small", Namespace: "team-a"}
	bobs := func(in Input) Input { in.Users = []string{"bob"}; return in }
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"all of somebody's":     {bobs(Input{}), true},
		"the binding":           {bobs(Input{Binding: "databases.example.com"}), true},
		"its plural":            {bobs(Input{Binding: "databases"}), true},
		"its offer":             {bobs(Input{Binding: "small"}), true},
		"another binding":       {bobs(Input{Binding: "caches"}), false},
		"another role":          {bobs(Input{Role: restapi.RepositoryView}), false},
		"another namespace":     {bobs(Input{Namespace: "team-b"}), false},
		"somebody else's":       {Input{Users: []string{"ob"}}, false},
		"a group of that name":  {Input{Groups: []string{"bob"}}, false},
		"with the prefix, part": {Input{Users: []string{"oidc:bob"}, Binding: "small", Role: restapi.RepositoryWrite, Namespace: "team-a"}, true},
	} {
		if got := c.in.means(given); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	whole := restapi.Share{Role: restapi.RepositoryWrite, User: "oidc:bob"}
	if bobs(Input{Binding: "small"}).means(whole) {
		t.Error("a share of all bindings is not one of a binding")
	}
}
