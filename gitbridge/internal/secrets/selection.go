// Package secrets finds the Secrets that travel with claims to their app cluster, and
// makes the files of them. It reads as the tenant's ServiceAccount, so that RBAC of
// the control plane says what may be read; it changes nothing there, and keeps no value
// longer than it takes to encrypt it.
package secrets

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/crossplane"
)

// selection is one way in which Secrets belong to a claim.
type selection struct {
	// name is the Secret's; "" where labels choose.
	name   string
	labels labels.Selector
	// owner, if not "", is who must control it.
	owner types.UID
	// keys are those that travel; none for all.
	keys []string
}

func (s selection) takes(m *metav1.PartialObjectMetadata) bool {
	if s.labels != nil {
		return s.labels.Matches(labels.Set(m.Labels))
	}
	return s.name == m.Name
}

// selectionsOf says which Secrets belong to a claim's object.
func selectionsOf(shape crossplane.Shape, claims []v1alpha1.PermissionClaim, object *unstructured.Unstructured) []selection {
	var out []selection
	if name, _, _ := unstructured.NestedString(object.Object, "spec", "writeConnectionSecretToRef", "name"); name != "" && shape == crossplane.Claim {
		out = append(out, selection{name: name, owner: object.GetUID()})
	}
	for _, c := range claims {
		s := selection{keys: c.Keys}
		switch {
		case c.Name != "":
			s.name = ofClaim(c.Name, object)
		case c.Field != "":
			s.name, _, _ = unstructured.NestedString(object.Object, strings.Split(c.Field, ".")...)
		case len(c.MatchLabels) > 0:
			want := maps.Clone(c.MatchLabels)
			for k, v := range want {
				want[k] = ofClaim(v, object)
			}
			s.labels = labels.SelectorFromSet(want)
		}
		if s.name != "" || s.labels != nil {
			out = append(out, s)
		}
	}
	return out
}

func ofClaim(pattern string, object *unstructured.Unstructured) string {
	return strings.ReplaceAll(pattern, "$(name)", object.GetName())
}

// only are the entries of data that travel, with all keys where none are named.
func only(data map[string][]byte, keys []string) map[string][]byte {
	if len(keys) == 0 {
		return data
	}
	out := map[string][]byte{}
	for _, k := range keys {
		if v, ok := data[k]; ok {
			out[k] = v
		}
	}
	return out
}

// merge has each Secret once: where several selections take it, all keys that any of
// them lets through.
func merge(found map[string]taken, m *metav1.PartialObjectMetadata, s selection) {
	t, ok := found[m.Name]
	switch {
	case !ok:
		t = taken{metadata: m, owner: s.owner, keys: s.keys}
	case len(t.keys) == 0 || len(s.keys) == 0:
		t.keys = nil
	default:
		t.keys = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(t.keys), s.keys...))))
	}
	if s.owner == "" {
		t.owner = ""
	}
	found[m.Name] = t
}

// taken is a Secret that travels.
type taken struct {
	metadata *metav1.PartialObjectMetadata
	// owner, if not "", is who must control it.
	owner types.UID
	// keys are those that travel; none for all.
	keys []string
}

// isOwned reports whether the Secret is controlled by whom it must be.
func (t taken) isOwned() bool {
	owner := metav1.GetControllerOf(t.metadata)
	return t.owner == "" || owner != nil && owner.UID == t.owner
}

// version is another one whenever something else is to be encrypted.
func (t taken) version() string {
	return fmt.Sprintf("%s/%s %q", t.metadata.UID, t.metadata.ResourceVersion, t.keys)
}
