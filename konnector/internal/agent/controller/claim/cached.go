package claim

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/base"
)

// cachedClaim is what the cache keeps of an object. One that says what its base says,
// and has nothing to be decided in its status, is reduced to identity, base, a digest of
// its status, and the labels and annotations that no template listed when the base was
// made: all else is the base's. Any other one is kept whole until it is such a one
// again, in JSON: thousands that are worked on, or wait, cost no reads at the API server.
// Of one that is too large for either little is kept, and each look at it reads the API
// server: who may write claims must not fill the memory with them.
//
// It is never changed.
type cachedClaim struct {
	metav1.TypeMeta
	// ObjectMeta has no labels and annotations where the claim is reduced.
	metav1.ObjectMeta
	// reduced is not set where the claim is abridged: see abridge.
	reduced, abridged bool
	// size is how many bytes the object has as JSON.
	size int32
	// base is the annotation of that name where the claim is reduced.
	base base.Compact
	// unlisted is a base.Unlisted as JSON where the claim is reduced, "" for none. Many
	// claims have the same.
	unlisted unique.Handle[string]
	// secrets are the names in status.gitbind.secrets, and secretsSequence is the field
	// of that name, where the claim is reduced.
	secrets         []string
	secretsSequence int64
	// statusDigest is of the status as JSON.
	statusDigest digest
	// spec and status are JSON; nil where the claim is reduced. Where it is abridged there
	// is no spec, and the status is a said.
	spec, status []byte
}

const (
	// maxKept is about how many bytes the cache keeps of a claim, beside its base where it
	// is reduced. Ordinary claims have a few KiB.
	maxKept = 32 << 10
	// entryBytes is what a label, an annotation, an owner or a finalizer takes at most,
	// beside its text.
	entryBytes = 256
)

// digest tells one JSON text from another.
type digest [sha256.Size]byte

// decodeClaim takes from an object in JSON what the cache keeps.
func decodeClaim(data []byte) (client.Object, error) {
	var in struct {
		metav1.TypeMeta
		Metadata struct {
			metav1.ObjectMeta
			ManagedFields skipped `json:"managedFields"`
		} `json:"metadata"`
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := utiljson.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	c := &cachedClaim{ObjectMeta: in.Metadata.ObjectMeta, size: int32(len(data)), statusDigest: sha256.Sum256(in.Status)}
	c.APIVersion, c.Kind, c.Namespace = shared(in.APIVersion), shared(in.Kind), shared(c.Namespace)
	said := saidIn(in.Status)
	if said != nil && isDone(&c.ObjectMeta, said) {
		compact, beside, agrees := base.Agrees(base.Object{
			Kind: in.Kind, UID: c.UID, StatusUID: said.Gitbind.UID,
			Labels: c.Labels, Annotations: c.Annotations, Spec: in.Spec,
		})
		if agrees {
			return c.reduce(said, compact, beside)
		}
	}
	entries := len(c.Labels) + len(c.Annotations) + len(c.OwnerReferences) + len(c.Finalizers)
	if len(data)-int(in.Metadata.ManagedFields)+entryBytes*entries > maxKept {
		return c.abridge(said)
	}
	c.spec, c.status = in.Spec, in.Status
	return c, nil
}

// abridge keeps what tells the claim from others, and what the judging of removals and the
// order of a start go by. A look at it is incomplete.
func (c *cachedClaim) abridge(said *said) (*cachedClaim, error) {
	m := c.ObjectMeta
	c.abridged = true
	c.ObjectMeta = metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Annotations: map[string]string{},
	}
	if slices.Contains(m.Finalizers, v1alpha1.Finalizer) {
		c.Finalizers = onlyFinalizer
	}
	if b := base.Abridge(m.Annotations[v1alpha1.BaseAnnotation]); b != "" {
		c.Annotations[v1alpha1.BaseAnnotation] = b
	}
	if m.Annotations[v1alpha1.ChangedByAnnotation] != "" {
		c.Annotations[v1alpha1.ChangedByAnnotation] = "somebody"
	}
	if said == nil {
		return c, nil
	}
	said.Gitbind.Secrets = nil
	var err error
	if c.status, err = json.Marshal(said); err != nil {
		return nil, fmt.Errorf("keep status: %w", err)
	}
	return c, nil
}

// reduce drops what the base says, and the status.
func (c *cachedClaim) reduce(said *said, compact base.Compact, beside base.Unlisted) (*cachedClaim, error) {
	var text []byte
	if len(beside.Labels)+len(beside.Annotations) > 0 {
		var err error
		if text, err = json.Marshal(beside); err != nil {
			return nil, fmt.Errorf("keep labels and annotations: %w", err)
		}
	}
	if len(text)+entryBytes*len(c.Finalizers) > maxKept {
		return c.abridge(said)
	}
	c.reduced, c.base, c.unlisted = true, compact, unique.Make(string(text))
	c.secretsSequence = said.Gitbind.SecretsSequence
	for _, s := range said.Gitbind.Secrets {
		c.secrets = append(c.secrets, shared(s.Name))
	}
	c.Labels, c.Annotations, c.OwnerReferences = nil, nil, nil
	if slices.Equal(c.Finalizers, onlyFinalizer) {
		c.Finalizers = onlyFinalizer
	}
	return c, nil
}

// skipped is how many bytes a value has that is not read.
type skipped int

// UnmarshalJSON counts the bytes.
func (s *skipped) UnmarshalJSON(data []byte) error {
	*s = skipped(len(data))
	return nil
}

// shared is a text that many objects have in common.
func shared(s string) string { return unique.Make(s).Value() }

var onlyFinalizer = []string{v1alpha1.Finalizer}

// said is what an object's status says of what is to be done with it.
type said struct {
	Gitbind struct {
		UID        types.UID       `json:"uid,omitempty"`
		Conditions []saidCondition `json:"conditions"`
		Secrets    []saidSecret    `json:"secrets,omitempty"`
		Taken      string          `json:"taken,omitempty"`
		Hold       *saidHold       `json:"hold,omitempty"`

		SecretsSequence int64 `json:"secretsSequence,omitempty"`
	} `json:"gitbind"`
}

type (
	saidCondition struct {
		Type   string `json:"type"`
		Status string `json:"status"`
		Reason string `json:"reason"`
	}
	saidSecret struct {
		Name string `json:"name"`
	}
	saidHold struct {
		Reason string `json:"reason"`
	}
)

// saidIn is nil where a status says nothing.
func saidIn(status []byte) *said {
	s := &said{}
	if err := json.Unmarshal(status, s); err != nil || len(s.Gitbind.Conditions) == 0 {
		return nil
	}
	return s
}

// isDone reports whether nobody has anything to do with an object, as far as its
// metadata and its status say.
func isDone(m *metav1.ObjectMeta, said *said) bool {
	if m.DeletionTimestamp != nil || !slices.Contains(m.Finalizers, v1alpha1.Finalizer) || said.Gitbind.Taken != "" {
		return false
	}
	for _, open := range []string{v1alpha1.ChangedByAnnotation, v1alpha1.ResolveAnnotation, v1alpha1.PauseAnnotation, v1alpha1.ProposalAnnotation} {
		if m.Annotations[open] != "" {
			return false
		}
	}
	for _, c := range said.Gitbind.Conditions {
		if isBad(c.Type, c.Status) {
			return false
		}
	}
	return true
}

// isBad reports whether a condition of ours tells a person of something.
func isBad(kind, status string) bool {
	switch kind {
	case conditionHeld, conditionConflict:
		return status == "True"
	case conditionCommitted, conditionApplied, conditionSecrets, conditionInputs:
		return status == "False"
	}
	return false
}

// DeepCopyObject is the claim itself, as nobody changes it.
func (c *cachedClaim) DeepCopyObject() runtime.Object { return c }

// GetAnnotations are those that are kept.
func (c *cachedClaim) GetAnnotations() map[string]string {
	if c.reduced {
		return map[string]string{v1alpha1.BaseAnnotation: c.base.Annotation(c.UID)}
	}
	return c.Annotations
}

// lacks reports whether a reduced object says more than its base: of what was unlisted,
// some travels by a list that was changed since. Who wrote it is not known here.
func (c *cachedClaim) lacks(keys contract.Keys) (bool, error) {
	text := c.unlisted.Value()
	if text == "" {
		return false, nil
	}
	var beside base.Unlisted
	if err := json.Unmarshal([]byte(text), &beside); err != nil {
		return false, fmt.Errorf("read labels and annotations of %s/%s: %w", c.Namespace, c.Name, err)
	}
	travels := keys.Of(&contract.Claim{Labels: beside.Labels, Annotations: beside.Annotations})
	return len(travels.Labels)+len(travels.Annotations) > 0, nil
}

// object is the claim as far as it is kept. Where it is reduced it has no spec,
// labels and annotations but its base, and of the status its UID: the base needs it.
func (c *cachedClaim) object() (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.APIVersion, "kind": c.Kind, "metadata": map[string]any{
		"name": c.Name, "namespace": c.Namespace, "uid": string(c.UID), "resourceVersion": c.ResourceVersion, "generation": c.Generation,
		"creationTimestamp": c.CreationTimestamp.UTC().Format(time.RFC3339),
	}}}
	u.SetFinalizers(c.Finalizers)
	u.SetDeletionTimestamp(c.DeletionTimestamp)
	u.SetAnnotations(c.GetAnnotations())
	if c.reduced {
		return u, unstructured.SetNestedField(u.Object, string(c.UID), "status", "gitbind", "uid")
	}
	u.SetLabels(c.Labels)
	u.SetOwnerReferences(c.OwnerReferences)
	for field, data := range map[string][]byte{"spec": c.spec, "status": c.status} {
		if data == nil {
			continue
		}
		var value any
		if err := utiljson.Unmarshal(data, &value); err != nil {
			return nil, fmt.Errorf("read %s of %s/%s: %w", field, c.Namespace, c.Name, err)
		}
		u.Object[field] = value
	}
	return u, nil
}

// cachedClaims are those of an API.
type cachedClaims struct {
	store toolscache.Store
	// synced is closed when all are known, stopped when nobody watches any more.
	synced, stopped <-chan struct{}
}

// get is nil where there is none.
func (s cachedClaims) get(key contract.Key) (*cachedClaim, error) {
	o, ok, err := s.store.GetByKey(key.Namespace + "/" + key.Name)
	if err != nil || !ok {
		return nil, err
	}
	c, ok := o.(*cachedClaim)
	if !ok {
		return nil, fmt.Errorf("the cache has a %T for %s", o, key)
	}
	return c, nil
}

// in are those of a namespace that are known, or all of them where it is "".
func (s cachedClaims) in(binding, namespace string) (out []contract.Key) {
	for _, o := range s.store.List() {
		if c, ok := o.(*cachedClaim); ok && (namespace == "" || c.Namespace == namespace) {
			out = append(out, contract.Key{Binding: binding, Namespace: c.Namespace, Name: c.Name})
		}
	}
	return out
}

// list waits until all are known. Once nobody watches it is an error: some may have
// come or gone since.
func (s cachedClaims) list(ctx context.Context) ([]*cachedClaim, error) {
	select {
	case <-s.synced:
	case <-s.stopped:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	objects := s.store.List()
	select {
	case <-s.stopped:
		return nil, errStopped
	default:
	}
	all := make([]*cachedClaim, 0, len(objects))
	for _, o := range objects {
		if c, ok := o.(*cachedClaim); ok {
			all = append(all, c)
		}
	}
	return all, nil
}
