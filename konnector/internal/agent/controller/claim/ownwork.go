package claim

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
)

// askOwnWork looks for a push of ours that the base does not know of, because the
// process ended between the two.
func (r *reconciler) askOwnWork(ctx context.Context, l *look) error {
	f, since := &l.facts, baseCommit(l.base)
	if f.Continues == decision.No {
		// What the host has lost is not there to begin at.
		since = ""
	}
	f.OwnWork = decision.No
	switch p := f.Proposed; {
	case p == nil:
	case p.Blob == string(l.file.Hash):
		// It was approved. What the object says otherwise was edited since.
		f.OwnWork = decision.Yes
		return nil
	case p.Live && l.approved:
		// Others have changed it, before it came to main or since.
		f.Interrupted = decision.AllPushed
		return nil
	}
	last, err := r.api().Repository.Pushes.Last(ctx, since, l.key)
	if err != nil || last.UID != string(l.object.GetUID()) || last.Generation > l.object.GetGeneration() {
		return err
	}
	if !last.Merged && last.Blob == string(l.file.Hash) && last.Generation <= pushable(l) {
		proven, err := r.isProven(ctx, l, last)
		if f.OwnWork = answerOf(proven); proven || err != nil {
			return err
		}
	}
	if since == "" {
		return nil
	}
	said := last.Blob
	if last.Merged {
		said = last.Live
	}
	data, err := r.encode(l, f.Live)
	if err != nil {
		return err
	}
	f.Interrupted = decision.EditedSince
	if said == blobOf(data) {
		f.Interrupted = decision.AllPushed
	}
	return nil
}

// pushable is the newest generation of the object of which the file may be what
// was pushed: the present one, if it says the same.
func pushable(l *look) int64 {
	generation := l.object.GetGeneration()
	if l.facts.File != nil && !reflect.DeepEqual(l.facts.File.Spec, l.facts.Live.Spec) {
		generation--
	}
	return generation
}

// isProven reports whether a push that made the file was of this very object: both
// agreed after it, as the status says of an object whose base somebody took away; or the
// object was as it was pushed.
func (r *reconciler) isProven(ctx context.Context, l *look, push contract.ObjectTrailer) (bool, error) {
	if agreed := store.Hash(l.facts.BaseCommit); l.base == nil && agreed != "" {
		part, err := r.api().Repository.Lineage.Continues(ctx, agreed)
		if err != nil {
			return false, err
		}
		since, err := r.api().Repository.Pushes.Last(ctx, agreed, l.key)
		if err != nil || part && since == (contract.ObjectTrailer{}) {
			return err == nil, err
		}
	}
	return r.was(ctx, l, push.Version)
}

// was reports whether the object, as it was at a resourceVersion, said what the file
// says. After the restore of a backup, generations and resourceVersions are given out a
// second time, so the API server is asked for that version itself. It keeps old ones for
// some minutes; after that nothing is proven.
func (r *reconciler) was(ctx context.Context, l *look, version string) (bool, error) {
	if version == "" {
		return false, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.api().Kind.GroupVersion().WithKind(r.api().Kind.Kind + "List"))
	err := r.live.List(ctx, list, &client.ListOptions{Namespace: l.key.Namespace, Raw: &metav1.ListOptions{
		FieldSelector: "metadata.name=" + l.key.Name, ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}})
	switch {
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsBadRequest(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s as it was at %s: %w", l.key, version, err)
	}
	for _, u := range list.Items {
		if u.GetUID() == l.object.GetUID() && u.GetName() == l.key.Name {
			return contract.Equal(r.api().schema.Normalize(contract.FromObject(&u)), l.facts.File), nil
		}
	}
	return false, nil
}
