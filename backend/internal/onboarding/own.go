package onboarding

import (
	"context"
	"fmt"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// own are the person's clusters, as the API server has them: a cache may not
// know yet of one that was reclaimed a moment ago, and a second one would be
// made.
func (s *Service) own(ctx context.Context, who login.Identity) ([]v1alpha1.ClusterBinding, error) {
	var list v1alpha1.ClusterBindingList
	if err := s.Live.List(ctx, &list); err != nil {
		return nil, trouble(fmt.Errorf("list ClusterBindings: %w", err))
	}
	var own []v1alpha1.ClusterBinding
	for _, cb := range list.Items {
		if access.Owns(who, &cb) {
			own = append(own, cb)
		}
	}
	return own, nil
}

// hasNone refuses to give an app cluster another place than the one that it has.
func hasNone(own []v1alpha1.ClusterBinding, clusterUID string) error {
	found := withUID(own, clusterUID)
	if len(found) == 0 {
		return nil
	}
	return refusal.New(refusal.Conflict, "this cluster was connected as cluster %s (%s) since it was built: if nothing was ordered there, a platform operator removes that one first (kubectl delete clusterbinding %s)",
		found[0].Name, found[0].Spec.DisplayName, found[0].Name)
}

func withUID(own []v1alpha1.ClusterBinding, clusterUID string) []v1alpha1.ClusterBinding {
	var found []v1alpha1.ClusterBinding
	for _, cb := range own {
		if cb.Spec.ClusterUID == clusterUID {
			found = append(found, cb)
		}
	}
	return found
}

// placeOf is which of a person's clusters an app cluster is; nil for none yet. There may be
// several, of which one is empty: of who connected it in vain before it was handed over to
// them. The one by which the app cluster is connected counts, and no other.
func placeOf(own []v1alpha1.ClusterBinding, in connectInput) (*v1alpha1.ClusterBinding, error) {
	if in.connectedAs == "" {
		switch found := withUID(own, in.clusterUID); len(found) {
		case 0:
			return nil, nil
		case 1:
			return &found[0], nil
		default:
			return nil, refusal.New(refusal.Conflict, "this cluster has several places of yours: say which one it takes, with --reclaim and the id. %s", listed(found))
		}
	}
	for i := range own {
		switch cb := &own[i]; {
		case cb.Name != in.connectedAs:
		case cb.Spec.ClusterUID != in.clusterUID:
			return nil, refusal.New(refusal.Conflict, "cluster %s (%s) is another app cluster of yours by now, which took its place: if this one is to have it, as when the control plane was restored to before that, add --reclaim %s",
				cb.Name, cb.Spec.DisplayName, cb.Name)
		default:
			return cb, nil
		}
	}
	return nil, nil
}

// named finds a cluster by its id, or by its name if only one has it.
func named(own []v1alpha1.ClusterBinding, name string) (*v1alpha1.ClusterBinding, error) {
	var found []*v1alpha1.ClusterBinding
	for i := range own {
		switch cb := &own[i]; name {
		case cb.Name:
			return cb, nil
		case cb.Spec.DisplayName:
			found = append(found, cb)
		}
	}
	switch len(found) {
	case 0:
		return nil, errNone(own, name)
	case 1:
		return found[0], nil
	}
	return nil, refusal.New(refusal.Conflict, "several of your clusters are called %q: give the id. %s", name, listed(own))
}

func listed(own []v1alpha1.ClusterBinding) string {
	if len(own) == 0 {
		return "none belongs to you"
	}
	text := "yours are"
	for i, cb := range own {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %s (%s)", cb.Name, cb.Spec.DisplayName)
	}
	return text
}

func errNone(own []v1alpha1.ClusterBinding, name string) error {
	return refusal.New(refusal.NotFound, "you have no cluster %q: %s", name, listed(own))
}

func errLeaving(cb *v1alpha1.ClusterBinding) error {
	return refusal.New(refusal.Conflict, "cluster %s is being removed from the control plane: connect again when it is gone", cb.Name)
}
