package informers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/informers/informerstest"
)

// seen is an event as it is passed on.
type seen struct {
	Kind   watch.EventType
	Object runtime.Object
}

// read takes a stream apart as a client with that serializer does.
func read(t *testing.T, s runtime.NegotiatedSerializer, stream string) (all []seen, err error) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON")
	}
	frames := info.StreamSerializer.NewFrameReader(io.NopCloser(strings.NewReader(stream)))
	d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), s.DecoderToVersion(info.Serializer, schema.GroupVersion{}))
	for {
		kind, object, err := d.Decode()
		if err != nil {
			return all, err
		}
		all = append(all, seen{kind, object})
	}
}

func object(name, more string) string {
	return `{"apiVersion":"anynines.com/v1","kind":"PostgresqlInstance","metadata":{"name":"` + name + `"` + more + `}}`
}

func event(kind, object string) string {
	return `{"type":"` + kind + `","object":` + object + "}\n"
}

func TestWhatComesIsWhatTheDynamicClientSees(t *testing.T) {
	theirs := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	for name, stream := range map[string]string{
		"objects": event("ADDED", object("a", `,"generation":9007199254740993,"ratio":0.5,"note":"\n\u00e4 \",\"object\":"`)) + event("MODIFIED", object("b", "")) + event("DELETED", object("c", "")),
		"large":   event("ADDED", object("a", `,"note":"`+strings.Repeat("x", 300<<10)+`"`)) + event("ADDED", object("b", "")),
		"bookmark": event("ADDED", object("a", "")) +
			event("BOOKMARK", object("", `,"resourceVersion":"7","annotations":{"`+metav1.InitialEventsAnnotationKey+`":"true"}`)),
		"error":          event("ERROR", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}`),
		"a core kind":    event("ADDED", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`),
		"no kind":        event("ADDED", `{"metadata":{"name":"a"}}`),
		"more in it":     `{"type":"ADDED","object":` + object("a", "") + `,"more":1}` + "\n",
		"another order":  `{"object":` + object("a", "") + `,"type":"ADDED"}` + "\n",
		"with spaces":    `{ "type": "ADDED", "object": ` + object("a", "") + " }\n",
		"unknown type":   event("STOLEN", object("a", "")),
		"no JSON":        event("ADDED", `{"kind":`),
		"broken off":     strings.TrimSuffix(event("ADDED", object("a", "")), "}\n"),
		"broken in text": event("ADDED", object("a", "")) + `{"type":"ADD`,
		"nothing":        "",
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			want, wantErr := read(t, theirs, stream)
			got, err := read(t, ours(t), stream)
			if name == "more in it" {
				// That is none of the API server's.
				if err == nil || errors.Is(err, io.EOF) || len(got) > 0 {
					t.Errorf("%v, %v, want an error", got, err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-theirs +ours): %s", diff)
			}
			if errors.Is(err, io.EOF) != errors.Is(wantErr, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) != errors.Is(wantErr, io.ErrUnexpectedEOF) {
				t.Errorf("it ends with %v, want %v", err, wantErr)
			}
		})
	}
}

func TestAnObjectIsNotChangedByTheNextEvent(t *testing.T) {
	var stream bytes.Buffer
	for i := range 100 {
		stream.WriteString(event("ADDED", object(fmt.Sprintf("name-%02d", i), "")))
	}
	got, _ := read(t, ours(t), stream.String())
	for i, s := range got {
		if name := s.Object.(*unstructured.Unstructured).GetName(); name != fmt.Sprintf("name-%02d", i) {
			t.Fatalf("object %d has the name %s", i, name)
		}
	}
	if len(got) != 100 {
		t.Errorf("%d objects", len(got))
	}
}

// metadata is an object of which little is kept.
type metadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (m *metadata) DeepCopyObject() runtime.Object { return m }

// synced is what an informer keeps once its list has ended.
func synced(t *testing.T, name string, config *rest.Config, decode Decode) toolscache.Store {
	t.Helper()
	informer, err := New(config, schema.GroupVersionResource{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}, labels.Everything(), decode)
	if err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	select {
	case <-informer.HasSyncedChecker().Done():
	case <-time.After(time.Minute):
		t.Fatalf("%s: the list does not end", name)
	}
	return informer.GetStore()
}

func TestTheStoreHasWhatWasDecoded(t *testing.T) {
	t.Parallel()
	decode := func(data []byte) (client.Object, error) {
		m := &metadata{}
		return m, json.Unmarshal(data, m)
	}
	config := informerstest.Serve(t, "anynines.com/v1", "PostgresqlInstance", slices.Values([][]byte{[]byte(object("a", "")), []byte(object("b", ""))}))
	store := synced(t, "watched", config, decode)
	for _, name := range []string{"a", "b"} {
		if o, _, err := store.GetByKey(name); err != nil || o.(*metadata).Name != name {
			t.Errorf("%s is kept as %v, %v", name, o, err)
		}
	}
	if n := len(store.List()); n != 2 {
		t.Errorf("%d objects", n)
	}
}

// What is not to be kept takes no room, whichever way the API server sends it.
func TestWhatIsNotToBeKeptIsNotInTheStore(t *testing.T) {
	t.Parallel()
	decode := Decode(func(data []byte) (client.Object, error) {
		m := &metadata{}
		if err := json.Unmarshal(data, m); err != nil || strings.HasPrefix(m.Name, "theirs") {
			return nil, err
		}
		return m, nil
	})
	all := [][]byte{[]byte(object("a", "")), []byte(object("theirs-1", "")), []byte(object("b", "")), []byte(object("theirs-2", ""))}
	for name, config := range map[string]*rest.Config{
		"watched": informerstest.Serve(t, "anynines.com/v1", "PostgresqlInstance", slices.Values(all)),
		"listed":  informerstest.ServeList(t, "anynines.com/v1", "PostgresqlInstance", slices.Values(all)),
	} {
		store := synced(t, name, config, decode)
		keys := store.ListKeys()
		if slices.Sort(keys); !slices.Equal(keys, []string{"a", "b"}) {
			t.Errorf("%s: %v is kept", name, keys)
		}
		for _, o := range store.List() {
			if m, ok := o.(*metadata); !ok || m.Kind != "PostgresqlInstance" {
				t.Errorf("%s: it is kept as %v", name, o)
			}
		}
	}
}

// A reader that stops with an event under way leaves nothing behind.
func TestAWatchThatIsStoppedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := watch.NewFakeWithChanSize(2, false)
		w := drop(from)
		from.Add(&dropped{})
		from.Add(&metadata{})
		synctest.Wait()
		w.Stop()
		synctest.Wait()
		if _, open := <-w.ResultChan(); open {
			t.Error("it goes on")
		}
	})
}

func benchmark(b *testing.B, s runtime.NegotiatedSerializer) {
	stream := event("ADDED", object("a", `,"note":"`+strings.Repeat("x", 500)+`","managedFields":[`+strings.Repeat(`{"f:metadata":{"f:annotations":{".":{},"f:a":{}}}},`, 40)+`{}]`))
	info, _ := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	for b.Loop() {
		frames := info.StreamSerializer.NewFrameReader(io.NopCloser(strings.NewReader(strings.Repeat(stream, 100))))
		d := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
		for range 100 {
			if _, _, err := d.Decode(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// ours keeps all of an object, to be compared with what the dynamic client makes.
func ours(t testing.TB) runtime.NegotiatedSerializer {
	t.Helper()
	return serializer{dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer, "anynines.com", func(data []byte) (client.Object, error) {
		u := &unstructured.Unstructured{}
		return u, json.Unmarshal(data, &u.Object)
	}}
}

func BenchmarkHundredEvents(b *testing.B) {
	theirs := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	b.Run("ours", func(b *testing.B) { benchmark(b, ours(b)) })
	b.Run("theirs", func(b *testing.B) { benchmark(b, theirs) })
}
