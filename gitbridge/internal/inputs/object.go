package inputs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/internal/tenant"
)

// content are the fields of a Secret and of a ConfigMap that are written.
var content = []string{"type", "data", "binaryData"}

// Resources are what is written, and what the tenant must have a right to.
var Resources = []v1alpha1.Resource{v1alpha1.ResourceSecrets, v1alpha1.ResourceConfigMaps}

func (w *Writer) client(namespace, kind string) dynamic.ResourceInterface {
	resource := v1alpha1.ResourceSecrets
	if kind == v1alpha1.ResourceConfigMaps.Kind() {
		resource = v1alpha1.ResourceConfigMaps
	}
	return w.Tenant.Resource(corev1.SchemeGroupVersion.WithResource(string(resource))).Namespace(w.Cluster.ClaimNamespace(namespace))
}

// version is an object as it is sent with one version of a claim.
type version struct {
	encryption.Input
	// keys are those that the offer lets through; none for all.
	keys     []string
	sequence int64
	// present says that the claim has the object already.
	present bool
}

// keysText names the keys that the offer lets through; "" for all.
func (v version) keysText() string {
	return strings.Join(slices.Sorted(slices.Values(v.keys)), ",")
}

// write makes an object be as it was sent. Why says in words that it is not.
func (w *Writer) write(ctx context.Context, key contract.Key, in version) (why string, err error) {
	w.removing.RLock()
	defer w.removing.RUnlock()
	client := w.client(key.Namespace, in.Kind)
	name := in.Object().String()
	w.mu.Lock()
	w.use(key, name)
	w.mu.Unlock()
	live, err := client.Get(ctx, in.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, w.object(key, nil, in), metav1.CreateOptions{FieldManager: tenant.FieldOwner})
		return whyNot(name, err)
	}
	if err != nil {
		return whyNot(name, err)
	}
	if !w.isOurs(live) && live.GetAnnotations()[v1alpha1.AdoptAnnotation] != w.Cluster.ID {
		return fmt.Sprintf("%s exists on the control plane, and is somebody else's. Its operator may delete it, or hand it over: kubectl annotate %s -n %s %s %s=%s",
			name, in.Kind, live.GetNamespace(), live.GetName(), v1alpha1.AdoptAnnotation, w.Cluster.ID), nil
	}
	if live.GetDeletionTimestamp() != nil {
		return "it is being deleted on the control plane, and something keeps it", nil
	}
	want := w.object(key, live, in)
	if isSame(want, live) {
		return "", nil
	}
	if w.isShared(key, name) {
		if other, said := live.GetAnnotations()[v1alpha1.KeysAnnotation]; said && !in.present && other != in.keysText() {
			return "another claim has it, too, with other keys of it: permission claims that take the same object must take the same keys", nil
		}
		if sequenceOf(live) > in.sequence {
			// Another claim brought a newer version. Should this one be right, it comes
			// again with another sequence.
			return "", nil
		}
	}
	immutable, _, _ := unstructured.NestedBool(live.Object, "immutable")
	if immutable && !isSameContent(want, live) || want.Object["type"] != live.Object["type"] {
		// Neither can be changed.
		if err := client.Delete(ctx, in.Name, exactly(live)); err != nil && !apierrors.IsNotFound(err) {
			return whyNot(name, err)
		}
		_, err = client.Create(ctx, w.object(key, nil, in), metav1.CreateOptions{FieldManager: tenant.FieldOwner})
		return whyNot(name, err)
	}
	_, err = client.Update(ctx, want, metav1.UpdateOptions{FieldManager: tenant.FieldOwner})
	return whyNot(name, err)
}

// remove deletes an object that a claim has no more, unless another one has it, or
// somebody else took it over.
func (w *Writer) remove(ctx context.Context, key contract.Key, object string) error {
	w.removing.Lock()
	defer w.removing.Unlock()
	if w.isShared(key, object) {
		w.unuse(key, object)
		return nil
	}
	kind, name := kindAndName(object)
	client := w.client(key.Namespace, kind)
	live, err := client.Get(ctx, name, metav1.GetOptions{})
	if err == nil && w.isOurs(live) {
		err = client.Delete(ctx, name, exactly(live))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", object, bare(err))
	}
	w.unuse(key, object)
	return nil
}

// used are the objects that a claim has, as far as this process knows.
func (w *Writer) used(key contract.Key) (objects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, users := range w.users {
		if users[key.Path()] {
			objects = append(objects, at.object)
		}
	}
	return objects
}

// unuse notes that a claim has an object no more.
func (w *Writer) unuse(key contract.Key, object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := place{key.Namespace, object}
	if delete(w.users[at], key.Path()); len(w.users[at]) == 0 {
		delete(w.users, at)
	}
}

// labelled are the objects that came with a claim first. A bridge that ended may have written
// some, and not have said so. What may be a copy is not among them. ErrMayNotList says that
// there may be more.
func (w *Writer) labelled(ctx context.Context, key contract.Key) (objects []string, unlisted error) {
	only := metav1.ListOptions{LabelSelector: labels.Set{tenant.ClusterLabel: w.Cluster.ID, v1alpha1.InputOfLabel: hashOf(key)}.String()}
	for _, resource := range Resources {
		list, err := w.client(key.Namespace, resource.Kind()).List(ctx, only)
		if isForbidden(err) {
			if err = w.mayNotList(ctx, w.Cluster.ClaimNamespace(key.Namespace)); err == nil || errors.Is(err, ErrMayNotList) {
				unlisted = cmp.Or(err, unlisted)
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("list the inputs of %s: %w", key, bare(err))
		}
		for _, o := range list.Items {
			if isItself(&o) {
				objects = append(objects, contract.InputObject{Kind: resource.Kind(), Name: o.GetName()}.String())
			}
		}
	}
	return objects, unlisted
}

// mayNotList is ErrMayNotList where the tenant may write, and nil where nothing was written as
// the right was never given. The first time it is logged.
func (w *Writer) mayNotList(ctx context.Context, namespace string) error {
	w.mu.Lock()
	until := w.unlisted[namespace]
	w.mu.Unlock()
	if w.Now().Before(until) {
		return ErrMayNotList
	}
	may, err := w.MayWrite(ctx, namespace)
	if err != nil || !may {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unlisted) == 0 {
		w.Log.Error(ErrMayNotList, "Inputs of claims that went may be left over, and are looked for again", "cluster", w.Cluster.ID, "namespace", namespace)
	}
	w.unlisted[namespace] = w.Now().Add(CheckInterval)
	return ErrMayNotList
}

// hashOf names a claim in a label, which has no room for its path.
func hashOf(key contract.Key) string {
	sum := sha256.Sum256([]byte(key.Path()))
	return hex.EncodeToString(sum[:16])
}

func exactly(live *unstructured.Unstructured) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(live.GetUID()), ResourceVersion: new(live.GetResourceVersion())}}
}

// isOurs reports whether the bridge wrote an object for this cluster. One that does not say
// which it is may be of a bridge before it said so: a claim has it by this name, and writes it
// once more.
func (w *Writer) isOurs(live *unstructured.Unstructured) bool {
	// A provider may copy labels of the claim, which are the same, to what it makes.
	_, sent := live.GetAnnotations()[v1alpha1.SequenceAnnotation]
	_, says := live.GetAnnotations()[v1alpha1.ObjectAnnotation]
	labels := live.GetLabels()
	return sent && (!says || isItself(live)) && labels[v1alpha1.ManagedByLabel] == v1alpha1.ManagedByBridge && labels[tenant.ClusterLabel] == w.Cluster.ID
}

// isItself reports whether an object says that it is the one that was written: people copy
// objects with their labels and annotations. A name stays when a backup is restored; a UID
// does not.
func isItself(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[v1alpha1.ObjectAnnotation] == itself(live.GetNamespace(), live.GetName())
}

func itself(namespace, name string) string { return namespace + "/" + name }

// object is one as it should be, over what is there; live may be nil. What others put into
// its metadata stays.
func (w *Writer) object(key contract.Key, live *unstructured.Unstructured, in version) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": in.Kind, "metadata": map[string]any{"name": in.Name}}}
	if live != nil {
		u = live.DeepCopy()
	}
	for _, field := range content {
		delete(u.Object, field)
	}
	data := map[string]any{}
	for k, v := range in.Data {
		data[k] = base64.StdEncoding.EncodeToString(v)
	}
	text := map[string]any{}
	for k, v := range in.Text {
		text[k] = v
	}
	of := "binaryData"
	if in.Kind == v1alpha1.ResourceSecrets.Kind() {
		of = "data"
		u.Object["type"] = string(in.Type)
		if in.Type == "" {
			u.Object["type"] = string(corev1.SecretTypeOpaque)
		}
	} else if len(text) > 0 {
		u.Object["data"] = text
	}
	if len(data) > 0 {
		u.Object[of] = data
	}
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, in.Labels)
	labels[v1alpha1.ManagedByLabel], labels[tenant.ClusterLabel] = v1alpha1.ManagedByBridge, w.Cluster.ID
	if labels[v1alpha1.InputOfLabel] == "" {
		labels[v1alpha1.InputOfLabel] = hashOf(key)
	}
	annotations[v1alpha1.SequenceAnnotation], annotations[v1alpha1.KeysAnnotation] = strconv.FormatInt(in.sequence, 10), in.keysText()
	annotations[v1alpha1.ObjectAnnotation] = itself(w.Cluster.ClaimNamespace(key.Namespace), in.Name)
	delete(annotations, v1alpha1.AdoptAnnotation)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	return u
}

// isSame compares all but the sequence: another one alone is not worth a write.
func isSame(a, b *unstructured.Unstructured) bool {
	of, annotations := a.GetAnnotations(), b.GetAnnotations()
	_, adopting := annotations[v1alpha1.AdoptAnnotation]
	says := of[v1alpha1.KeysAnnotation] == annotations[v1alpha1.KeysAnnotation] && of[v1alpha1.ObjectAnnotation] == annotations[v1alpha1.ObjectAnnotation]
	return isSameContent(a, b) && !adopting && says && reflect.DeepEqual(a.GetLabels(), b.GetLabels())
}

func isSameContent(a, b *unstructured.Unstructured) bool {
	for _, field := range content {
		if !reflect.DeepEqual(a.Object[field], b.Object[field]) {
			return false
		}
	}
	return true
}

func sequenceOf(live *unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(live.GetAnnotations()[v1alpha1.SequenceAnnotation], 10, 64)
	return n
}

// whyNot turns what lasts into words, which repeat nothing of the API server's: that might
// be a value. What passes, and what the tenant may not do, stays an error.
func whyNot(name string, err error) (why string, _ error) {
	switch code := codeOf(err); {
	case err == nil:
		return "", nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "its namespace on the control plane is being deleted", nil
	case code == http.StatusBadRequest, code == http.StatusUnprocessableEntity, code == http.StatusRequestEntityTooLarge:
		return fmt.Sprintf("the control plane's API server refuses it (%d %s)", code, apierrors.ReasonForError(err)), nil
	}
	return "", fmt.Errorf("write %s: %w", name, bare(err))
}

func isForbidden(err error) bool { return codeOf(err) == http.StatusForbidden }

// codeOf is an API server's, 0 of any other error.
func codeOf(err error) int32 {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0
	}
	return status.Status().Code
}

// bare is an error without the API server's words.
func bare(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: s.Code, Reason: s.Reason, Message: fmt.Sprintf("the API server answers %d %s", s.Code, s.Reason)}}
}
