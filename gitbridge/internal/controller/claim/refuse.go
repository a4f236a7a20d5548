package claim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/failure"
)

// A file that the API server refuses is sent again when it changes, and after
// this time, as what refuses it may have changed.
const reconsider = 2 * time.Minute

// reconsiderForbidden is that time where the API server forbids it: one that has
// just started forbids much until it knows all roles and namespaces.
const reconsiderForbidden = 10 * time.Second

// refuse turns an error of applying a file into an answer for its author. What
// may pass is answered only when it does not.
func (c *Controller) refuse(ctx context.Context, s *step, err error) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, err
	}
	v := verdictOn(s, err)
	s.addTemplatesPart(v.problem)
	if v.result == contract.Failed {
		c.namespaces.forget(s.Key.Namespace)
		c.Log.V(1).Info("A claim could not be applied", "cluster", c.Session.Cluster.ID, "path", s.Path, "reason", err.Error())
		if c.failing.Failed(s.Path, c.Now()) < failure.TellAfter && !errors.Is(err, errForeignNamespace) {
			return outcome{}, err
		}
		return outcome{answer: s.Refused(v.result, v.message, nil), failing: true}, nil
	}
	after := reconsider
	if apierrors.IsForbidden(err) {
		after = reconsiderForbidden
	}
	o := outcome{answer: s.Refused(v.result, v.message, v.problem), later: after}
	c.cache.refuse(s.Path, refusal{file: s.File.Applied, outcome: o, until: c.Now().Add(after - time.Second)})
	return o, nil
}

// addTemplatesPart says in a problem, nil for none, what the platform's template set.
func (s *step) addTemplatesPart(p *contract.Problem) {
	if p != nil && len(s.patched) > 0 {
		p.Reason += fmt.Sprintf(" (the platform's template %s set spec.%s)", s.api.Template.Name(), strings.Join(slices.Sorted(maps.Keys(s.patched)), ", spec."))
	}
}

// errNoRights says that the tenant may not use the API in the namespace.
var errNoRights = errors.New("the tenant has no right on the API")

// verdict is what an error means for a file.
type verdict struct {
	result  contract.Result
	message string
	problem *contract.Problem
}

// triedAgain ends the words on what may pass.
const triedAgain = ": it is tried again"

const wordsOfForeign = "the namespace for this claim on the control plane is not this cluster's: its operator must look at it"

// verdictOn says what an error means: that the file is wrong, that the control plane
// does not want it, or that it is to be tried again.
func verdictOn(s *step, err error) verdict {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, errNoRights):
		return verdict{result: contract.Failed, message: fmt.Sprintf("this cluster has no right on %s on the control plane (yet)"+triedAgain, s.Key.Binding)}
	case errors.Is(err, errTooManyNamespaces):
		return verdict{result: contract.Denied, problem: &contract.Problem{File: s.Path, Reason: "this cluster has claims in as many namespaces as it may: put the claim into one of them, or ask the platform's operator for more (--max-namespaces of gitbridge)"}}
	case errors.Is(err, errForeignNamespace):
		return verdict{result: contract.Failed, message: wordsOfForeign}
	case errors.Is(err, errTerminatingNamespace), apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return verdict{result: contract.Failed, message: "the namespace for this claim on the control plane is being deleted" + triedAgain}
	case !errors.As(err, &status):
		return verdict{result: contract.Failed, message: "the control plane does not answer" + triedAgain}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return invalid(s, status.Status())
	case apierrors.IsForbidden(err), admission.Denied(err):
		p := &contract.Problem{File: s.Path, Reason: status.Status().Message}
		return verdict{result: contract.Denied, problem: p}
	default:
		return verdict{result: contract.Failed, message: fmt.Sprintf("the control plane could not take it (%s)"+triedAgain, code(status.Status()))}
	}
}

// invalid tells where in the file the fault is. A policy names no field.
func invalid(s *step, status metav1.Status) verdict {
	var causes []metav1.StatusCause
	if status.Details != nil {
		causes = slices.DeleteFunc(slices.Clone(status.Details.Causes), func(cause metav1.StatusCause) bool { return cause.Field == "" || cause.Field == "<nil>" })
	}
	if len(causes) == 0 {
		return verdict{result: contract.Denied, problem: &contract.Problem{File: s.Path, Reason: status.Message}}
	}
	var reasons []string
	for _, cause := range causes[:min(len(causes), maxProblems)] {
		reasons = append(reasons, cause.Field+": "+cause.Message)
	}
	return verdict{result: contract.Invalid, problem: s.at(causes[0].Field, strings.Join(reasons, "; "))}
}

func code(status metav1.Status) string {
	if status.Reason != "" {
		return string(status.Reason)
	}
	return fmt.Sprint(status.Code)
}

// words are what an API server says, for people.
func words(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	switch {
	case errors.Is(err, errNotOurs):
		return err.Error()
	case errors.Is(err, errForeignNamespace):
		return wordsOfForeign
	}
	return "the control plane does not answer"
}

// mayApply asks whether the tenant has the rights that it takes to apply a file.
func (c *Controller) mayApply(ctx context.Context, s *step) (bool, error) {
	at := types.NamespacedName{Namespace: c.Session.Cluster.ClaimNamespace(s.Key.Namespace), Name: s.Key.Name}
	return c.may(ctx, s.api.Resource, at, "patch", "create")
}

// may asks whether the tenant may do all of this; without a name, with any object of the
// namespace.
func (c *Controller) may(ctx context.Context, resource schema.GroupVersionResource, at types.NamespacedName, verbs ...string) (bool, error) {
	for _, verb := range verbs {
		review, err := c.Tenant.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: at.Namespace, Verb: verb, Name: at.Name,
				Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			}},
		}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			// Impersonation itself is not granted yet.
			return false, nil
		}
		if err != nil || !review.Status.Allowed {
			return false, err
		}
	}
	return true, nil
}
