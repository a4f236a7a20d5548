// Package informerstest serves objects to an informer as an API server does, for
// tests and benchmarks of what a cache keeps. It knows nothing else of an API server.
package informerstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server is an API server with the objects of one kind, which do not change while they are
// watched. A test of test/env holds what it answers against an API server.
type Server struct {
	APIVersion, Kind string
	// Objects are those that are there, in JSON.
	Objects func() iter.Seq[[]byte]
	// NoWatchLists has it know nothing of lists that are sent to watchers.
	NoWatchLists bool
	// Listing, if set, is called before all objects are sent to a watcher.
	Listing func()
	// Asked, if set, is called before objects are sent to somebody who does not watch.
	Asked func(url.Values)
}

// Start serves until the test ends.
func (s *Server) Start(tb testing.TB) *rest.Config {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "" && s.NoWatchLists:
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid","code":422}`)
	case query.Get("sendInitialEvents") == "true":
		if s.Listing != nil {
			s.Listing()
		}
		for o := range s.selected(selector) {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"annotations":{%q:"true"},"resourceVersion":"1000000"}}}`+"\n", s.APIVersion, s.Kind, metav1.InitialEventsAnnotationKey)
		wait(w, r)
	case query.Get("watch") != "":
		wait(w, r)
	default:
		if s.Asked != nil {
			s.Asked(query)
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1000000"},"items":[%s]}`, s.APIVersion, s.Kind+"List", bytes.Join(slices.Collect(s.selected(selector)), []byte(",")))
	}
}

// wait sends what is written, and nothing after it.
func wait(w http.ResponseWriter, r *http.Request) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	<-r.Context().Done()
}

func (s *Server) selected(by labels.Selector) iter.Seq[[]byte] {
	if by.Empty() {
		return s.Objects()
	}
	return func(yield func([]byte) bool) {
		for data := range s.Objects() {
			var o metav1.PartialObjectMetadata
			if json.Unmarshal(data, &o) == nil && by.Matches(labels.Set(o.Labels)) && !yield(data) {
				return
			}
		}
	}
}

// Serve sends lists of these objects to watchers.
func Serve(tb testing.TB, apiVersion, kind string, objects iter.Seq[[]byte]) *rest.Config {
	tb.Helper()
	return (&Server{APIVersion: apiVersion, Kind: kind, Objects: func() iter.Seq[[]byte] { return objects }}).Start(tb)
}

// ServeList is Serve by an API server that cannot send lists to watchers.
func ServeList(tb testing.TB, apiVersion, kind string, objects iter.Seq[[]byte]) *rest.Config {
	tb.Helper()
	return (&Server{APIVersion: apiVersion, Kind: kind, Objects: func() iter.Seq[[]byte] { return objects }, NoWatchLists: true}).Start(tb)
}

// Renamed is an object in JSON whose name is another one everywhere.
func Renamed(data []byte, from, to string) []byte {
	return bytes.ReplaceAll(data, []byte(from), []byte(to))
}

// Decoded is an object as a cache keeps it, read by the cache's own function.
func Decoded[T any](tb testing.TB, object any, decode func([]byte) (client.Object, error)) T {
	tb.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		tb.Fatal(err)
	}
	o, err := decode(data)
	if err != nil {
		tb.Fatal(err)
	}
	return o.(T)
}

// Heap is how many bytes are held, after what is garbage was taken away.
func Heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
