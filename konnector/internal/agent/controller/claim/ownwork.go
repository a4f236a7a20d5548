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
// process ended between the two. It sets OwnWork where main's file is what was pushed of
// this object, and otherwise Interrupted where there was such a push and the file is
// another one by now, or is gone.
func (r *reconciler) askOwnWork(ctx context.Context, l *look) error {
	f, since := &l.facts, baseCommit(l.base)
	if f.Continues == decision.No {
		// What the host has lost, or is too far back, is not there to begin at.
		since = ""
	}
	f.OwnWork = decision.No
	if l.file != nil && l.askMerged() {
		return nil
	}
	last, err := l.api.Repository.Pushes.Last(ctx, l.view, since, l.key, l.object.GetCreationTimestamp().Time)
	if store.LastingLimit(err) != nil {
		f.HistoryTooLong = true
		return nil
	}
	if err != nil || last.UID != string(l.object.GetUID()) {
		// None, or one of another object of this name.
		return err
	}
	if l.file == nil {
		f.Interrupted = decision.EditedSince
		return nil
	}
	if last.Generation > l.object.GetGeneration() {
		// One of a future that the restore of this cluster's backup took back.
		return nil
	}
	if !last.Merged && last.Blob == string(l.file.Hash) && last.Generation <= maxPushedGeneration(l) {
		// It ended between a push and its base, and nobody has touched the file since.
		proven, err := r.isProven(ctx, l, last)
		if f.OwnWork = answerOf(proven); proven || err != nil {
			return err
		}
	}
	if since == "" {
		// Without a base that main has, nothing tells which fields of the object were edited since.
		return nil
	}
	// It ended there, too, but the file holds others' changes, by a later commit or by a
	// merge, of which Live is the object's part; or it is not proven to be of this object.
	pushed := last.Blob
	if last.Merged {
		pushed = last.Live
	}
	data, err := l.encode(f.Live)
	if err != nil {
		return err
	}
	f.Interrupted = decision.EditedSince
	if pushed == string(store.BlobHash(data)) {
		f.Interrupted = decision.AllPushed
	}
	return nil
}

// askMerged answers askOwnWork by what was proposed, where main has that: the process ended
// before it noticed, or others merged it just now. It reports whether there is an answer.
func (l *look) askMerged() bool {
	switch p := l.facts.Proposed; {
	case p == nil:
	case p.Blob == string(l.file.Hash):
		// Main has it as it was proposed. What the object says otherwise was edited since.
		l.facts.OwnWork = decision.Yes
		return true
	case p.Live && l.approved:
		// Others have changed it, before it came to main or since. The object says what was
		// proposed.
		l.facts.Interrupted = decision.AllPushed
		return true
	}
	return false
}

// maxPushedGeneration is the newest generation of the object of which the file may be what
// was pushed: the present one, if it says the same.
func maxPushedGeneration(l *look) int64 {
	generation := l.object.GetGeneration()
	if l.facts.File != nil && !reflect.DeepEqual(l.facts.File.Spec, l.facts.Live.Spec) {
		generation--
	}
	return generation
}

// isProven reports whether a push that made the file was of this very object, and not of
// one that the restore of a backup replaced: this process pushed it; the base was recorded
// after that push, as the status says of an object whose base somebody took away; or the
// object was as it was pushed.
func (r *reconciler) isProven(ctx context.Context, l *look, push contract.ObjectTrailer) (bool, error) {
	if l.api.Repository.Doubts.Made(push) {
		return true, nil
	}
	if agreedAt := store.Hash(l.facts.BaseCommit); l.base == nil && agreedAt != "" {
		isOnMain, err := l.view.Continues(ctx, agreedAt)
		if err != nil {
			return false, err
		}
		later, err := l.api.Repository.Pushes.Last(ctx, l.view, agreedAt, l.key, l.object.GetCreationTimestamp().Time)
		switch {
		case store.LastingLimit(err) != nil:
		case err != nil:
			return false, err
		case isOnMain && later == (contract.ObjectTrailer{}):
			return true, nil
		}
	}
	return r.saidAt(ctx, l, push.Version)
}

// saidAt reports whether the object, as it was at a resourceVersion, said what the file
// says. After the restore of a backup, generations and resourceVersions are given out a
// second time, so the API server is asked for that version itself. It keeps old ones for
// some minutes; after that nothing is proven.
func (r *reconciler) saidAt(ctx context.Context, l *look, version string) (bool, error) {
	if version == "" {
		return false, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(l.api.Kind.GroupVersion().WithKind(l.api.Kind.Kind + "List"))
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
			return contract.Equal(l.api.schema.Normalize(contract.FromObject(&u)), l.facts.File), nil
		}
	}
	return false, nil
}
