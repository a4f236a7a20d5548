// Package packed keeps objects small while they lie in a cache: their identity in
// clear, and all else as compressed JSON. As maps of maps, an object takes about
// ten times its size.
//
// It changes nothing of an object; what is not packed is its own whole.
package packed

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/packed/deflate"
)

// field holds all of a packed object.
const field = "packed"

// clear are the fields of metadata that stay as they are.
var clear = []string{"name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp", "finalizers"}

// Needed reports whether the process has become large enough for packing to be
// worth its time.
func Needed() bool { return deflate.Needed() }

// Pack packs an object. More names fields of metadata that are to stay in clear.
func Pack(u *unstructured.Unstructured, more ...string) error {
	if Is(u) {
		return nil
	}
	plain, err := json.Marshal(u.Object)
	if err != nil {
		return fmt.Errorf("pack %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	kept := make(map[string]any, len(clear)+len(more))
	for name, value := range metadata {
		if slices.Contains(clear, name) || slices.Contains(more, name) {
			kept[name] = value
		}
	}
	u.Object = map[string]any{
		"apiVersion": u.Object["apiVersion"], "kind": u.Object["kind"], "metadata": kept,
		field: string(words.Pack(plain)),
	}
	return nil
}

// Is reports whether an object is packed.
func Is(u *unstructured.Unstructured) bool {
	_, ok := u.Object[field]
	return ok
}

// Whole is the object that was packed. It shares nothing with the packed one.
func Whole(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, ok := u.Object[field].(string)
	if !ok {
		return u, nil
	}
	plain, err := words.Whole([]byte(data))
	if err != nil {
		return nil, fmt.Errorf("unpack %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(plain)
}

// words are what most objects have in common, the most frequent last.
var words = deflate.New(`"readyReplicas":,"clusterStatus":"Running","managed":{"acceptsIncomplete":true,"parameters":{"maxConnections":,"expose":"Internal","plan":"postgresql-single-small","service":"a9s-postgresql13"` +
	`"deletionTimestamp":"app.kubernetes.io/part-of":"app.kubernetes.io/component":"ownerReferences":[{"crossplane.io/external-name":"connectionDetails":{"lastPublishedTime":"lastTransitionTime":"2026-` +
	`"type":"Synced","reason":"ReconcileSuccess","type":"Ready","reason":"Available","reason":"None","reason":"NotReported"` +
	`{"message":"","observedGeneration":1,"reason":"Committed","status":"True","type":"Committed"},{"message":"","observedGeneration":1,"reason":"Applied","status":"True","type":"Applied"},{"message":"","observedGeneration":1,"reason":"None","status":"False","type":"Held"}` +
	`"gitbind":{"commit":"conditions":[{"message":"","observedGeneration":"uid":"{"uid":"","connection":"","commit":"","blob":"","generation":1,"content":"H4sIAAAAAAAA/` +
	`{"apiVersion":"anynines.com/v1","kind":"PostgresqlInstance","metadata":{"annotations":{"gitbind.dev/base":"{\"uid\":\"\",\"connection\":\"\",\"commit\":\"\",\"blob\":\"\",\"generation\":1,\"content\":\"H4sIAAAAAAAA/","gitbind.dev/changed-by":"},"creationTimestamp":"2026-","finalizers":["gitbind.dev/claim"],"generation":1,"labels":{"name":"","namespace":"","resourceVersion":"","uid":""},"spec":{"status":{"conditions":[{"`)
