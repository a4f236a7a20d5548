// Package base keeps, on a claim in the app cluster, the version that cluster
// and Git last agreed on. It reads and writes the annotation, and takes no
// decision from it: what cannot be read, or belongs to another object, is no
// base.
package base

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/flipflop"
)

// Base is the version of a claim that cluster and Git last agreed on.
type Base struct {
	// UID is that of the object in the app cluster. It is empty on an object
	// that was created together with its base: see Read.
	UID types.UID
	// Connection is the UID of the Connection under which they agreed.
	Connection types.UID
	// Commit is a commit of main that holds this version.
	Commit string
	// Blob is the Git hash of the file that said it.
	Blob string
	// Generation is that of the object that said it.
	Generation int64
	// Committed says that a commit of main, under this Connection, names the object: the
	// control plane gets to know its UID.
	Committed bool
	// Removed says that the file is gone since, and that this is settled: the
	// object is to go too, whatever comes to lie at the path.
	Removed bool
	// Lost is the conflict that the object's version lost before, until somebody
	// has looked at it, or edits the object.
	Lost *decision.Lost
	// Writes are the last writes on either side.
	Writes []flipflop.Write
	// LeftOut are the fields of Claim that the file did not have: see LeftOut.
	LeftOut []string
	// Stray are the labels and annotations, by key, that the file had and that did not
	// travel then: a list of keys that grows makes them a part of the file.
	Stray []string
	// Claim is the version, normalized.
	Claim *contract.Claim
}

// maxContent is the most that a base may unpack to, in bytes: twice what etcd
// takes, so that a forged one cannot fill the memory.
const maxContent = 3 << 20

// maxAnnotation is the longest base, in bytes. All annotations of an object
// together may have validation.TotalAnnotationSizeLimitB.
const maxAnnotation = 192 << 10

// ErrTooLarge says that a claim is too large for its base to fit beside it.
var ErrTooLarge = errors.New("too large to be kept in step with Git")

type annotation struct {
	UID        types.UID `json:"uid"`
	Connection types.UID `json:"connection,omitempty"`
	Commit     string    `json:"commit,omitempty"`
	Blob       string    `json:"blob,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Committed  bool      `json:"committed,omitempty"`
	Removed    bool      `json:"removed,omitempty"`

	Lost   *decision.Lost   `json:"lost,omitempty"`
	Writes []flipflop.Write `json:"turns,omitempty"`

	LeftOut []string `json:"leftOut,omitempty"`
	Stray   []string `json:"stray,omitempty"`

	// Content is gzip, then base64, of content as JSON with sorted keys.
	Content string `json:"content"`
}

type content struct {
	APIVersion  string            `json:"apiVersion"`
	Kind        string            `json:"kind"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        map[string]any    `json:"spec"`
}

// Fits says whether Encode will work, and an object with these annotations will have room for
// what it gives, at a hundredth of its cost where that surely is so.
func (b *Base) Fits(annotations map[string]string) error {
	// What is known once a version is pushed comes to it: the commit, the file's hash, and the
	// note of a proposal.
	const later = 1 << 10
	room := validation.TotalAnnotationSizeLimitB - later - len(v1alpha1.BaseAnnotation)
	for k, v := range annotations {
		if k != v1alpha1.BaseAnnotation {
			room -= len(k) + len(v)
		}
	}
	room = min(max(room, 0), maxAnnotation)
	plain, err := json.Marshal(b.content())
	if err != nil {
		return fmt.Errorf("encode base: %w", err)
	}
	// What cannot be compressed grows by less than this, with all that is beside it.
	const rest = 8 << 10
	if base64.StdEncoding.EncodedLen(len(plain))+rest <= room {
		return nil
	}
	value, err := b.Encode()
	if err == nil && len(value) > room {
		err = fmt.Errorf("%w: packed it has %d bytes, the most beside the object's other annotations is %d", ErrTooLarge, len(value), room)
	}
	return err
}

func (b *Base) content() content {
	return content{
		APIVersion: b.Claim.APIVersion, Kind: b.Claim.Kind,
		Labels: b.Claim.Labels, Annotations: b.Claim.Annotations, Spec: b.Claim.Spec,
	}
}

// Encode gives the annotation's value. Equal bases give equal ones.
func (b *Base) Encode() (string, error) {
	packed, err := pack(b.content())
	if err != nil {
		return "", fmt.Errorf("encode base: %w", err)
	}
	out, err := json.Marshal(annotation{
		UID: b.UID, Connection: b.Connection, Commit: b.Commit, Blob: b.Blob, Generation: b.Generation, Committed: b.Committed, Removed: b.Removed,
		Lost: b.Lost, Writes: b.Writes, LeftOut: b.LeftOut, Stray: b.Stray, Content: packed,
	})
	if err != nil {
		return "", fmt.Errorf("encode base: %w", err)
	}
	if len(out) > maxAnnotation {
		return "", fmt.Errorf("%w: packed it has %d bytes, the most is %d", ErrTooLarge, len(out), maxAnnotation)
	}
	return string(out), nil
}

// maxAbridged is the longest annotation that Abridge gives, in bytes: ours have some hundred.
const maxAbridged = 2 << 10

// Abridge is an annotation that says of the version only which kind it is of, and else what
// was agreed on when; "" where there is none that can be read. It is for caches: it must never be written.
func Abridge(value string) string {
	a := parse(value)
	if a == nil {
		return ""
	}
	c, err := decompress(a.Content)
	if err != nil {
		return ""
	}
	packed, err := pack(content{APIVersion: c.APIVersion, Kind: c.Kind})
	if err != nil {
		return ""
	}
	out, err := json.Marshal(annotation{
		UID: a.UID, Connection: a.Connection, Commit: a.Commit, Blob: a.Blob, Generation: a.Generation, Committed: a.Committed, Removed: a.Removed,
		Content: packed,
	})
	if err != nil || len(out) > maxAbridged {
		return ""
	}
	return string(out)
}

// Read takes the base from an object; nil when it has none of its own.
//
// Nobody knows an object's UID before it exists, so an object that is created
// from a file carries a base without one. Such a base counts only while the
// object's status names the object's own UID: the status is written after the
// creation, and is not taken over when somebody saves the object and creates it
// again from what was saved. Until then see ReadCreated.
func Read(u *unstructured.Unstructured) *Base {
	a := read(u)
	if a == nil || !a.isOf(u.GetUID(), statusUID(u)) {
		return nil
	}
	return a.base(u)
}

// isOf reports whether a base counts for an object, whose status names statusUID.
func (a *annotation) isOf(uid, statusUID types.UID) bool {
	owner := a.UID
	if owner == "" {
		owner = statusUID
	}
	return owner != "" && owner == uid
}

// IsUnnamed reports whether an object has a base without a UID and no status that
// names one: it was created by somebody who did not come to write that status.
func IsUnnamed(u *unstructured.Unstructured) bool {
	a := read(u)
	return a != nil && a.UID == "" && statusUID(u) == ""
}

// ReadCreated reads the base of an object that IsUnnamed, if this manager wrote
// it: in an object that somebody created from what was saved, it is that
// somebody's. It needs the object with its managed fields.
func ReadCreated(u *unstructured.Unstructured, manager string) *Base {
	if !IsUnnamed(u) || u.GetUID() == "" || writer(u) != manager {
		return nil
	}
	return read(u).base(u)
}

// writer is the manager of the base's annotation.
func writer(u *unstructured.Unstructured) string {
	for _, entry := range u.GetManagedFields() {
		var fields struct {
			Metadata struct {
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Annotations["f:"+v1alpha1.BaseAnnotation]; ok {
			return entry.Manager
		}
	}
	return ""
}

// read gives the annotation; nil when there is none that can be read.
func read(u *unstructured.Unstructured) *annotation {
	value, ok := u.GetAnnotations()[v1alpha1.BaseAnnotation]
	if !ok {
		return nil
	}
	return parse(value)
}

func parse(value string) *annotation {
	var a annotation
	if err := json.Unmarshal([]byte(value), &a); err != nil {
		return nil
	}
	return &a
}

// base is the annotation as the base of an object; nil when its content cannot
// be read.
func (a *annotation) base(u *unstructured.Unstructured) *Base {
	c, err := unpack(a.Content)
	if err != nil {
		return nil
	}
	return &Base{
		UID: u.GetUID(), Connection: a.Connection, Commit: a.Commit, Blob: a.Blob, Generation: a.Generation, Committed: a.Committed, Removed: a.Removed,
		Lost: a.Lost, Writes: a.Writes, LeftOut: a.LeftOut, Stray: a.Stray,
		Claim: &contract.Claim{
			APIVersion: c.APIVersion, Kind: c.Kind, Namespace: u.GetNamespace(), Name: u.GetName(),
			Labels: c.Labels, Annotations: c.Annotations, Spec: c.Spec,
		},
	}
}

// AgreedAt is the commit of main at which an object and its file last agreed, as the
// object's status says; "" for none. A replace takes the annotations away, and leaves the
// status; an object that is created again gets none.
func AgreedAt(u *unstructured.Unstructured) string {
	if uid := statusUID(u); uid == "" || uid != u.GetUID() {
		return ""
	}
	commit, _, _ := unstructured.NestedString(u.Object, "status", "gitbind", "commit")
	return commit
}

func statusUID(u *unstructured.Unstructured) types.UID {
	uid, _, _ := unstructured.NestedString(u.Object, "status", "gitbind", "uid")
	return types.UID(uid)
}

// Each writer has 800 KiB of tables, each reader 40.
var (
	writers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}
	readers = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

func pack(c content) (string, error) {
	plain, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	w := writers.Get().(*gzip.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	if _, err := w.Write(plain); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// stored is content whose spec is not read yet.
type stored struct {
	content
	// Spec is read with Kubernetes' own decoder: whole numbers are int64 there.
	Spec json.RawMessage `json:"spec"`
}

func unpack(packed string) (content, error) {
	s, err := decompress(packed)
	if err == nil && len(s.Spec) > 0 {
		err = utiljson.Unmarshal(s.Spec, &s.content.Spec)
	}
	return s.content, err
}

func decompress(packed string) (stored, error) {
	var s stored
	data, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return s, err
	}
	r := readers.Get().(*gzip.Reader)
	defer readers.Put(r)
	if err := r.Reset(bytes.NewReader(data)); err != nil {
		return s, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil {
		return s, err
	}
	if len(plain) > maxContent {
		return s, ErrTooLarge
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		return s, err
	}
	if s.Kind == "" || s.APIVersion == "" {
		return s, errors.New("no claim")
	}
	return s, nil
}
