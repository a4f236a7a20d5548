// Package packed keeps objects small while they lie in a cache: their identity in
// clear, and all else as compressed JSON. As maps of maps, an object takes about
// ten times its size.
//
// It changes nothing of an object; what is not packed is its own whole.
package packed

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// field holds all of a packed object.
const field = "packed"

// clear are the fields of metadata that stay as they are.
var clear = []string{"name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp", "finalizers"}

// roomy is the heap in bytes up to which the time for packing is better saved.
const roomy = 96 << 20

// live is the heap as the last garbage collection left it, in bytes, and when that
// was asked, in nanoseconds.
var live, asked atomic.Int64

// Needed reports whether the process has become large enough for packing to be
// worth its time.
func Needed() bool {
	const often = int64(50 * time.Millisecond)
	if now, last := time.Now().UnixNano(), asked.Load(); now-last > often && asked.CompareAndSwap(last, now) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(heap)
		if heap[0].Value.Kind() == metrics.KindUint64 {
			live.Store(int64(heap[0].Value.Uint64()))
		}
	}
	return live.Load() > roomy
}

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
		field: string(compress(plain)),
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
	plain, err := decompress(data)
	if err != nil {
		return nil, fmt.Errorf("unpack %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(plain)
}

// words are what most objects have in common, the most frequent last.
var words = []byte(`"readyReplicas":,"clusterStatus":"Running","managed":{"acceptsIncomplete":true,"parameters":{"maxConnections":,"expose":"Internal","plan":"postgresql-single-small","service":"a9s-postgresql13"` +
	`"deletionTimestamp":"app.kubernetes.io/part-of":"app.kubernetes.io/component":"ownerReferences":[{"crossplane.io/external-name":"connectionDetails":{"lastPublishedTime":"lastTransitionTime":"2026-` +
	`"type":"Synced","reason":"ReconcileSuccess","type":"Ready","reason":"Available","reason":"None","reason":"NotReported"` +
	`{"message":"","observedGeneration":1,"reason":"Committed","status":"True","type":"Committed"},{"message":"","observedGeneration":1,"reason":"Applied","status":"True","type":"Applied"},{"message":"","observedGeneration":1,"reason":"None","status":"False","type":"Held"}` +
	`"gitbind":{"commit":"conditions":[{"message":"","observedGeneration":"uid":"{"uid":"","connection":"","commit":"","blob":"","generation":1,"content":"H4sIAAAAAAAA/` +
	`{"apiVersion":"anynines.com/v1","kind":"PostgresqlInstance","metadata":{"annotations":{"gitbind.dev/base":"{\"uid\":\"\",\"connection\":\"\",\"commit\":\"\",\"blob\":\"\",\"generation\":1,\"content\":\"H4sIAAAAAAAA/","gitbind.dev/changed-by":"},"creationTimestamp":"2026-","finalizers":["gitbind.dev/claim"],"generation":1,"labels":{"name":"","namespace":"","resourceVersion":"","uid":""},"spec":{"status":{"conditions":[{"`)

// Each writer has half a MiB of tables.
var (
	writers = sync.Pool{New: func() any {
		w, err := flate.NewWriterDict(io.Discard, flate.BestSpeed, words)
		if err != nil {
			panic(err) // only for a level that there is not
		}
		return w
	}}
	readers = sync.Pool{New: func() any { return flate.NewReaderDict(bytes.NewReader(nil), words) }}
)

func compress(plain []byte) []byte {
	var b bytes.Buffer
	w := writers.Get().(*flate.Writer)
	defer writers.Put(w)
	w.Reset(&b)
	// A buffer takes everything.
	_, _ = w.Write(plain)
	_ = w.Close()
	return b.Bytes()
}

func decompress(data string) ([]byte, error) {
	r := readers.Get().(io.ReadCloser)
	defer readers.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader([]byte(data)), words); err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
