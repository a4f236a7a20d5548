package informers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
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
			got, err := read(t, serializer{theirs}, stream)
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
	got, _ := read(t, serializer{dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer}, stream.String())
	for i, s := range got {
		if name := s.Object.(*unstructured.Unstructured).GetName(); name != fmt.Sprintf("name-%02d", i) {
			t.Fatalf("object %d has the name %s", i, name)
		}
	}
	if len(got) != 100 {
		t.Errorf("%d objects", len(got))
	}
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

func BenchmarkHundredEvents(b *testing.B) {
	theirs := dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer
	b.Run("ours", func(b *testing.B) { benchmark(b, serializer{theirs}) })
	b.Run("theirs", func(b *testing.B) { benchmark(b, theirs) })
}
