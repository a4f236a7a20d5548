package claim

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/claimdiff"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/transform"
	"gitbind.dev/gitbridge/store"
)

// DryRun says what would become of a claim, by the way of one that main has: as the tenant, and
// with the API server's own words, but nothing is written. Places in quotas are not taken, and
// neither namespaces nor inputs are made.
func (c *Controller) DryRun(ctx context.Context, p session.Proposed) session.Trial {
	s, refused, err := c.propose(ctx, p)
	var after *unstructured.Unstructured
	switch {
	case refused != nil, err != nil:
	case s.object != nil:
		after, refused, err = c.tryApply(ctx, s)
	case p.Data == nil && s.found != nil:
		if err = c.delete(ctx, s, s.found, metav1.DryRunAll); err != nil {
			err = tenants{err}
		}
	}
	if err != nil {
		refused, err = s.trouble(err)
	}
	var not notTried
	switch {
	case ctx.Err() != nil:
		return session.Trial{Untried: session.TookTooLong, Transient: true}
	case err != nil:
		return session.Trial{Untried: err.Error(), Transient: !errors.As(err, &not)}
	case refused != nil && refused.Problem != nil:
		return session.Trial{Refused: refused.Problem.Reason}
	case refused != nil:
		return session.Trial{Refused: refused.Message}
	case after == nil:
		return session.Trial{}
	}
	fields, more := claimdiff.Fields(effective(s.found), effective(after))
	return session.Trial{Fields: fields, More: more}
}

// notTried says why the API server is not asked, or has no word that another try would have.
type notTried string

func (n notTried) Error() string { return string(n) }

// tenants is an error of what was tried as the tenant. Those of what the bridge looks at itself
// are no word on a file.
type tenants struct{ error }

func (t tenants) Unwrap() error { return t.error }

// propose gathers the facts as if main had the file, and decides. The answer is a refusal, and
// nothing is to be applied without an object.
func (c *Controller) propose(ctx context.Context, p session.Proposed) (*step, *contract.Status, error) {
	s := &step{view: c.Session.View()}
	s.Cluster, s.Path, s.Head, s.IsClaim, s.Certain = c.Session.Cluster.ID, p.Path, p.Head, true, true
	var err error
	if s.Key, err = contract.ParsePath(p.Path); err != nil {
		return s, nil, notTried("it is at no claim's path")
	}
	if s.api, err = c.APIs.Resolve(ctx, c.Session.Cluster.Namespace, s.Key.Binding); err != nil {
		return s, nil, err
	}
	if s.Access, s.Unpermitted = s.api.Access, s.api.Unpermitted; s.Access != decision.Granted {
		return s, nil, notTried("the API is not bound yet")
	}
	switch isThere, err := c.namespaces.isThere(ctx, s.Key.Namespace); {
	case err != nil:
		return s, nil, err
	case !isThere:
		return s, nil, notTried("the control plane has nothing of namespace " + s.Key.Namespace + " yet: it is made for the first claim")
	}
	s.Present = c.Session.Answers.Of(s.Path)
	if s.found, err = c.fetch(ctx, s); err != nil {
		return s, nil, err
	}
	if s.Live = c.living(s.Key, s.found); s.Live != nil && s.Live.Foreign && !s.Live.Adopted {
		s.found = nil // Nothing of it is shown.
	}
	if p.Data == nil {
		return s, nil, nil
	}
	if s.api.Unusable != nil {
		return s, nil, notTried(s.api.Unusable.Error())
	}
	s.File = &decision.File{Blob: string(store.BlobHash(p.Data))}
	s.File.Applied = transform.Applied(s.File.Blob, s.api.Shape, s.api.Kind.GroupVersion().String(), s.api.Template, s.api.Keys)
	if err := c.decodeFile(s, contract.File{Path: p.Path, Data: p.Data}); err != nil {
		return s, nil, err
	}
	d := decision.Decide(s.Facts)
	if d.Effect == decision.Apply {
		return s, nil, nil
	}
	s.object = nil
	if d.Answer != nil && d.Answer.Result == contract.Applied {
		return s, nil, nil // It is there as the file says.
	}
	return s, d.Answer, nil
}

// tryApply gives what the object would be, or why it is refused.
func (c *Controller) tryApply(ctx context.Context, s *step) (*unstructured.Unstructured, *contract.Status, error) {
	if s.api.Policies != nil {
		if answer, err := c.denied(ctx, s); answer != nil || err != nil {
			return nil, answer, err
		}
	}
	u, err := c.tryPatch(ctx, s, s.object)
	if apierrors.IsForbidden(err) {
		switch allowed, askErr := c.mayApply(ctx, s); {
		case askErr != nil:
			err = askErr
		case !allowed:
			err = errNoRights
		}
	}
	if apierrors.IsInvalid(err) && s.found != nil {
		if first := s.withoutEmptied(s.found); first != nil {
			if _, err = c.tryPatch(ctx, s, first); err == nil {
				err = notTried("what becomes empty is taken out and applied again, and of two steps only the first can be tried")
			}
		}
	}
	return u, nil, err
}

func (c *Controller) tryPatch(ctx context.Context, s *step, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := on(object, s.found).MarshalJSON()
	if err != nil {
		return nil, err
	}
	u, err := c.patch(ctx, s, data, metav1.DryRunAll)
	if err != nil {
		return nil, tenants{err}
	}
	return u, nil
}

// trouble tells of an error whether the claim would be refused, or what it is that is not
// known, in words for people: notTried, or another one for what passes.
func (s *step) trouble(err error) (*contract.Status, error) {
	var status apierrors.APIStatus
	var not notTried
	var tried tenants
	isTenants := errors.As(err, &tried)
	switch {
	case errors.As(err, &not):
		return nil, not
	case isStale(err):
		return nil, errStale
	case errors.Is(err, errNotOurs):
		return nil, notTried(errNotOurs.Error())
	case apierrors.IsBadRequest(err) && errors.As(err, &status) && strings.Contains(status.Status().Message, "does not support dry run"):
		// Of a webhook with side effects. The API server says it in no other way.
		return nil, notTried(status.Status().Message)
	}
	v := verdictOn(s, err)
	switch {
	case v.result != contract.Failed && isTenants:
		s.addTemplatesPart(v.problem)
		return s.Refused(v.result, v.message, v.problem), nil
	case v.result != contract.Failed:
		v.message = "the bridge cannot look at what is there"
		if errors.As(err, &status) {
			v.message += " (" + code(status.Status()) + ")"
		}
	}
	v.message = strings.TrimSuffix(v.message, triedAgain)
	if errors.Is(err, errForeignNamespace) {
		return nil, notTried(v.message)
	}
	return nil, errors.New(v.message)
}

// effective is what people are shown of an object: all but what is the bridge's.
func effective(u *unstructured.Unstructured) *contract.Claim {
	if u == nil {
		return nil
	}
	visible := func(all map[string]string) map[string]string {
		out := map[string]string{}
		for key, value := range all {
			if !strings.HasPrefix(key, "gitbind.dev/") {
				out[key] = value
			}
		}
		return out
	}
	spec, _ := u.Object["spec"].(map[string]any)
	return &contract.Claim{APIVersion: u.GetAPIVersion(), Labels: visible(u.GetLabels()), Annotations: visible(u.GetAnnotations()), Spec: spec}
}
