package base

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Object is an object as far as a base can say the same.
type Object struct {
	Kind string
	UID  types.UID
	// StatusUID is status.gitbind.uid.
	StatusUID           types.UID
	Labels, Annotations map[string]string
	// Spec is as the API server writes it, in JSON with sorted keys.
	Spec []byte
}

// Unlisted are labels and annotations of an object that its base does not have: keys with
// a prefix, which travel only where a template lists them.
type Unlisted struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Agrees reports whether an object carries a base of its own that says, byte for
// byte, what the object says beside what is unlisted. Then they are equal under each
// schema whose keys do not list any of that, and the base is given as a cache keeps it.
// Where it reports false they may be equal still.
func Agrees(o Object) (c Compact, beside Unlisted, agrees bool) {
	value, ok := o.Annotations[v1alpha1.BaseAnnotation]
	if !ok {
		return c, beside, false
	}
	a := parse(value)
	if a == nil || !a.isOf(o.UID, o.StatusUID) {
		return c, beside, false
	}
	s, err := decompress(a.Content)
	if err != nil || s.Kind != o.Kind || !bytes.Equal(s.Spec, o.Spec) {
		return c, beside, false
	}
	labels, sameLabels := unlisted(o.Labels, s.Labels)
	annotations, sameAnnotations := unlisted(o.Annotations, s.Annotations)
	if !sameLabels || !sameAnnotations {
		return c, beside, false
	}
	return newCompact(a, value, o.UID), Unlisted{labels, annotations}, true
}

// unlisted is what may travel of m, does so only by a list, and is not in said. Same
// reports whether all else that may travel of m is said.
func unlisted(m, said map[string]string) (beside map[string]string, same bool) {
	found := 0
	for key, value := range m {
		want, ok := said[key]
		switch {
		case !contract.MayTravel(key):
		case ok && want == value:
			found++
		case ok, contract.Keys(nil).Travels(key):
			return nil, false
		case beside == nil:
			beside = map[string]string{key: value}
		default:
			beside[key] = value
		}
	}
	return beside, found == len(said)
}
