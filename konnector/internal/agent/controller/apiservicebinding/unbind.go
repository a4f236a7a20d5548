package apiservicebinding

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/status"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/agent/request"
)

const (
	// again is when to take the next step.
	again = time.Millisecond
	// goingWait is when to look again for what is being deleted. Mostly it is told.
	goingWait = 500 * time.Millisecond
	// countWait is when to count claims again, in the first minute of an unbind,
	// and maxCountWait later on: it reads all of them from the API server. Mostly
	// it is told when the last one of a namespace goes.
	countWait    = 5 * time.Second
	maxCountWait = 2 * time.Minute
	// unsavedWait is when to look again whether main says what the objects say.
	unsavedWait = 30 * time.Second
)

// untilCount grows with the time that has gone by since an unbind began.
func untilCount(begun time.Duration) time.Duration {
	return min(max(countWait, begun/12), maxCountWait)
}

// unbind takes the next step on the way to take an API back.
func (r *Reconciler) unbind(ctx context.Context, l *look) (ctrl.Result, error) {
	b := l.binding
	if l.repo != nil {
		l.repo.Removals.ApproveUnbinding(b.Name, l.facts.ByPerson && (l.action == request.DeleteClaims || l.action == request.RemoveFiles))
	}
	switch l.action {
	case request.LetGo:
		return r.letGoOfAll(ctx, l)
	case request.RemoveRequest:
		if err := r.removeRequest(ctx, l); err != nil {
			return ctrl.Result{}, err
		}
		if l.trouble == nil {
			return ctrl.Result{RequeueAfter: again}, nil
		}
	case request.TakeBack:
		if err := l.confirmFile(ctx); err != nil {
			return ctrl.Result{}, err
		}
		if l.trouble != nil {
			waits := l.waitsFor()
			waits.retry = l.retry
			return r.report(ctx, l, claim.API{}, &waits)
		}
		r.Claims.Stop(b.Name)
		return r.takeBack(ctx, l)
	case request.DeleteClaims:
		r.deleteObjects(ctx, l)
	case request.RemoveFiles:
		if err := r.removeFiles(ctx, l); err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.keepOn(ctx, l)
}

// letGoOfAll lets go of the claims, and names those of which it cannot.
func (r *Reconciler) letGoOfAll(ctx context.Context, l *look) (ctrl.Result, error) {
	r.Claims.Stop(l.binding.Name)
	changed := r.letGo(ctx, l)
	switch {
	case len(l.refused) > 0:
	case changed:
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	default:
		return ctrl.Result{RequeueAfter: again}, nil
	}
	// To go on as before would take hold again of what was let go of.
	waits := l.waitsFor()
	waits.message += l.refusals()
	return r.report(ctx, l, claim.API{}, &waits)
}

// maxListed is in bytes.
const maxListed = 2000

// listed are the first of some objects, with what is said of each.
func listed(all []string) string { return brief.CutBytes(brief.List(all, maxNamed, "; "), maxListed) }

// refusals names the objects that were refused, "" for none.
func (l *look) refusals() string {
	if len(l.refused) == 0 {
		return ""
	}
	return " It is tried again where that is refused: " + listed(l.refused) + "."
}

// keptByOthers names the objects that are deleted and let go of, and that finalizers of others
// keep, "" for none.
func (l *look) keptByOthers() string {
	var kept []string
	for _, o := range l.objects {
		if o.DeletionTimestamp != nil && len(o.Finalizers) > 0 && !slices.Contains(o.Finalizers, v1alpha1.Finalizer) {
			kept = append(kept, fmt.Sprintf("%s/%s (%s)", o.Namespace, o.Name, strings.Join(o.Finalizers, ", ")))
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return " Others' finalizers keep " + listed(kept) + ": look after what is to take them off, or take them off."
}

// keepOn goes on as long as there are claims, and says what it waits for.
func (r *Reconciler) keepOn(ctx context.Context, l *look) (ctrl.Result, error) {
	api, missing, err := r.bind(ctx, l)
	if err != nil {
		return ctrl.Result{}, err
	}
	waits := l.waitsFor()
	waits.message += l.refusals() + l.keptByOthers()
	if missing != nil {
		waits.stop = missing.stop
		if l.missing == nil && missing.reason != waits.reason {
			waits.message += " " + missing.message
		}
	}
	if l.trouble != nil {
		waits.retry = l.retry
	}
	return r.report(ctx, l, api, &waits)
}

// waitsFor says what must happen before the API can be taken back.
func (l *look) waitsFor() notReady {
	b, n, files := l.binding, l.facts.Claims, l.facts.Claims-l.facts.Objects
	wait := untilCount(time.Since(b.DeletionTimestamp.Time))
	claims := fmt.Sprintf("%d claims", n)
	if n == 1 {
		claims = "1 claim"
	}
	if files > 0 {
		claims += fmt.Sprintf(" (%d of them on main only, without an object in this cluster)", files)
	}
	orphan := fmt.Sprintf("kubectl patch apiservicebinding %s --type merge -p '{\"spec\":{\"deletionPolicy\":\"Orphan\"}}'", b.Name)
	switch {
	case l.replaced && l.action == request.Hold && !l.facts.Replaced:
		return notReady{reason: "CRDConflict", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, and CustomResourceDefinition %[1]s is somebody else's by now, but has claims of this binding, or may have: nobody else would let go of them. To let this binding have the definition, and take it back with its claims, annotate it: kubectl annotate crd %[1]s %[2]s=%[3]s --overwrite. To keep it, take finalizer %[4]s off its objects.",
			b.Name, v1alpha1.ConnectionAnnotation, b.Spec.Connection, v1alpha1.Finalizer)}
	case l.facts.Unseen && l.action == request.Hold && !l.facts.Replaced:
		return notReady{reason: "Forbidden", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, and the konnector may not list %s in this cluster any more: it cannot know which claims there are. Bind the API again (kubectl gitbind bind) to grant it.", b.Name)}
	case l.action == request.KeepOn && policy(b) == contract.Delete:
		return notReady{reason: "ClaimsExist", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, by no person's delete that is known, and there are %s: their files stay on main. Remove them there, which deletes their services; or let go of the claims, while services and files stay: %s.", claims, orphan)}
	case l.action == request.KeepOn:
		return notReady{reason: "ClaimsExist", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, and there are %s: it goes on until they are gone. Delete them; or say what is to become of them by spec.deletionPolicy: Delete deletes them with their services, Orphan lets go of them while services and files stay: %s.", claims, orphan)}
	case l.action == request.DeleteClaims && !l.facts.ByPerson:
		return notReady{reason: "DeletingClaims", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, by no person's delete that is known: because its file went, or its definition or an owner does. Its claims go with their services as far as the limits of Connection %[1]s let them, and a person decides on the others (kubectl gitbind approve --removals): waiting for %[2]s. To keep the services: %[3]s.", b.Spec.Connection, claims, orphan)}
	case l.action == request.DeleteClaims, l.action == request.RemoveFiles:
		return notReady{reason: "DeletingClaims", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted with its claims and their services: waiting for %s.", claims)}
	case l.action == request.LetGo:
		return notReady{reason: "LettingGo", retry: wait, message: "This binding is being deleted, its claims are let go of, and services stay." + l.tooLate()}
	case l.action == request.AwaitClaims:
		return notReady{reason: "ClaimsNotOnMain", retry: min(wait, unsavedWait), message: fmt.Sprintf(
			"This binding is being deleted, and services stay as main says: but main does not say what these claims say, which would be lost: %s. See what keeps them (kubectl gitbind get claims), and decide on it (kubectl gitbind resolve) or delete them. Nothing is let go of until then.%s", brief.List(l.unsaved, maxNamed, ", "), l.tooLate())}
	case l.action == request.AwaitAnswer:
		words := ""
		if l.answered && l.answer.Message != "" {
			words = " Its answer is: " + l.answer.Message + "."
		}
		return notReady{reason: "WaitingForControlPlane", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, and services stay: the control plane has not taken note of that yet.%s If it is gone for good, delete Connection %s first: kubectl delete connection %s.", words, b.Spec.Connection, b.Spec.Connection)}
	case l.facts.Disconnected:
		return notReady{reason: "ConnectionNotFound", retry: wait, message: fmt.Sprintf(
			"This binding is being deleted, and there are %s, but no Connection %s any more, without which no service can be deleted. Create the Connection again; or let go of the claims: %s.", claims, b.Spec.Connection, orphan)}
	case l.view.Copied != "":
		return notReady{reason: repository.ReasonCopied, message: "This binding is being deleted. " + l.view.Copied}
	case l.facts.Replaced:
		return notReady{reason: "HistoryReplaced", message: "This binding is being deleted. " + l.view.Replaced}
	default:
		return notReady{reason: "ConnectionNotReady", message: fmt.Sprintf(
			"This binding is being deleted, for which the repository is needed. If it is gone for good, delete Connection %s first: kubectl delete connection %s.", b.Spec.Connection, b.Spec.Connection)}
	}
}

// tooLate says that what the binding asks for by now comes too late, "" where it does not.
func (l *look) tooLate() string {
	if l.facts.Live.DeletionPolicy == policy(l.binding) {
		return ""
	}
	return fmt.Sprintf(" deletionPolicy %s counts no more, as request.yaml went from main with Orphan: to delete the services, bind the API again.", policy(l.binding))
}

// removeFiles takes claim files off main that have no object here.
func (r *Reconciler) removeFiles(ctx context.Context, l *look) error {
	return r.remove(ctx, l, "delete the claims of", func(t *store.Tree) error {
		for e := range t.List(contract.ClaimsPath(l.binding.Name)) {
			if !isClaim(e) {
				continue
			}
			if err := t.Remove(e.Path); err != nil {
				return err
			}
		}
		return nil
	}, l.approvedFiles()...)
}

func (l *look) approvedFiles() []store.Trailer {
	var out []store.Trailer
	for e := range l.view.Main.List(contract.ClaimsPath(l.binding.Name)) {
		if isClaim(e) {
			out = append(out, store.Trailer{Key: contract.TrailerApproved, Value: e.Path})
		}
	}
	return out
}

// isClaim is not for what else people keep beside the claims.
func isClaim(e store.Entry) bool {
	_, err := contract.ParsePath(e.Path)
	return err == nil
}

// removeRequest takes request.yaml off main, unless there are claims after all, and stops
// keeping claims in step once it is off: what was not committed by then is found before
// anything is let go of. Who deleted the binding, the API server does not say.
func (r *Reconciler) removeRequest(ctx context.Context, l *look) error {
	b := l.binding
	err := r.remove(ctx, l, "remove", func(t *store.Tree) error {
		if policy(b) != contract.Orphan {
			for e := range t.List(contract.ClaimsPath(b.Name)) {
				if isClaim(e) {
					return errMoved
				}
			}
		}
		return t.Remove(contract.RequestPath(b.Name))
	})
	if err != nil || l.trouble != nil {
		return err
	}
	r.Claims.Stop(b.Name)
	if b.Status.Request == nil {
		return nil
	}
	return r.recordRemoved(ctx, b)
}

// reportTakingBack says that an API goes, and what of it stays.
func (r *Reconciler) reportTakingBack(ctx context.Context, l *look, message string) error {
	want := l.binding.DeepCopy()
	status.Set(want, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Unbinding", Message: message,
	}, time.Now())
	if err := status.Replace(ctx, r.Client, l.binding, want); err != nil {
		return err
	}
	l.binding = want
	return nil
}
