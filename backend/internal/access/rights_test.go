package access

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/fakeapi"
)

// reviewer answers SubjectAccessReviews by roles that allow "<verb> <namespace>/<name>", without
// a name any, and keeps what it was asked.
type reviewer struct {
	client.Client
	allowed, asked []string
	err            error
}

func newReviewer(t *testing.T, allowed ...string) *reviewer {
	r := &reviewer{allowed: allowed}
	r.Client = interceptor.NewClient(fakeapi.New(fakeapi.Builder()), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			a := review.Spec.ResourceAttributes
			if a.Group != "gitbind.dev" || a.Resource != "apiserviceexports" || review.Spec.User != "oidc:alice@example.com" {
				t.Errorf("asked %+v", review.Spec)
			}
			question := a.Verb + " " + a.Namespace + "/" + a.Name
			r.asked = append(r.asked, question)
			review.Status.Allowed = slices.ContainsFunc(r.allowed, func(allowed string) bool {
				verb, object, _ := strings.Cut(allowed, " ")
				namespace, name, _ := strings.Cut(object, "/")
				rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{"gitbind.dev"}, Resources: []string{"apiserviceexports"}}
				if name != "" {
					rule.ResourceNames = []string{name}
				}
				return namespace == a.Namespace && fakeapi.Allows([]rbacv1.PolicyRule{rule}, a)
			})
			return r.err
		},
	})
	return r
}

func TestWhoMayViewIsAMember(t *testing.T) {
	for _, c := range []struct {
		name    string
		reviews func(*reviewer)
		kind    refusal.Kind
	}{
		{"view", func(r *reviewer) { r.allowed = []string{"view gb-" + other + "/"} }, 0},
		{"no view", func(r *reviewer) { r.allowed = []string{"write gb-" + other + "/", "view gb-" + cluster + "/"} }, refusal.NotFound},
		{"nobody to ask", func(r *reviewer) { r.err = errors.New("connection refused") }, refusal.Unavailable},
	} {
		live := fakeapi.New(fakeapi.Builder().WithObjects(objects()...))
		a := authenticator(t, nil, live)
		reviews := newReviewer(t)
		c.reviews(reviews)
		a.Reviews = reviews
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth("anything", "alice")
		got, err := a.Authenticate(r, other) // which is Bob's
		if c.kind != 0 {
			if !refusal.Is(err, c.kind) || got != (Caller{}) {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got.Role != Member || got.Rights == nil || got.Cluster != other {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestAPartIsAskedAboutByEachNameThatCoversIt(t *testing.T) {
	for _, c := range []struct {
		part Part
		want []string
	}{
		{Part{}, []string{"write gb-" + other + "/"}},
		{Part{Binding: "db"}, []string{"write gb-" + other + "/db"}},
		{Part{Namespace: "a"}, []string{"write gb-" + other + "/*:a"}},
		{Part{"db", "a"}, []string{"write gb-" + other + "/db:a", "write gb-" + other + "/db", "write gb-" + other + "/*:a"}},
	} {
		reviews := newReviewer(t)
		a := authenticator(t, nil, nil)
		id, _ := a.Login.Verify(t.Context(), "alice")
		m := &member{reviews, id, other}
		ok, err := m.May(t.Context(), restapi.RepositoryWrite, c.part)
		if diff := cmp.Diff(c.want, reviews.asked); ok || err != nil || diff != "" {
			t.Errorf("%s: %v, %v %s", c.part, ok, err, diff)
		}
		for _, allowed := range c.want {
			reviews.allowed = []string{allowed}
			if ok, err := m.May(t.Context(), restapi.RepositoryWrite, c.part); !ok || err != nil {
				t.Errorf("%s by %s: %v, %v", c.part, allowed, ok, err)
			}
		}
	}
}

func TestPartOf(t *testing.T) {
	all := Part{}
	for path, want := range map[string]Part{
		"bindings/dbs.example.com/claims/team-a/one.yaml": {"dbs.example.com", "team-a"},
		"bindings/dbs.example.com/inputs/team-a/one.yaml": {"dbs.example.com", "team-a"},
		"bindings/dbs.example.com/claims/stray.yaml":      {Binding: "dbs.example.com"},
		"bindings/dbs.example.com/request.yaml":           {Binding: "dbs.example.com"},
		"bindings/dbs.example.com/other/team-a/one.yaml":  {Binding: "dbs.example.com"},
		"bindings/stray.yaml":                             all,
		"OWNERS":                                          all,
		"bindings/*/claims/team-a/one.yaml":               all,
		"bindings/a:b/claims/team-a/one.yaml":             all,
		"other/dbs.example.com/claims/team-a/one.yaml":    all,
	} {
		if got := PartOf(path); got != want {
			t.Errorf("%s is of %+v, want %+v", path, got, want)
		}
	}
}
