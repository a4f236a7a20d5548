package access

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Exports is the resource on which RBAC gives roles on a cluster's repository, in the
// cluster's tenant namespace: the role is the verb. A rule without resource names is
// about all of the repository; one with them about the parts of these names.
const Exports = "apiserviceexports"

// Part is a part of a cluster's repository: the files of a binding in one namespace, of a
// binding, of a namespace in whatever binding, or without either name all of it.
type Part struct{ Binding, Namespace string }

// Name is the part's resource name in RBAC, and "" for all of the repository:
// "<binding>", "<binding>:<namespace>" or "*:<namespace>".
func (p Part) Name() string {
	switch {
	case p.Namespace == "":
		return p.Binding
	case p.Binding == "":
		return "*:" + p.Namespace
	}
	return p.Binding + ":" + p.Namespace
}

// PartOf is the part that a file of main belongs to; all of the repository for one that
// could be taken for a part's in RBAC and is none.
func PartOf(path string) Part {
	f := strings.Split(path, "/")
	if len(f) < 3 || f[0] != "bindings" || f[1] == "" || strings.ContainsAny(f[1], ":*") {
		return Part{}
	}
	if len(f) > 4 && (f[2] == "claims" || f[2] == "inputs") {
		return Part{Binding: f[1], Namespace: f[3]}
	}
	return Part{Binding: f[1]}
}

func (p Part) String() string {
	switch {
	case p == Part{}:
		return "all of the repository"
	case p.Namespace == "":
		return "binding " + p.Binding
	case p.Binding == "":
		return "namespace " + p.Namespace
	}
	return "binding " + p.Binding + ", namespace " + p.Namespace
}

// within are the parts on which a role gives it on this one. A review of any of them
// finds a role on all of the repository, too.
func (p Part) within() []Part {
	if p.Binding == "" || p.Namespace == "" {
		return []Part{p}
	}
	return []Part{p, {Binding: p.Binding}, {Namespace: p.Namespace}}
}

// Rights are those of one person at one cluster's repository, as they are when they are
// asked about.
type Rights interface {
	May(ctx context.Context, role restapi.RepositoryRole, part Part) (bool, error)
}

// Review asks the control plane's RBAC about a person. The attributes' group and version
// are gitbind's.
func Review(ctx context.Context, c client.Writer, who login.Identity, attributes authorizationv1.ResourceAttributes) (bool, error) {
	attributes.Group, attributes.Version = v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username,
		// Everybody whom the backend lets in is in PeopleGroup, and nobody else is.
		Groups:             append([]string{"system:authenticated", v1alpha1.PeopleGroup}, who.Groups...),
		ResourceAttributes: &attributes,
	}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("create SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}

// member is somebody with whom a cluster's repository is shared.
type member struct {
	reviews client.Writer
	who     login.Identity
	cluster string
}

// May implements Rights. The error is a refusal.
func (m *member) May(ctx context.Context, role restapi.RepositoryRole, part Part) (bool, error) {
	for _, p := range part.within() {
		ok, err := Review(ctx, m.reviews, m.who, authorizationv1.ResourceAttributes{
			Namespace: v1alpha1.TenantNamespace(m.cluster), Resource: Exports, Name: p.Name(), Verb: string(role),
		})
		if err != nil {
			return false, refusal.Because(err, refusal.Unavailable, "rights cannot be looked at just now: try again")
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}
