package apiservicebinding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard/facts"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/agent/request"
)

// look is what is known of one bound API at one moment.
type look struct {
	binding *v1alpha1.APIServiceBinding
	// missing is why the repository cannot be asked; nil when it can.
	missing *notReady
	repo    *repository.Repository
	view    repository.View
	// file is request.yaml on main; nil when there is none.
	file *store.Entry
	// answer is the control plane's; nil for none. answered says that it is one to
	// the file as it is.
	answer   *contract.Status
	answered bool
	facts    request.Facts
	action   request.Action

	// trouble is why the request could not be committed.
	trouble error
	// crd is the installed definition, if it is ours, and objects are those of the
	// API that were counted; only for a binding that is being deleted.
	crd     *apiextensionsv1.CustomResourceDefinition
	objects []metav1.PartialObjectMetadata
	// replaced says that the installed definition is not ours, but may have claims of ours.
	replaced bool
	// refused are objects that could not be deleted or let go of, with the API server's words.
	refused []string
	// unsaved names objects of which main lacks something, where that matters.
	unsaved []string
	// retry is when to look again, where nothing will tell; 0 for never.
	retry time.Duration
	// terms are as the export says, or as it said when it could be read last.
	terms terms
	// schema is the condition Schema; nil for nothing new.
	schema *metav1.Condition
	// policies are those of the offer, nil where the export was not read; judged is the
	// condition Policies, nil for nothing new, and one without a reason for none.
	policies *[]runtime.RawExtension
	judged   *metav1.Condition
	// released says that the binding is gone, or as good as gone.
	released bool
}

// lookAt gathers facts of one moment, and decides.
func (r *Reconciler) lookAt(ctx context.Context, b *v1alpha1.APIServiceBinding) (*look, error) {
	return repository.UntilCurrent(ctx, func() (*look, error) { return r.lookOnce(ctx, b) })
}

// lookOnce is lookAt, with repository.ErrOutdated where main has moved on meanwhile.
func (r *Reconciler) lookOnce(ctx context.Context, b *v1alpha1.APIServiceBinding) (*look, error) {
	l := &look{binding: b, terms: lastTerms(b)}
	l.facts = request.Facts{
		Live:        &contract.Request{Binding: b.Name, Template: b.Spec.Template, DeletionPolicy: policy(b)},
		Finalizer:   controllerutil.ContainsFinalizer(b, v1alpha1.BindingFinalizer),
		Terminating: !b.DeletionTimestamp.IsZero(),
	}
	if checkName(b.Name) != nil {
		// Nothing was ever made for it.
		l.facts.Disconnected = true
		l.action = request.For(l.facts)
		return l, nil
	}
	if err := r.connect(ctx, l); err != nil {
		return nil, err
	}
	if l.missing == nil {
		l.readFile()
		if err := l.readBase(ctx); err != nil {
			return nil, err
		}
		l.readAnswer()
		if l.facts.BaseRemoved && l.file == nil && !l.facts.Held && b.Status.Request.DeletionPolicy == v1alpha1.DeletionOrphan {
			// The control plane lets go of the services: another policy comes too late.
			l.facts.Live.DeletionPolicy = contract.Orphan
		}
	}
	if l.facts.Terminating && l.facts.Finalizer {
		if err := r.count(ctx, l); err != nil {
			return nil, err
		}
		var err error
		if l.facts.ByPerson, err = r.deletedByPerson(ctx, l); err != nil {
			return nil, err
		}
	}
	if l.action = request.For(l.facts); l.missing != nil && !l.facts.Disconnected && l.action != request.Adopt {
		// Nothing is decided on what is not known.
		l.action = request.Nothing
	}
	return l, nil
}

func policy(b *v1alpha1.APIServiceBinding) contract.DeletionPolicy {
	if b.Spec.DeletionPolicy == "" {
		return contract.Refuse
	}
	return contract.DeletionPolicy(b.Spec.DeletionPolicy)
}

// connect finds the open repository of the binding's Connection.
func (r *Reconciler) connect(ctx context.Context, l *look) error {
	b := l.binding
	l.repo = r.Pool.Get(b.Spec.Connection)
	r.requests.follow(b.Name, l.repo)
	conn := &v1alpha1.Connection{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: b.Spec.Connection}, conn); {
	case apierrors.IsNotFound(err):
		l.facts.Disconnected = true
		l.missing = &notReady{reason: "ConnectionNotFound", stop: true,
			message: fmt.Sprintf("Connection %s does not exist. Create it, or connect this cluster (kubectl gitbind connect).", b.Spec.Connection)}
		return nil
	case err != nil:
		return fmt.Errorf("get connection %s: %w", b.Spec.Connection, err)
	}
	notYet := &notReady{reason: "ConnectionNotReady", stop: true, passing: meta.IsStatusConditionTrue(conn.Status.Conditions, v1alpha1.ConditionReady),
		message: fmt.Sprintf("The repository of Connection %s was not reached yet: see kubectl get connection %s.", conn.Name, conn.Name)}
	if l.repo == nil {
		l.missing = notYet
		return nil
	}
	var err error
	if l.view, err = l.repo.View(ctx); errors.Is(err, repository.ErrNotContacted) {
		l.missing = notYet
		return nil
	}
	l.facts.Replaced = l.view.Replaced != "" || l.view.Copied != ""
	return err
}

func (l *look) readFile() {
	entry, ok := l.view.Main.Entry(contract.RequestPath(l.binding.Name))
	if !ok {
		return
	}
	l.file = &entry
	l.facts.File, l.facts.Problem = readRequest(l.view.Main, entry)
}

func readRequest(main *store.Snapshot, entry store.Entry) (*contract.Request, error) {
	f, err := facts.File(main, entry)
	if err != nil {
		return nil, err
	}
	req, err := contract.DecodeRequest(f)
	if err != nil {
		return nil, err
	}
	return &req, nil
}

// readBase takes from the binding's status what both last agreed on, if that
// still counts.
func (l *look) readBase(ctx context.Context) error {
	agreed := l.binding.Status.Request
	// What a delete was for does not change with the Connection or main.
	l.facts.BaseRemoved = agreed != nil && agreed.Removed && l.facts.Terminating
	if agreed == nil || agreed.ConnectionUID != l.repo.ConnectionUID {
		return nil
	}
	l.facts.Pushing = agreed.Pushing != ""
	isOurs := l.file != nil && l.facts.File != nil && agreed.Pushing == string(l.file.Hash)
	at := store.Hash(agreed.Commit)
	if at != "" {
		if counts, err := l.view.StillAgreed(ctx, at); err != nil || !counts {
			return err
		}
		l.facts.Base = &contract.Request{Binding: l.binding.Name, Template: agreed.Template, DeletionPolicy: contract.DeletionPolicy(agreed.DeletionPolicy)}
		l.facts.BaseRemoved = agreed.Removed
	}
	if isOurs {
		// The process ended before it recorded that, or the host's answer was lost. What the
		// binding says otherwise was edited since.
		l.facts.Base, l.facts.BaseRemoved = new(*l.facts.File), false
	}
	if l.file != nil || at == "" {
		return nil
	}
	var err error
	l.facts.Continues, err = l.view.Continues(ctx, at)
	return err
}

func (l *look) readAnswer() {
	if l.view.StatusReplaced != "" {
		return
	}
	data, err := l.view.Status.Read(contract.RequestPath(l.binding.Name))
	if err != nil {
		return
	}
	if l.answer, err = contract.DecodeStatus(data); err != nil {
		// As good as none: what is wrong there is not for this cluster to say.
		l.answer = nil
		return
	}
	l.answered = l.file != nil && l.answer.Answers.Blob == string(l.file.Hash)
	// An answer to a request that is refused keeps what counted before.
	l.facts.Answered = l.answered && l.facts.File != nil && l.answer.Status["deletionPolicy"] == string(l.facts.File.DeletionPolicy)
	// One to the file as it was says nothing about its removal.
	l.facts.Held = l.file == nil && l.answer.Answers.Blob == "" && l.answer.Result == contract.Held
}

// granted is the condition that says what the control plane answers; nil for
// nothing new.
func (l *look) granted() *metav1.Condition {
	c := &metav1.Condition{Type: v1alpha1.ConditionGranted, Status: metav1.ConditionUnknown}
	switch {
	case l.repo == nil, l.missing != nil, l.view.StatusReplaced != "", l.facts.Replaced:
		return nil
	case l.trouble != nil:
		c.Reason, c.Message = repository.Explain(l.trouble)
		what := "The request for this API is not on main: "
		switch {
		case l.facts.Pushing:
			what = "It is not known whether the request for this API is on main: "
		case l.action == request.RemoveRequest:
			what = "The request for this API is still on main: "
		}
		c.Message = what + c.Message
	case l.facts.Problem != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "RequestInvalid", l.facts.Problem.Error()+". Correct the file, or remove it to unbind the API."
	case l.facts.Held:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(contract.Held), l.answer.Message
	case !l.answered:
		c.Reason, c.Message = "Waiting", "The control plane has not answered the request for this API yet."
	case l.answer.Result == contract.Applied:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Granted", cmp.Or(l.answer.Message, "The control plane grants this API to this cluster.")
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(l.answer.Result), l.answer.Message
		if p := l.answer.Problem; p != nil && c.Message == "" {
			c.Message = p.Error()
		}
	}
	return c
}
