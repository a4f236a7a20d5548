// Package selection says which objects belong to a claim: those that an offer's
// permissionClaims choose by name, by a field of the claim, or by labels. Both agents
// choose by it, each in its own cluster. It is pure.
package selection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Max is how many objects travel with one claim in one direction.
const Max = 64

// Selection is one way in which objects of a kind belong to a claim.
type Selection struct {
	// Name is the object's; "" where labels choose.
	Name   string
	Labels map[string]string
	// Owner, if not "", is who must control it.
	Owner types.UID
	// Keys are those of its data that travel; none for all.
	Keys []string
}

// Of says which objects of a kind belong to a claim. Object is the claim, with at least
// the fields that the permission claims name.
func Of(claims []v1alpha1.PermissionClaim, resource v1alpha1.Resource, name string, object map[string]any) []Selection {
	var out []Selection
	for _, c := range claims {
		if c.Resource.Kind() != resource.Kind() {
			continue
		}
		s := Selection{Keys: c.Keys}
		switch {
		case c.Name != "":
			s.Name = ofClaim(c.Name, name)
		case c.Field != "":
			s.Name, _, _ = unstructured.NestedString(object, strings.Split(c.Field, ".")...)
		case len(c.MatchLabels) > 0:
			s.Labels = maps.Clone(c.MatchLabels)
			for k, v := range s.Labels {
				s.Labels[k] = ofClaim(v, name)
			}
		}
		if s.Name != "" || s.Labels != nil {
			out = append(out, s)
		}
	}
	return out
}

func ofClaim(pattern, name string) string { return strings.ReplaceAll(pattern, "$(name)", name) }

// rootCA is the ConfigMap that each cluster has in each namespace, for its own pods.
const rootCA = "kube-root-ca.crt"

// Takes reports whether it chooses an object of this name with these labels.
func (s Selection) Takes(name string, labels map[string]string) bool {
	if name == rootCA {
		return false
	}
	if s.Labels == nil {
		return s.Name == name
	}
	for k, want := range s.Labels {
		if v, ok := labels[k]; !ok || v != want {
			return false
		}
	}
	return true
}

// Taken is an object that travels.
type Taken struct {
	Metadata *metav1.PartialObjectMetadata
	// Labels are those by which it was chosen.
	Labels map[string]string
	// Owner, if not "", is who must control it.
	Owner types.UID
	// Keys are those that travel; none for all.
	Keys []string
}

// Found are objects that travel, by name.
type Found map[string]Taken

// Add has an object that a selection takes. Where several selections take it, all keys
// travel that any of them lets through.
func (f Found) Add(m *metav1.PartialObjectMetadata, s Selection) {
	t, ok := f[m.Name]
	switch {
	case !ok:
		t = Taken{Metadata: m, Owner: s.Owner, Keys: s.Keys}
	case len(t.Keys) == 0 || len(s.Keys) == 0:
		t.Keys = nil
	default:
		t.Keys = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(t.Keys), s.Keys...))))
	}
	if s.Owner == "" {
		t.Owner = ""
	}
	if len(s.Labels) > 0 {
		t.Labels = maps.Clone(t.Labels)
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		maps.Copy(t.Labels, s.Labels)
	}
	f[m.Name] = t
}

// Judge says how selections take one object.
func Judge(selections []Selection, m metav1.ObjectMeta) (t Taken, ok bool) {
	found := Found{}
	for _, s := range selections {
		if s.Takes(m.Name, m.Labels) {
			found.Add(&metav1.PartialObjectMetadata{ObjectMeta: m}, s)
		}
	}
	t, ok = found[m.Name]
	return t, ok
}

// IsOwned reports whether the object is controlled by whom it must be.
func (t Taken) IsOwned() bool {
	owner := metav1.GetControllerOf(t.Metadata)
	return t.Owner == "" || owner != nil && owner.UID == t.Owner
}

// Version is another one whenever something else is to be encrypted.
func (t Taken) Version() string {
	return fmt.Sprintf("%s/%s %q %q", t.Metadata.UID, t.Metadata.ResourceVersion, t.Keys, t.Labels)
}

// Only are the entries of data that travel, with all keys where none are named.
func Only[V any](data map[string]V, keys []string) map[string]V {
	if len(keys) == 0 {
		return data
	}
	out := map[string]V{}
	for _, k := range keys {
		if v, ok := data[k]; ok {
			out[k] = v
		}
	}
	return out
}
