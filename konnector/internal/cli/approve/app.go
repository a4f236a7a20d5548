package approve

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

// connections are those of an app cluster with what waits there; ok is false
// when the cluster is none.
func (in Input) connections(ctx context.Context) (all []*holder, ok bool, err error) {
	connections, err := in.Cluster.Connections(ctx)
	if apierrors.IsForbidden(err) || err == nil && len(connections) == 0 {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for i := range connections {
		h := ofConnection(&connections[i])
		if h.RemovalsHeld {
			if err := in.listHeld(ctx, h); err != nil {
				return nil, false, err
			}
		}
		all = append(all, h)
	}
	schemas, err := in.schemas(ctx)
	return append(all, schemas...), true, err
}

// ofConnection is what a Connection says.
func ofConnection(c *v1alpha1.Connection) *holder {
	h := &holder{kind: "Connection", Name: c.Name, Holder: "Connection " + c.Name}
	if ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
		(ready.Reason == "HistoryReplaced" || ready.Reason == "StatusReplaced") {
		h.Main = ready.Message
	}
	if meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionRemovals) {
		h.RemovalsHeld = true
		h.Message = meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionRemovals).Message
	}
	return h
}

// listHeld lists the claims of a Connection whose removal is one of many.
func (in Input) listHeld(ctx context.Context, h *holder) error {
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil {
		return err
	}
	var unseen []string
	for _, b := range bindings {
		if b.Spec.Connection != h.Name {
			continue
		}
		claims, err := in.Cluster.Claims(ctx, b.Name)
		if apierrors.IsForbidden(err) {
			unseen = append(unseen, b.Name)
		} else if err != nil {
			return err
		}
		for i := range claims {
			if item, ok := heldRemoval(b.Name, &claims[i]); ok {
				h.Removals = append(h.Removals, item)
			}
		}
	}
	if len(unseen) > 0 {
		h.Note = "you may not list " + strings.Join(unseen, ", ")
	}
	return nil
}

func heldRemoval(binding string, u *unstructured.Unstructured) (Item, bool) {
	hold := appcluster.StatusOf(u).Hold
	if hold == nil || hold.Reason != string(contract.ManyRemovals) {
		return Item{}, false
	}
	key := contract.Key{Binding: binding, Namespace: u.GetNamespace(), Name: u.GetName()}
	text := "its file is gone from main"
	if u.GetDeletionTimestamp() != nil {
		text = "it is being deleted here"
	}
	return Item{Claim: key.String(), Path: key.Path(), Reason: hold.Reason, Message: text}, true
}

// doneIn reports whether the konnector has acted on all of the approval: it keeps
// the annotations, and says in the status which it has acted on.
func (c chosen) doneIn(u *unstructured.Unstructured) bool {
	for annotation, value := range c.annotations {
		if actedOn(u, annotation) != value {
			return false
		}
	}
	return true
}

// actedOn is the commit for which the konnector has acted on an annotation of a
// Connection; "" for none.
func actedOn(u *unstructured.Unstructured, annotation string) string {
	field := "removals"
	if annotation == v1alpha1.ApproveMainAnnotation {
		field = "main"
	}
	commit, _, _ := unstructured.NestedString(u.Object, "status", "approved", field)
	return commit
}

// withdraw takes an earlier approval of the very same commit back, so that the
// new one counts: the konnector acts on each once.
func (in Input) withdraw(ctx context.Context, c chosen) error {
	if c.kind != "Connection" {
		return nil
	}
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(c.gvk())
	if err := in.Cluster.Get(ctx, client.ObjectKey{Name: c.Name}, now); err != nil {
		return fmt.Errorf("read Connection %s: %w", c.Name, err)
	}
	earlier := map[string]string{}
	for annotation, value := range c.annotations {
		if actedOn(now, annotation) == value {
			earlier[annotation] = ""
		}
	}
	if len(earlier) == 0 {
		return nil
	}
	now.SetResourceVersion("") // The konnector may have written the status since.
	if err := in.Cluster.Annotate(ctx, now, earlier); err != nil {
		return fmt.Errorf("take the earlier approval back: %w", err)
	}
	err := in.Cluster.Until(ctx, appcluster.Watched{Kind: c.gvk(), Key: client.ObjectKey{Name: c.Name}}, withdrawn, func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		for annotation := range earlier {
			if u == nil || actedOn(u, annotation) != "" {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("take the earlier approval back: the konnector does not look: %w", err)
	}
	return nil
}

// withdrawn is how long the konnector may take to forget an approval.
const withdrawn = time.Minute
