// Package unbind takes an API back: its claims are orphaned or deleted, as the
// person says, and what binding made in this cluster and in the control plane
// goes.
//
// The konnector does that, so it goes on when this program is interrupted; the
// package shows what will go, asks, and watches. It unbinds no API that has
// claims without being told what becomes of them.
package unbind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/progress"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Names of offers, or "<plural>.<group>", or the plural alone.
	Names []string
	// Claims says what becomes of them; what the binding says when empty.
	Claims v1alpha1.DeletionPolicy

	DryRun, Yes bool
	// Timeout of the wait for each; no wait when 0.
	Timeout time.Duration
}

// Do unbinds all of the names, or none when one of them cannot be unbound.
func Do(ctx context.Context, in Input) error {
	plans, err := in.plans(ctx)
	if err != nil {
		return err
	}
	for _, p := range plans {
		p.show(in.Terminal.Out)
	}
	for _, p := range plans {
		if err := p.refused(); err != nil {
			return err
		}
	}
	if in.DryRun {
		fmt.Fprintln(in.Terminal.Out, "Nothing was changed.")
		return nil
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	for _, p := range plans {
		if err := in.unbind(ctx, p); err != nil {
			return fmt.Errorf("unbind %s: %w", p.name, err)
		}
	}
	return nil
}

// refused is the error of an API that has claims nobody has decided on.
func (p plan) refused() error {
	if len(p.claims) == 0 || p.policy == v1alpha1.DeletionOrphan || p.policy == v1alpha1.DeletionDelete {
		return nil
	}
	return fmt.Errorf("%s has %s: say what becomes of them, with --claims=orphan (they go from this cluster; their files and services stay) or --claims=delete (their services are deleted)",
		p.name, count(len(p.claims), "claim"))
}

func (in Input) unbind(ctx context.Context, p plan) error {
	fmt.Fprintf(in.Terminal.Out, "Unbinding %s:\n", p.name)
	watching := progress.Begin(in.Terminal, "waiting until all of it is taken back")
	defer watching.End()
	if p.binding != nil {
		if err := in.begin(ctx, p); err != nil {
			return err
		}
		if in.Timeout == 0 {
			return nil
		}
		if err := in.wait(ctx, p.name, watching.Say); err != nil {
			return err
		}
		watching.Say("apiservicebinding/" + p.name + " deleted")
	}
	return in.sweep(ctx, p.name, watching.Say)
}

// begin tells the konnector, unless it was told already.
func (in Input) begin(ctx context.Context, p plan) error {
	if p.binding.Spec.DeletionPolicy != p.policy {
		err := in.asShown(ctx, p.binding, func() error {
			before := p.binding.DeepCopy()
			p.binding.Spec.DeletionPolicy = p.policy
			return in.Cluster.Patch(ctx, p.binding, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		})
		if err != nil {
			return fmt.Errorf("say what becomes of the claims: %w", err)
		}
	}
	if !p.binding.DeletionTimestamp.IsZero() {
		return nil
	}
	err := in.asShown(ctx, p.binding, func() error {
		return in.Cluster.Delete(ctx, p.binding, client.Preconditions{UID: &p.binding.UID, ResourceVersion: &p.binding.ResourceVersion})
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the binding: %w", err)
	}
	return nil
}

var errChanged = errors.New("somebody has changed the binding since it was shown: run the same again to look at it")

// asShown changes a binding if its spec is still the one that was shown: the konnector may have
// written into it since what becomes of the claims, as a file on main says. The status does not
// count: it is written all the time. change may run several times, on the binding as it is then.
func (in Input) asShown(ctx context.Context, shown *v1alpha1.APIServiceBinding, change func() error) error {
	uid, generation := shown.UID, shown.Generation
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		conflict := change()
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		var now v1alpha1.APIServiceBinding
		if err := in.Cluster.Get(ctx, client.ObjectKeyFromObject(shown), &now); err != nil {
			return err
		}
		if now.UID != uid || now.Generation != generation {
			return errChanged
		}
		now.DeepCopyInto(shown)
		return conflict
	})
}

// wait waits until the konnector has taken everything back.
func (in Input) wait(ctx context.Context, name string, say func(string)) error {
	watched := appcluster.Watched{Kind: v1alpha1.GroupVersion.WithKind("APIServiceBinding"), Key: client.ObjectKey{Name: name}, Tell: say}
	err := in.Cluster.Until(ctx, watched, in.Timeout, func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		if u == nil {
			return true, nil
		}
		return false, appcluster.Condition(u, v1alpha1.ConditionReady)
	})
	var late *appcluster.NotReady
	if !errors.As(err, &late) {
		return err
	}
	text := fmt.Sprintf("not finished after %s", in.Timeout)
	if late.Condition != nil && late.Condition.Status == metav1.ConditionFalse {
		text += ": " + appcluster.Say(*late.Condition)
	}
	absent, err := in.Cluster.KonnectorAbsent(ctx, in.Now())
	if err != nil {
		return err
	}
	if absent != nil {
		text += ". The " + absent.Say(in.Now()) + ": it goes on when one runs"
	}
	return errors.New(text + ". It goes on by itself; run the same again to watch it")
}

// sweep removes what the konnector had no right to remove.
func (in Input) sweep(ctx context.Context, name string, say func(string)) error {
	for _, o := range made(name) {
		if err := in.Cluster.Remove(ctx, o, appcluster.Describe(o), say); err != nil {
			return err
		}
	}
	return in.sweepAPI(ctx, name, say)
}

// show says what will go.
func (p plan) show(out io.Writer) {
	fmt.Fprintf(out, "%s will no longer be an API of this cluster.\n", p.name)
	if p.binding != nil && !p.binding.DeletionTimestamp.IsZero() {
		fmt.Fprintln(out, "  That has begun already.")
	}
	if len(p.claims) == 0 {
		fmt.Fprintln(out, "  It has no claims.")
		return
	}
	switch p.policy {
	case v1alpha1.DeletionOrphan:
		fmt.Fprintf(out, "  %s from this cluster; their files on main and their services stay:\n", goes(len(p.claims)))
	case v1alpha1.DeletionDelete:
		fmt.Fprintf(out, "  %s, and their SERVICES ARE DELETED, with what is in them:\n", goes(len(p.claims)))
	default:
		fmt.Fprintf(out, "  It has %s:\n", count(len(p.claims), "claim"))
	}
	const most = 20
	for i, c := range p.claims {
		if i == most {
			fmt.Fprintf(out, "    and %d more\n", len(p.claims)-most)
			break
		}
		fmt.Fprintln(out, "    "+c)
	}
}

func goes(n int) string {
	if n == 1 {
		return "1 claim goes"
	}
	return fmt.Sprintf("%d claims go", n)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
