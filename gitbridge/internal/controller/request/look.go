package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard/facts"
	decide "gitbind.dev/gitbridge/internal/request"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/store"
)

// step is all about one request that is known now.
type step struct {
	decide.Facts
	view session.View
	// was is the blob of the present answer, "" for none.
	was store.Hash
	// export is what the cluster has, nil for nothing, and apis are those of the
	// offers.
	export *v1alpha1.APIServiceExport
	apis   map[string]v1alpha1.ExportedAPI
}

// look gathers the facts about a request.
func (c *Controller) look(ctx context.Context, view session.View, path string) (*step, error) {
	binding, ok := contract.ParseRequestPath(path)
	if !ok {
		return nil, fmt.Errorf("look at %s: it is no request's path", path)
	}
	cluster := c.Session.Cluster
	s := &step{view: view, apis: map[string]v1alpha1.ExportedAPI{}}
	s.Path, s.Binding, s.Head = path, binding, string(view.Main.Head())
	s.ServiceAccount = cluster.Namespace + ":" + v1alpha1.TenantServiceAccount
	s.Present, s.was = c.Session.Answers.Seen(path)
	if err := c.findExport(ctx, s); err != nil {
		return nil, err
	}
	if entry, ok := view.Main.Entry(path); ok {
		if err := readFile(s, entry); err != nil {
			return nil, err
		}
		return s, c.findOffers(ctx, s)
	}
	return s, c.findRemoval(ctx, s)
}

// findExport asks the API server itself: a cache may not know yet what was made a
// moment ago.
func (c *Controller) findExport(ctx context.Context, s *step) error {
	var e v1alpha1.APIServiceExport
	err := c.Server.Get(ctx, client.ObjectKey{Namespace: c.Session.Cluster.Namespace, Name: s.Binding}, &e)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get export %s: %w", s.Binding, err)
	}
	s.export = &e
	s.Export = &decide.Export{Template: e.Spec.Template, Terminating: e.DeletionTimestamp != nil}
	return nil
}

func readFile(s *step, entry store.Entry) error {
	f, err := facts.File(s.view.Main, entry)
	if err != nil {
		return err
	}
	s.File = &decide.File{Blob: string(entry.Hash)}
	asked, err := contract.DecodeRequest(f)
	var problem *contract.Problem
	switch {
	case errors.As(err, &problem):
		s.File.Problem = problem
		return nil
	case err != nil:
		return err
	}
	s.File.Request = asked
	field := "metadata.name"
	if asked.Template != "" {
		field = "spec.template"
	}
	s.File.Line = contract.LineOf(f.Data, field)
	return nil
}

// findOffers looks for the offers that may be meant, and asks of each whether the
// cluster may bind it. Others it does not ask about, whatever a file says.
func (c *Controller) findOffers(ctx context.Context, s *step) error {
	if s.File.Problem != nil {
		return nil
	}
	var list v1alpha1.APIServiceExportTemplateList
	if err := c.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list templates: %w", err)
	}
	for i := range list.Items {
		t := &list.Items[i]
		isMeant := t.Name == s.File.Request.Template || s.Export != nil && t.Name == s.Export.Template ||
			s.File.Request.Template == "" && s.Export == nil && t.Spec.API.BindingName() == s.Binding
		if !isMeant || t.DeletionTimestamp != nil {
			continue
		}
		permitted, err := c.mayBind(ctx, t.Name)
		if err != nil {
			return err
		}
		s.apis[t.Name] = t.Spec.API
		s.Offers = append(s.Offers, decide.Offer{
			Name: t.Name, Binding: t.Spec.API.BindingName(), Permitted: permitted,
			Offered: meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionOffered),
		})
	}
	return nil
}

// mayBind asks whether the cluster's own ServiceAccount may bind a template.
func (c *Controller) mayBind(ctx context.Context, template string) (bool, error) {
	cluster := c.Session.Cluster
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   cluster.User(),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + cluster.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "apiserviceexporttemplates",
			Name: template, Verb: "bind",
		},
	}}
	if err := c.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask whether %s may bind %s: %w", cluster.User(), template, err)
	}
	return review.Status.Allowed, nil
}

// findRemoval says how the file went, and whether claims are in the way.
func (c *Controller) findRemoval(ctx context.Context, s *step) error {
	p := s.Present
	if p == nil {
		return nil
	}
	if p.Answers.Blob != "" {
		var err error
		if s.Removed, err = c.Session.Removals.WasRequestRemoved(ctx, store.Hash(p.Answers.Commit)); err != nil {
			return err
		}
	}
	var err error
	s.Claim, err = c.remaining(ctx, s)
	return err
}

// errObjectsUnknown says that there may be objects that nobody knows of yet.
var errObjectsUnknown = errors.New("the objects on the control plane are not known yet")

// remaining is a claim that is still there, "" for none: one on main, or one that
// was applied and is not known to be gone. While the host takes no answers, the
// objects alone tell of what was applied. The API server has the last word on these: what is
// known of a version that it serves no more does not change any more.
func (c *Controller) remaining(ctx context.Context, s *step) (string, error) {
	folder := contract.ClaimsPath(s.Binding)
	for e := range s.view.Main.List(folder) {
		if key, err := contract.ParsePath(e.Path); err == nil {
			return key.Namespace + "/" + key.Name, nil
		}
	}
	for e := range c.Session.Status.Snapshot().List(folder) {
		key, err := contract.ParsePath(e.Path)
		if err != nil {
			continue
		}
		if answer := c.Session.Answers.Of(e.Path); answer != nil && answer.Object != "" && answer.Result != contract.Gone {
			return key.Namespace + "/" + key.Name, nil
		}
	}
	objects, known := c.Session.OnControlPlane(s.Binding)
	if !known {
		return "", errObjectsUnknown
	}
	if len(objects) > 0 {
		switch has, known, err := c.HasObjects(ctx, s.Binding); {
		case err != nil:
			return "", fmt.Errorf("ask for the objects of %s: %w", s.Binding, err)
		case known && !has:
			return "", nil
		}
	}
	for _, path := range slices.Sorted(maps.Keys(objects)) {
		if key, err := contract.ParsePath(path); err == nil {
			return key.Namespace + "/" + key.Name, nil
		}
	}
	return "", nil
}
