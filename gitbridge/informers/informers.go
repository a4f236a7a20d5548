// Package informers makes the informers of a controller-runtime cache read each
// event of a watch once, where client-go's dynamic client reads it five times. With
// thousands of objects that is most of the time that a process takes to start.
//
// It changes nothing of what is watched, or of what comes.
package informers

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// informers makes a cache's informers.
type informers struct {
	mapper   meta.RESTMapper
	selector labels.Selector
	client   dynamic.Interface
}

// NewCache is cache.New for one that has its unstructured objects from all
// namespaces, and selects them by DefaultLabelSelector alone. Options must have the
// mapper.
func NewCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	var err error
	if o.HTTPClient == nil {
		if o.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("prepare to watch: %w", err)
		}
	}
	i, err := newInformers(config, o)
	if err != nil {
		return nil, err
	}
	o.NewInformer = i.informer
	return cache.New(config, o)
}

func newInformers(config *rest.Config, o cache.Options) (*informers, error) {
	config = dynamic.ConfigFor(config)
	// The dynamic client gives each request its path.
	config.GroupVersion, config.APIPath = nil, "/none"
	config.NegotiatedSerializer = serializer{config.NegotiatedSerializer}
	c, err := rest.UnversionedRESTClientForConfigAndClient(config, o.HTTPClient)
	if err != nil {
		return nil, fmt.Errorf("prepare to watch: %w", err)
	}
	return &informers{o.Mapper, o.DefaultLabelSelector, dynamic.New(c)}, nil
}

// informer is for cache.Options.
func (i *informers) informer(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if u, ok := of.(*unstructured.Unstructured); ok {
		lw = &listWatch{ListerWatcherWithContext: toolscache.ToListerWatcherWithContext(lw), informers: i, kind: u.GroupVersionKind()}
	}
	return toolscache.NewSharedIndexInformer(lw, of, resync, indexers)
}

// listWatch lists as the one in it, where an API server cannot send lists to who
// watches.
type listWatch struct {
	toolscache.ListerWatcherWithContext
	informers *informers
	kind      schema.GroupVersionKind
}

// List is for callers without a context.
func (l *listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch is for callers without a context.
func (l *listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// WatchWithContext watches.
func (l *listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	mapping, err := l.informers.mapper.RESTMapping(l.kind.GroupKind(), l.kind.Version)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", l.kind.Kind, err)
	}
	o.Watch, o.AllowWatchBookmarks = true, true
	if l.informers.selector != nil {
		o.LabelSelector = l.informers.selector.String()
	}
	return l.informers.client.Resource(mapping.Resource).Watch(ctx, o)
}

// serializer is the dynamic client's, with quicker ways to read JSON.
type serializer struct{ runtime.NegotiatedSerializer }

func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := s.NegotiatedSerializer.SupportedMediaTypes()
	out := make([]runtime.SerializerInfo, len(infos))
	for i, info := range infos {
		if info.MediaType == runtime.ContentTypeJSON {
			stream := *info.StreamSerializer
			stream.Serializer, stream.Framer = events{stream.Serializer}, lines{stream.Framer}
			info.Serializer, info.StreamSerializer = objects{info.Serializer}, &stream
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
type objects struct{ runtime.Serializer }

// Decode has others read what is no object of an API, such as an error.
func (o objects) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(data, &u.Object); err == nil {
			if kind := u.GroupVersionKind(); kind.Group != "" && kind.Kind != "" && u.Object["metadata"] != nil && u.Object["items"] == nil {
				return u, &kind, nil
			}
		}
	}
	return o.Serializer.Decode(data, defaults, into)
}
