// Package informers makes informers that keep of each object only what the caller
// takes out of its JSON. An object is never built as maps of maps, which take ten
// times the memory of what decisions need of it; and an event of a watch is read
// once, where client-go's dynamic client reads it five times and takes five times as
// long (BenchmarkHundredEvents).
//
// It changes nothing of what is watched, and decides nothing.
package informers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Decode takes from an object, in the JSON of the API server, what is to be kept of
// it, or nil for an object that is not to be kept at all. It must not keep the data,
// which the next event overwrites. It must keep the annotations of an object without a
// UID: that is a bookmark of the watch.
type Decode func(data []byte) (client.Object, error)

// SyncTimeout is how long to wait for the first list of a resource: one of a hundred thousand
// objects takes half a minute on a busy API server.
const SyncTimeout = 5 * time.Minute

// resync is how often all objects are looked at again though nothing changed.
const resync = 10 * time.Hour

// New makes an informer of a custom resource in all namespaces. Its store has what
// decode returned.
func New(config *rest.Config, resource schema.GroupVersionResource, selector labels.Selector, decode Decode) (toolscache.SharedIndexInformer, error) {
	config = dynamic.ConfigFor(config)
	config.NegotiatedSerializer = serializer{config.NegotiatedSerializer, resource.Group, decode}
	c, err := restClient(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to watch %s: %w", resource.Resource, err)
	}
	objects := dynamic.New(c).Resource(resource)
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector.String()
			list, err := objects.List(ctx, o)
			if err != nil {
				return nil, err
			}
			return decode.list(list)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector.String()
			w, err := objects.Watch(ctx, o)
			if err != nil {
				return nil, err
			}
			return drop(w), nil
		},
	}, nil, resync, toolscache.Indexers{})
	return informer, nil
}

// RESTClient is for requests for custom resources that have their whole path.
func RESTClient(config *rest.Config) (rest.Interface, error) {
	return restClient(dynamic.ConfigFor(config))
}

func restClient(config *rest.Config) (rest.Interface, error) {
	// The path must not be empty; requests have their own.
	config.GroupVersion, config.APIPath = nil, "/none"
	return rest.UnversionedRESTClientFor(config)
}

// list is for an API server that cannot send lists to watchers.
func (d Decode) list(list *unstructured.UnstructuredList) (runtime.Object, error) {
	out := &metav1.List{ListMeta: metav1.ListMeta{
		ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount(),
	}}
	for _, u := range list.Items {
		data, err := json.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("decode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		object, err := d(data)
		if err != nil {
			return nil, fmt.Errorf("decode %s/%s: %w", u.GetNamespace(), u.GetName(), err)
		}
		if object != nil {
			out.Items = append(out.Items, runtime.RawExtension{Object: object})
		}
	}
	return out, nil
}

// serializer is the dynamic client's, with quicker ways to read JSON.
type serializer struct {
	runtime.NegotiatedSerializer
	group  string
	decode Decode
}

func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := s.NegotiatedSerializer.SupportedMediaTypes()
	out := make([]runtime.SerializerInfo, len(infos))
	for i, info := range infos {
		if info.MediaType == runtime.ContentTypeJSON {
			stream := *info.StreamSerializer
			stream.Serializer, stream.Framer = events{stream.Serializer}, lines{stream.Framer}
			info.Serializer, info.StreamSerializer = objects{info.Serializer, s.group, s.decode}, &stream
		}
		out[i] = info
	}
	return out
}

// events reads what is around the objects of a watch.
type events struct{ runtime.Serializer }

// Decode leaves the object where it is: it is read before the next event is.
func (e events) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if kind, object, found := cut(data); ok && found {
		event.Type, event.Object.Raw = kind, object
		return event, nil, nil
	}
	return e.Serializer.Decode(data, defaults, into)
}

// cut takes an event apart as API servers write it: {"type":"ADDED","object":{…}}
func cut(data []byte) (kind string, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	name, object, ok := bytes.Cut(rest, []byte(`","object":`))
	if !ok {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(bytes.TrimSpace(object), []byte("}"))
	switch kind := watch.EventType(name); kind {
	case watch.Added, watch.Modified, watch.Deleted:
		return string(kind), object, ok
	}
	return "", nil, false
}

// objects reads the objects themselves.
type objects struct {
	runtime.Serializer
	group  string
	decode Decode
}

// Decode has others read what is no object of the API, such as an error.
func (o objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		kept, err := o.decode(data)
		if err == nil && kept == nil {
			return &dropped{}, &schema.GroupVersionKind{Group: o.group}, nil
		}
		if err == nil {
			if kind := kept.GetObjectKind().GroupVersionKind(); kind.Group == o.group && kind.Kind != "" {
				return kept, &kind, nil
			}
		}
	}
	return o.Serializer.Decode(data, defaults, into)
}
