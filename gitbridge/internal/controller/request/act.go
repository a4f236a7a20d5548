package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/status"
)

// grant makes the export, in this cluster's tenant namespace whatever the file
// says.
func (c *Controller) grant(ctx context.Context, s *step, template string) error {
	cluster := c.Session.Cluster
	e := v1alpha1.NewAPIServiceExport(cluster.Namespace, cluster.ID, types.UID(cluster.UID), template, s.apis[template])
	if err := c.Client.Create(ctx, e, client.FieldOwner(tenant.FieldOwner)); err != nil {
		// One that is there by now is looked at again.
		return fmt.Errorf("create export %s: %w", s.Binding, err)
	}
	s.export = e
	c.Log.Info("Bound, as asked for in Git", "cluster", cluster.ID, "binding", s.Binding, "template", template, "commit", s.Head)
	return nil
}

// errFileIsBack says that main has the file again.
var errFileIsBack = errors.New("the request came back meanwhile")

// withdraw deletes exactly the export that was decided on.
func (c *Controller) withdraw(ctx context.Context, s *step) error {
	if _, back := c.Session.View().Main.Entry(s.Path); back {
		return errFileIsBack
	}
	// The commit without the file is written down first: a later head that does
	// not have it is another history.
	if err := c.Session.Checkpoints.Save(ctx, s.view.Generation); err != nil {
		return fmt.Errorf("accept %s: %w", s.Head, err)
	}
	uid, version := s.export.UID, s.export.ResourceVersion
	err := c.Client.Delete(ctx, s.export, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete export %s: %w", s.Binding, err)
	}
	c.Log.Info("Unbound, as asked for in Git", "cluster", c.Session.Cluster.ID, "binding", s.Binding, "commit", s.Head)
	s.export = nil
	return nil
}

// permission is a part of its own: the bridge's other fields of an export's status
// are written elsewhere, at other times.
var permission = status.Part{Owner: tenant.StatusOwner + "-permission", Conditions: []string{v1alpha1.ConditionPermitted}}

// say writes whether the cluster may bind what it has, if that is news.
func (c *Controller) say(ctx context.Context, s *step, permitted *bool) error {
	if permitted == nil || s.export == nil {
		return nil
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionPermitted, Status: metav1.ConditionTrue, Reason: "Permitted",
		Message: "the cluster's ServiceAccount may bind the template",
	}
	if !*permitted {
		condition.Status, condition.Reason = metav1.ConditionFalse, string(contract.NotPermitted)
		condition.Message = fmt.Sprintf("the ServiceAccount %s lacks the verb bind on apiserviceexporttemplates/%s: new claims wait, and what was ordered stays", s.ServiceAccount, s.export.Spec.Template)
	}
	want := s.export.DeepCopy()
	status.Set(want, condition, time.Now())
	return permission.Write(ctx, c.Client, s.export, want)
}

// answer writes the answer, if it says something else than the present one.
func (c *Controller) answer(ctx context.Context, s *step, answer *contract.Status) error {
	change := statusbranch.Change{
		Path: contract.StatusPath(s.Path), Was: &s.was, Answers: s.Path, As: s.view.Generation, Subject: "status: nothing more of the request for " + s.Binding,
	}
	if answer = session.Bounded(answer); answer != nil {
		var err error
		if change.Data, err = contract.EncodeStatus(answer); err != nil {
			return err
		}
		change.Subject = fmt.Sprintf("status: %s request for %s", answer.Result, s.Binding)
	}
	if c.Session.Status.Says(change.Path, change.Data) {
		c.Session.Status.Done(s.Path, s.view.Generation)
		return nil
	}
	return c.Session.Answer(ctx, s.view, change)
}

// words tell the request's author what the control plane says.
func words(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return "the control plane refuses it, and it is tried again: " + status.Status().Message
	}
	return "the control plane does not answer: it is tried again"
}
