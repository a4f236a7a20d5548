// Package rollback makes a claim in the app cluster what its file on main was at
// an earlier commit: the konnector then commits that, as a new commit by the
// person. It rewrites no history, writes nothing to Git itself, and deletes
// nothing.
package rollback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Name is KIND/NAME, and Revision a commit's hash or "~N".
	Name, Revision string
	Yes, DryRun    bool
	// Timeout of the wait for the konnector; no wait when 0.
	Timeout time.Duration
}

// plan is what is about to happen to one claim.
type plan struct {
	name appcluster.ClaimName
	// live is nil when the object is to be created again.
	live *unstructured.Unstructured
	want *contract.Claim
	// keys are the labels and annotations that travel beside the usual.
	keys contract.Keys
	diff []byte
	// from is the commit whose version it is.
	from clone.Commit
}

// Do shows, asks, writes and waits.
func Do(ctx context.Context, in Input) error {
	p, err := in.plan(ctx)
	if err != nil {
		return err
	}
	out := in.Terminal.Out
	what := p.name.Key.Binding + "/" + p.name.Key.Name
	if p.diff == nil {
		_, err := fmt.Fprintf(out, "%s in %s says already what it said at %s.\n", what, p.name.Key.Namespace, store.Hash(p.from.Hash).Short())
		return err
	}
	fmt.Fprintf(out, "Roll back %s in %s to %s (%s ago, by %s: %s):\n\n", what, p.name.Key.Namespace, store.Hash(p.from.Hash).Short(),
		duration.HumanDuration(max(in.Now().Sub(p.from.Time), 0)), output.Line(p.from.Author.Name), output.Line(p.from.Subject()))
	in.Terminal.Diff(p.diff)
	fmt.Fprintln(out)
	if p.live == nil {
		fmt.Fprintln(out, "The object is created again: where its service is gone, it orders a new and empty one.")
	}
	if in.DryRun {
		_, err := fmt.Fprintln(out, "Nothing was changed.")
		return err
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	written, err := in.write(ctx, p)
	if err != nil {
		return err
	}
	if in.Timeout == 0 {
		_, err := fmt.Fprintln(out, "The object is changed; the konnector commits it.")
		return err
	}
	return in.wait(ctx, p, written)
}

// plan finds the version and judges whether the object may be made it.
func (in Input) plan(ctx context.Context) (plan, error) {
	var p plan
	var err error
	if p.name, err = in.Cluster.Name(in.Name); err != nil {
		return p, err
	}
	binding, err := in.Cluster.Binding(ctx, p.name.Key.Binding)
	if err != nil {
		return p, err
	}
	if binding.Spec.Writer == v1alpha1.WriterGit {
		return p, fmt.Errorf("claims of %s are written in Git only, so the konnector would undo it: revert the commit in Git", binding.Name)
	}
	repo, err := clone.OfBinding(ctx, in.Access, binding.Name)
	if err != nil {
		return p, err
	}
	history, err := repo.Log(ctx, p.name.Key.Path(), 0)
	if err != nil {
		return p, err
	}
	if p.want, p.from, err = in.version(ctx, p.name, repo, history); err != nil {
		return p, err
	}
	known, err := in.Cluster.Schema(ctx, p.name.Key.Binding, p.name.Kind)
	if err != nil {
		return p, err
	}
	p.keys = known.Keys()
	p.want = p.keys.Of(p.want)
	p.want.APIVersion = p.name.Kind.GroupVersion().String()
	if p.live, err = in.live(ctx, p.name, history); err != nil {
		return p, err
	}
	p.diff, err = in.compare(p, known)
	return p, err
}

// version is the claim at the revision.
func (in Input) version(ctx context.Context, name appcluster.ClaimName, repo *clone.Clone, history []clone.Commit) (*contract.Claim, clone.Commit, error) {
	var none clone.Commit
	if len(history) == 0 {
		return nil, none, fmt.Errorf("main has no history of %s: nothing was ever at %s", name.Key, name.Key.Path())
	}
	i, err := repo.Revision(ctx, history, in.Revision)
	if err != nil {
		return nil, none, fmt.Errorf("%w; the revisions of this claim: kubectl gitbind log %s -n %s", err, in.Name, name.Key.Namespace)
	}
	from := history[i]
	if from.New == "" {
		return nil, none, fmt.Errorf("commit %s removed the claim, so there is nothing to go back to: the version before it is ~%d; to delete the claim: kubectl delete", store.Hash(from.Hash).Short(), i+1)
	}
	files, err := repo.Read(ctx, []string{from.New})
	if err != nil {
		return nil, none, err
	}
	data := files[from.New]
	want, err := contract.Decode(contract.File{Path: name.Key.Path(), Data: data}, name.Kind.Kind)
	if err != nil {
		return nil, none, fmt.Errorf("at %s the file was no claim: %w", store.Hash(from.Hash).Short(), err)
	}
	return want, from, nil
}

// live is the object as it is; nil for one that was deleted, file and all.
func (in Input) live(ctx context.Context, name appcluster.ClaimName, history []clone.Commit) (*unstructured.Unstructured, error) {
	u, err := in.Cluster.Object(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case u == nil && history[0].Change == clone.Removed:
		return nil, nil
	case u == nil:
		return nil, fmt.Errorf("main has a file of %s, and this cluster no object: kubectl gitbind get says why", name.Key)
	}
	command := fmt.Sprintf("%s/%s -n %s", name.Key.Binding, name.Key.Name, name.Key.Namespace)
	switch hold := appcluster.StatusOf(u).Hold; {
	case u.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("%s is being deleted: wait until it is gone, then roll back to create it again", name.Key)
	case u.GetAnnotations()[v1alpha1.PauseAnnotation] == "true":
		return nil, fmt.Errorf("%s is paused, so nothing would be committed: kubectl annotate %s %s-", name.Key, command, v1alpha1.PauseAnnotation)
	case hold != nil && len(hold.Choices) > 0 && appcluster.True(u, "Held") != nil:
		return nil, fmt.Errorf("%s is held (%s): decide first: kubectl gitbind resolve %s", name.Key, hold.Reason, command)
	}
	return u, nil
}

// compare gives what would change, as the konnector compares; nil for nothing.
func (in Input) compare(p plan, known *contract.Schema) ([]byte, error) {
	want := known.Normalize(p.want)
	changed, err := contract.Encode(want)
	if err != nil {
		return nil, err
	}
	to := store.Hash(p.from.Hash).Short() + "/" + p.name.Key.Path()
	if p.live == nil {
		return output.Diff("/dev/null", "", to, string(changed)), nil
	}
	live := known.Normalize(contract.FromObject(p.live))
	if contract.Equal(live, want) {
		return nil, nil
	}
	old, err := contract.Encode(live)
	return output.Diff("cluster/"+p.name.Key.Path(), string(old), to, string(changed)), err
}

// write makes the object the version, if it is still what was shown.
func (in Input) write(ctx context.Context, p plan) (*unstructured.Unstructured, error) {
	const owner = client.FieldOwner("kubectl-gitbind")
	if p.live == nil {
		u := p.want.Object()
		if err := in.Cluster.Create(ctx, u, owner); err != nil {
			return nil, fmt.Errorf("create %s: %w", p.name.Key, err)
		}
		return u, nil
	}
	u := p.live
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		u = u.DeepCopy()
		p.want.WriteTo(u, p.keys)
		conflict := in.Cluster.Update(ctx, u, owner)
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		// A status may be written at any time, and is no change of the claim.
		var err error
		if u, err = in.Cluster.Object(ctx, p.name); err != nil {
			return err
		}
		if u == nil || !isAsShown(u, p.live) {
			return errChanged
		}
		return conflict
	})
	if apierrors.IsConflict(err) || errors.Is(err, errChanged) {
		return nil, errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", p.name.Key, err)
	}
	return u, nil
}

var errChanged = errors.New("the claim was changed meanwhile, so nothing was done: look again")

// isAsShown tells whether an object has the spec, labels and annotations with which it was shown.
func isAsShown(now, shown *unstructured.Unstructured) bool {
	return now.GetUID() == shown.GetUID() && now.GetGeneration() == shown.GetGeneration() &&
		maps.Equal(now.GetLabels(), shown.GetLabels()) && maps.Equal(now.GetAnnotations(), shown.GetAnnotations())
}
