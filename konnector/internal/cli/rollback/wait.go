package rollback

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/progress"
)

// outcome is what became of the write, by one look at the object.
type outcome struct {
	// commit holds the version, once that is committed.
	commit string
	// proposed says where it waits for an approval, if it does.
	proposed string
	// failed says why that will not be.
	failed string
}

// outcome judges an object after it was written; nil for no object.
func (p plan) outcome(written, now *unstructured.Unstructured) outcome {
	if now == nil || now.GetUID() != written.GetUID() {
		return outcome{failed: "the object was deleted meanwhile"}
	}
	s := appcluster.StatusOf(now)
	before := ""
	if p.live != nil {
		before = appcluster.StatusOf(p.live).Commit
	}
	if c := appcluster.True(now, "Held"); c != nil && c.ObservedGeneration >= written.GetGeneration() {
		return outcome{failed: appcluster.Say(*c)}
	}
	if c := appcluster.True(now, "Conflict"); c != nil && (p.live == nil || appcluster.True(p.live, "Conflict") == nil) {
		return outcome{failed: appcluster.Say(*c)}
	}
	if c := appcluster.True(now, "AwaitingReview"); c != nil && c.ObservedGeneration >= written.GetGeneration() {
		return outcome{proposed: c.Message}
	}
	c := appcluster.True(now, "Committed")
	// Labels and annotations do not change the generation: then only another
	// commit tells.
	seen := p.live == nil || s.Commit != before || c != nil && written.GetGeneration() > p.live.GetGeneration() && c.ObservedGeneration >= written.GetGeneration()
	if c == nil || !seen || s.Commit == "" {
		return outcome{}
	}
	return outcome{commit: s.Commit}
}

// wait waits until the konnector has committed the object.
func (in Input) wait(ctx context.Context, p plan, written *unstructured.Unstructured) error {
	var last outcome
	doing := progress.Begin(in.Terminal, "waiting for the konnector to commit it")
	watched := appcluster.Watched{Kind: p.name.Kind, Key: client.ObjectKeyFromObject(written), Tell: doing.Say}
	err := in.Cluster.Until(ctx, watched, in.Timeout, func(now *unstructured.Unstructured) (bool, *metav1.Condition) {
		last = p.outcome(written, now)
		return last != outcome{}, appcluster.Uncommitted(now)
	})
	doing.End()
	var late *appcluster.NotReady
	switch {
	case errors.As(err, &late) && late.Condition != nil:
		return fmt.Errorf("the object is changed, and not committed within %s: %s. It will be as soon as that is over", in.Timeout, appcluster.Say(*late.Condition))
	case errors.As(err, &late):
		return fmt.Errorf("the object is changed, and no konnector has committed it within %s. It will be as soon as one runs", in.Timeout)
	case err != nil:
		return err
	case last.failed != "":
		return fmt.Errorf("the object was changed, and the change was not committed: %s", last.failed)
	case last.proposed != "":
		_, err = fmt.Fprintln(in.Terminal.Out, last.proposed)
		return err
	}
	_, err = fmt.Fprintf(in.Terminal.Out, "Committed: %s\n", last.commit)
	return err
}
