package apiservicebinding

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/base"
)

// findUnsaved finds the objects of which something would be lost if the file on
// main were all that stays. It needs them whole: some have their base in a part.
func (r *Reconciler) findUnsaved(ctx context.Context, l *look) error {
	kind := kindOf(l.crd)
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for {
		if err := r.Live.List(ctx, page, client.Limit(maxWhole), client.Continue(page.GetContinue())); err != nil {
			return fmt.Errorf("list %s: %w", l.binding.Name, err)
		}
		for i := range page.Items {
			u := &page.Items[i]
			key := contract.Key{Binding: l.binding.Name, Namespace: u.GetNamespace(), Name: u.GetName()}
			if file, ok := l.view.Main.Entry(key.Path()); !saved(u, file, ok, l.terms.MetadataKeys) {
				l.unsaved = append(l.unsaved, u.GetNamespace()+"/"+u.GetName())
			}
		}
		if page.GetContinue() == "" {
			l.facts.Unsaved = len(l.unsaved)
			return nil
		}
	}
}

// saved reports whether main says what an object says, or nobody wants that. One
// that has a file and not our finalizer was let go of before. Of one that is being deleted
// nothing may be in review: once it is let go of, nobody takes back what is approved later.
func saved(u *unstructured.Unstructured, file store.Entry, there bool, keys contract.Keys) bool {
	kept := controllerutil.ContainsFinalizer(u, v1alpha1.Finalizer)
	switch {
	case u.GetDeletionTimestamp() != nil:
		return !kept || u.GetAnnotations()[v1alpha1.ProposalAnnotation] == ""
	case !there:
		return false
	case !kept:
		return true
	}
	b := base.Read(u)
	if b == nil || b.Removed || b.Blob != string(file.Hash) || b.Generation != u.GetGeneration() {
		return false
	}
	// Labels and annotations have no generation.
	live, agreed := keys.Of(contract.FromObject(u)), keys.Of(b.Claim)
	return maps.Equal(live.Labels, agreed.Labels) && maps.Equal(live.Annotations, agreed.Annotations)
}

// maxNamed is how many objects a message names.
const maxNamed = 5
