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
	"runtime"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Serve answers a watch with objects in JSON, and with nothing after them. The group
// and version are for the end of the list.
func Serve(tb testing.TB, apiVersion, kind string, objects iter.Seq[[]byte]) *rest.Config {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sendInitialEvents") != "true" {
			http.Error(w, "only for lists that are sent to watchers", http.StatusNotImplemented)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		for o := range objects {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
		}
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"1000000"}}}`+"\n", apiVersion, kind)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
	}))
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
}

// ServeList serves objects in JSON as an API server does that cannot send lists to
// watchers.
func ServeList(tb testing.TB, apiVersion, kind string, objects iter.Seq[[]byte]) *rest.Config {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		case query.Get("watch") != "":
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			<-r.Context().Done()
		default:
			fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1000000"},"items":[%s]}`, apiVersion, kind+"List", bytes.Join(slices.Collect(objects), []byte(",")))
		}
	}))
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &rest.Config{Host: server.URL}
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
