package claimcache

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/internal/drift"
	"gitbind.dev/gitbridge/internal/tenant"
)

// cachedObject is what the cache keeps of an object. It is never changed.
type cachedObject struct {
	metav1.TypeMeta
	// ObjectMeta has its identity only.
	metav1.ObjectMeta
	// labels and annotations are those of the bridge.
	labels, annotations []pair
	// drift is what drift.Found says.
	drift string
	// connection is spec.writeConnectionSecretToRef.name of a Crossplane claim.
	connection string
	// status is JSON, nil for none.
	status []byte
}

// pair is a label or an annotation: a map takes three times as much for a few.
type pair struct{ key, value string }

// decode takes from an object in JSON what the cache keeps: nothing of one of another
// shard. Whose it is say its label, as the bridge wrote it, and its namespace, as anybody
// may have changed the label since.
func (o *Objects) decode(data []byte) (client.Object, error) {
	c, err := decodeObject(data, func(namespace, cluster string) bool { return isKept(o.members, namespace, cluster) })
	if c == nil || err != nil {
		return nil, err
	}
	return c, nil
}

func isKept(m Members, namespace, cluster string) bool {
	return m.HasNamespace(namespace) || m.Has(cluster)
}

// decodeObject is nil for an object that is not to be kept.
func decodeObject(data []byte, keep func(namespace, cluster string) bool) (*cachedObject, error) {
	var in struct {
		metav1.TypeMeta
		Metadata struct {
			metav1.ObjectMeta
			ManagedFields []drift.Entry `json:"managedFields"`
		} `json:"metadata"`
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := utiljson.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	m := &in.Metadata
	if m.UID != "" && !keep(m.Namespace, m.Labels[tenant.ClusterLabel]) {
		return nil, nil
	}
	c := &cachedObject{status: in.Status, labels: ofBridge(m.Labels, m.Name), annotations: ofBridge(m.Annotations, m.Name)}
	c.APIVersion, c.Kind = shared(in.APIVersion), shared(in.Kind)
	c.Namespace, c.Name, c.UID, c.ResourceVersion = shared(m.Namespace), m.Name, m.UID, m.ResourceVersion
	c.Generation, c.DeletionTimestamp = m.Generation, m.DeletionTimestamp
	if c.UID == "" {
		c.Annotations = m.Annotations
		return c, nil
	}
	c.connection = connectionOf(in.Spec)
	c.drift = drift.FoundIn(m.ManagedFields, m.Annotations)
	return c, nil
}

// connectionOf is the name of the connection Secret in a spec; "" in one that has
// something else there, as kinds that are not Crossplane's may.
func connectionOf(spec []byte) string {
	if !bytes.Contains(spec, []byte(`"writeConnectionSecretToRef"`)) {
		return ""
	}
	var in struct {
		Connection struct {
			Name string `json:"name"`
		} `json:"writeConnectionSecretToRef"`
	}
	if utiljson.Unmarshal(spec, &in) != nil {
		return ""
	}
	return in.Connection.Name
}

// ofBridge are those labels or annotations of an object that the bridge or its
// operators write.
func ofBridge(m map[string]string, name string) []pair {
	n := 0
	for key := range m {
		if strings.HasPrefix(key, "gitbind.dev/") {
			n++
		}
	}
	out := make([]pair, 0, n)
	for key, value := range m {
		if !strings.HasPrefix(key, "gitbind.dev/") {
			continue
		}
		switch {
		case key == tenant.AppliedAnnotation:
		case value == name:
			value = name
		default:
			value = shared(value)
		}
		out = append(out, pair{shared(key), value})
	}
	return out
}

// shared is a text that many objects have in common.
func shared(s string) string { return unique.Make(s).Value() }

// DeepCopyObject is the object itself, as nobody changes it.
func (c *cachedObject) DeepCopyObject() runtime.Object { return c }

// GetLabels are those that are kept.
func (c *cachedObject) GetLabels() map[string]string { return mapOf(c.labels) }

// cluster is what the label says of whose claim it is.
func (c *cachedObject) cluster() string { return valueOf(c.labels, tenant.ClusterLabel) }

// commit is the commit of main that it says it was applied from.
func (c *cachedObject) commit() string { return valueOf(c.annotations, tenant.CommitAnnotation) }

func valueOf(pairs []pair, key string) string {
	for _, p := range pairs {
		if p.key == key {
			return p.value
		}
	}
	return ""
}

func mapOf(pairs []pair) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.key] = p.value
	}
	return m
}

// object is what is kept, as others read objects.
func (c *cachedObject) object() (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": map[string]any{
		"name": c.Name, "namespace": c.Namespace, "uid": string(c.UID), "resourceVersion": c.ResourceVersion, "generation": c.Generation,
	}}}
	u.SetLabels(mapOf(c.labels))
	u.SetAnnotations(mapOf(c.annotations))
	u.SetDeletionTimestamp(c.DeletionTimestamp)
	drift.SetFound(u, c.drift)
	if c.connection != "" {
		u.Object["spec"] = map[string]any{"writeConnectionSecretToRef": map[string]any{"name": c.connection}}
	}
	if c.status != nil {
		var status any
		if err := utiljson.Unmarshal(c.status, &status); err != nil {
			return nil, fmt.Errorf("read status of %s/%s: %w", c.Namespace, c.Name, err)
		}
		u.Object["status"] = status
	}
	return u, nil
}
