package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"gitbind.dev/konnector/internal/agent/decision"
)

const (
	// discoverEvery is how often the API server is asked at most which kinds it has: for
	// one that it did not have when it was asked last.
	discoverEvery = time.Minute
	// maxEndings is of how many objects it is remembered whether an owner stays, which
	// takes some 2 MiB.
	maxEndings = 10_000
)

// owners asks the API server for the owners of objects that are being deleted. These
// are of any kind, so there is no watch of them. Who may change an object chooses name and
// kind of its owners: what is asked for are objects alone, of kinds that the API server
// lists, and those of one object are asked for once. Its methods may be called by many
// goroutines.
type owners struct {
	client discovery.DiscoveryInterface
	now    func() time.Time
	// endings are what was found out, by the delete: one that has begun stays what it is.
	endings *lru.Cache

	mu sync.Mutex
	// kinds are those that the API server listed, and failed why it could not list those of
	// some APIs. err is why it listed nothing; from due on it may be asked again.
	kinds  map[schema.GroupVersionKind]metav1.APIResource
	failed map[schema.GroupVersion]error
	err    error
	due    time.Time
	// listed is when those of kinds were asked for.
	listed time.Time
}

// deletion is one of an object. Asked is one of which all owners that can be asked for were,
// and none stays.
type deletion struct {
	uid   types.UID
	at    time.Time
	asked bool
}

func newOwners(config *rest.Config) (*owners, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare to ask for owners: %w", err)
	}
	return &owners{client: client, now: time.Now, endings: lru.New(maxEndings)}, nil
}

// ending is OwnerEnds where none of an object's owners is known to stay. The error is that
// of an API server that does not answer now, or errIncomplete where the object is the cache's
// and nobody has asked yet.
func (o *owners) ending(ctx context.Context, m metav1.Object, cached bool) (decision.Ending, error) {
	refs := m.GetOwnerReferences()
	if len(refs) == 0 {
		return "", nil
	}
	d := deletion{uid: m.GetUID()}
	if at := m.GetDeletionTimestamp(); at != nil {
		d.at = at.UTC()
	}
	if known, ok := o.endings.Get(d); ok {
		with, _ := known.(decision.Ending)
		return with, nil
	}
	if cached {
		return "", errIncomplete
	}
	stays, err := o.anyStays(ctx, d, m.GetNamespace(), refs)
	if err != nil {
		return "", fmt.Errorf("ask for the owners of %s/%s: %w", m.GetNamespace(), m.GetName(), err)
	}
	with := decision.OwnerEnds
	if stays {
		with = ""
	}
	o.endings.Add(d, with)
	return with, nil
}

// anyStays reports whether one of the owners of an object in a namespace is known to stay.
// One that the konnector may not read is not, nor is one of too many.
func (o *owners) anyStays(ctx context.Context, d deletion, namespace string, refs []metav1.OwnerReference) (bool, error) {
	if len(refs) > decision.MaxOwners {
		return false, nil
	}
	type asked struct {
		uid     types.UID
		request *rest.Request
	}
	var all []asked
	var unknown error
	for _, ref := range refs {
		request, err := o.request(d, namespace, ref)
		if err != nil {
			unknown = err
		}
		if request != nil {
			all = append(all, asked{ref.UID, request})
		}
	}
	d.asked = true
	if _, before := o.endings.Get(d); before && unknown != nil {
		// However often this is tried again, they are not asked for.
		return false, unknown
	}
	for _, a := range all {
		if owner, err := read(ctx, a.request); err != nil || owner.UID == a.uid && owner.DeletionTimestamp == nil {
			return err == nil, err
		}
	}
	if unknown != nil {
		o.endings.Add(d, nil)
	}
	return false, unknown
}

// request is one for an owner; nil where no object can have its kind or name. A name that is
// a path would lead elsewhere.
func (o *owners) request(d deletion, namespace string, ref metav1.OwnerReference) (*rest.Request, error) {
	if len(ref.Name) > validation.DNS1123SubdomainMaxLength || len(rest.IsValidPathSegmentName(ref.Name)) > 0 {
		return nil, nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	resource, ok, err := o.resource(kind, d.at)
	if !ok {
		return nil, err
	}
	root := []string{"/apis", kind.Group, kind.Version}
	if kind.Group == "" {
		root = []string{"/api", kind.Version}
	}
	return o.client.RESTClient().Get().AbsPath(root...).
		NamespaceIfScoped(namespace, resource.Namespaced).Resource(resource.Name).Name(ref.Name).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"), nil
}

// resource is where the objects of a kind are, if the API server lists it. The error says that
// this is not known now: it may have got the kind since it was asked, before a delete at that time.
func (o *owners) resource(kind schema.GroupVersionKind, deleted time.Time) (metav1.APIResource, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.kinds[kind]; !ok && !o.now().Before(o.due) {
		o.discover()
	}
	resource, ok := o.kinds[kind]
	switch {
	case ok:
		return resource, true, nil
	case o.err != nil:
		return resource, false, fmt.Errorf("list kinds: %w", o.err)
	}
	if err := o.failed[kind.GroupVersion()]; err != nil {
		return resource, false, fmt.Errorf("list kinds of %s: %w", kind.GroupVersion(), err)
	}
	if !o.listed.After(deleted) {
		return resource, false, fmt.Errorf("%s was not among the kinds %s before the delete: they are listed again", kind, deleted.Sub(o.listed).Round(time.Second))
	}
	return resource, false, nil
}

// discover asks which kinds there are. Those that are known stay known where nothing is
// answered. It must be called with mu held.
func (o *owners) discover() {
	asked := o.now()
	_, lists, err := o.client.ServerGroupsAndResources()
	var partly *discovery.ErrGroupDiscoveryFailed
	if o.failed = nil; errors.As(err, &partly) {
		o.failed, err = partly.Groups, nil
	}
	if o.err = err; err != nil {
		o.due = o.now().Add(retryMax)
		return
	}
	o.due, o.listed = o.now().Add(discoverEvery), asked
	o.kinds = map[schema.GroupVersionKind]metav1.APIResource{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				kind := schema.FromAPIVersionAndKind(list.GroupVersion, r.Kind)
				o.kinds[kind] = metav1.APIResource{Name: r.Name, Namespaced: r.Namespaced}
			}
		}
	}
}

// read is the metadata of an object; empty where the API server has none to give. The error is
// one that passes.
func read(ctx context.Context, request *rest.Request) (metav1.ObjectMeta, error) {
	data, err := request.DoRaw(ctx)
	if err != nil && !isFinal(err) {
		return metav1.ObjectMeta{}, err
	}
	var object metav1.PartialObjectMetadata
	if err != nil || json.Unmarshal(data, &object) != nil {
		return metav1.ObjectMeta{}, nil
	}
	return object.ObjectMeta, nil
}

// isFinal reports whether an API server answered with an error that does not pass by itself.
func isFinal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}
