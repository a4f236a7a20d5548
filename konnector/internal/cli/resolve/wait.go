package resolve

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/progress"
	"gitbind.dev/konnector/internal/cli/usage"
)

// decided is a decision that the konnector was told.
type decided struct {
	choice choice.Choice
	token  string
}

// outcome is what became of a decision, by one look at the claim.
type outcome struct {
	// done says that the konnector has acted.
	done bool
	// failed says that it will not, and why.
	failed string
	// said is for the person.
	said string
}

// of judges a claim as it is after the decision was written; nil for no object.
func (d decided) of(before types.UID, u *unstructured.Unstructured) outcome {
	if u == nil {
		if d.choice == choice.Release {
			return outcome{} // it is created again
		}
		return outcome{done: true, said: "done: the object is gone"}
	}
	if u.GetUID() != before {
		return outcome{done: true, said: "done: the object was created again from the file"}
	}
	h := appcluster.StatusOf(u).Hold
	answer := u.GetAnnotations()[v1alpha1.ResolveAnnotation]
	mine := answer == d.choice.Answer(d.token)
	review := appcluster.True(u, "AwaitingReview")
	switch {
	case h == nil && review != nil:
		// The decision stays on it until then.
		return outcome{done: true, said: review.Message}
	case h != nil && h.Token != d.token && mine:
		return outcome{failed: "the claim or main was changed meanwhile, so nothing was done. Look again"}
	case h != nil && h.Token != d.token:
		return outcome{failed: "the konnector acted, and the claim is held again: " + h.Reason + ". Look again"}
	case h != nil && !mine && answer != "":
		return outcome{failed: "somebody else decided otherwise: " + answer}
	case h != nil:
		return outcome{}
	case d.choice == choice.Release:
		return outcome{} // until it was created again
	case u.GetDeletionTimestamp() != nil && d.choice == choice.Delete:
		// The decision may stay on it.
		return outcome{done: true, said: "done: the removal goes on; the object stays until the service is gone"}
	case answer != "":
		return outcome{}
	}
	if appcluster.True(u, "Committed") == nil {
		return outcome{} // for example not pushed yet
	}
	commit := appcluster.StatusOf(u).Commit
	return outcome{done: true, said: "done: cluster and Git agree, at commit " + commit[:min(len(commit), 8)]}
}

// wait waits until the konnector has acted.
func (in Input) wait(ctx context.Context, name appcluster.ClaimName, u *unstructured.Unstructured, d decided) error {
	var last outcome
	doing := progress.Begin(in.Terminal, "waiting for the konnector to act")
	watched := appcluster.Watched{Kind: name.Kind, Key: client.ObjectKeyFromObject(u), Tell: doing.Say}
	err := in.Cluster.Until(ctx, watched, in.Timeout, func(now *unstructured.Unstructured) (bool, *metav1.Condition) {
		last = d.of(u.GetUID(), now)
		return last.done || last.failed != "", appcluster.Uncommitted(now)
	})
	doing.End()
	var late *appcluster.NotReady
	if errors.As(err, &late) {
		err = fmt.Errorf("the konnector has not acted within %s", in.Timeout)
		if late.Condition != nil {
			err = fmt.Errorf("%w: %s", err, appcluster.Say(*late.Condition))
		}
	}
	switch {
	case err != nil:
		return &usage.Remains{Err: err, What: fmt.Sprintf("The decision stands on the claim, and counts as soon as a konnector looks; to take it back: kubectl annotate %s/%s -n %s %s-",
			name.Key.Binding, name.Key.Name, name.Key.Namespace, v1alpha1.ResolveAnnotation)}
	case last.failed != "":
		return fmt.Errorf("%s: %s", name.Key, last.failed)
	}
	_, err = fmt.Fprintln(in.Terminal.Out, last.said)
	return err
}
