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

// Agrees reports whether an object carries a base of its own that says, byte for
// byte, what the object says. Then they are equal under each schema. Where it
// reports false they may be equal still.
func Agrees(o Object) bool {
	value, ok := o.Annotations[v1alpha1.BaseAnnotation]
	if !ok {
		return false
	}
	a := parse(value)
	if a == nil || !a.isOf(o.UID, o.StatusUID) {
		return false
	}
	s, err := decompress(a.Content)
	return err == nil && s.Kind == o.Kind && travelsAs(o.Labels, s.Labels) && travelsAs(o.Annotations, s.Annotations) && bytes.Equal(s.Spec, o.Spec)
}

// travelsAs reports whether what may travel of m is want, whatever list of keys counts.
func travelsAs(m, want map[string]string) bool {
	n := 0
	for key, value := range m {
		if !contract.MayTravel(key) {
			continue
		}
		if w, ok := want[key]; !ok || w != value {
			return false
		}
		n++
	}
	return n == len(want)
}
