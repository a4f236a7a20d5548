package fakeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Builder has what is in the cluster of a fake client. Each has a Scheme of its own, as the client adds to it
// the kinds that it does not find there.
func Builder() *fake.ClientBuilder { return fake.NewClientBuilder().WithScheme(Scheme()) }

// Scheme has the kinds that our programs know: Kubernetes' own, CustomResourceDefinitions and ours.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), v1alpha1.AddToScheme(s)))
	return s
}

// New is a fake client of controller-runtime, mended. What intercepts requests to it comes
// first.
func New(b *fake.ClientBuilder, intercept ...interceptor.Funcs) client.WithWatch {
	var mu sync.Mutex
	c := interceptor.NewClient(b.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			mu.Lock()
			defer mu.Unlock()
			return create(ctx, c, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			mu.Lock()
			defer mu.Unlock()
			return update(ctx, c, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			mu.Lock()
			defer mu.Unlock()
			return patch(ctx, c, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			mu.Lock()
			defer mu.Unlock()
			return remove(ctx, c, o, opts...)
		},
		SubResourceApply: applySubResource,
	})
	for _, funcs := range intercept {
		c = interceptor.NewClient(c, funcs)
	}
	return c
}

// MapperWithout maps the kinds of Scheme, cluster-scoped, but for those whose name begins with a prefix: it is
// that of an API server that has not got them yet.
func MapperWithout(prefix string) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range Scheme().AllKnownTypes() {
		if !strings.HasPrefix(kind.Kind, prefix) {
			mapper.Add(kind, meta.RESTScopeRoot)
		}
	}
	return mapper
}

func create(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	u, err := read(c, o)
	if err != nil {
		return err
	}
	next := created(u)
	next.SetResourceVersion(o.GetResourceVersion()) // The fake client gives it.
	if err := fill(o, next); err != nil {
		return err
	}
	err = c.Create(ctx, o, opts...)
	if err == nil {
		return nil
	}
	if err := fill(o, u); err != nil {
		return err
	}
	return err
}

func update(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
	live, err := stored(ctx, c, o)
	if err != nil {
		return err
	}
	sent, err := read(c, o)
	if err != nil {
		return err
	}
	next, err := updated(resourceOf(live), live, sent)
	if err != nil {
		return err
	}
	var all client.UpdateOptions
	all.ApplyOptions(opts)
	return write(ctx, c, o, live, next, all)
}

// write has next in the place of live, and the object say what is there then.
func write(ctx context.Context, c client.WithWatch, o client.Object, live, next *unstructured.Unstructured, opts client.UpdateOptions) error {
	isSame := next.GetResourceVersion() == live.GetResourceVersion()
	next.SetResourceVersion(live.GetResourceVersion()) // The fake client gives the next one.
	if err := fill(o, next); err != nil || isSame || slices.Contains(opts.DryRun, metav1.DryRunAll) {
		return err
	}
	return c.Update(ctx, o, &opts)
}

// patch makes an update of a merge patch, as an API server does. The fake client itself tries
// nothing that is a dry run.
func patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	var all client.PatchOptions
	all.ApplyOptions(opts)
	if p.Type() != types.MergePatchType {
		if len(all.DryRun) > 0 {
			return fmt.Errorf("package fakeapi imitates no dry run of a patch of type %s", p.Type())
		}
		return c.Patch(ctx, o, p, opts...)
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	live, err := stored(ctx, c, o)
	if err != nil {
		return err
	}
	before, err := json.Marshal(live.Object)
	if err != nil {
		return err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return err
	}
	sent := &unstructured.Unstructured{}
	if err := sent.UnmarshalJSON(after); err != nil {
		return err
	}
	next, err := patched(resourceOf(live), live, sent)
	if err != nil {
		return err
	}
	// The object may be metadata only.
	if err := write(ctx, c, sent, live, next, client.UpdateOptions{DryRun: all.DryRun, FieldManager: all.FieldManager}); err != nil {
		return err
	}
	return fill(o, sent)
}

func remove(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	live, err := stored(ctx, c, o)
	if err != nil {
		return err
	}
	next, err := Delete(resourceOf(live), live, *all.AsDeleteOptions())
	if err != nil || next != nil && next.GetResourceVersion() == live.GetResourceVersion() {
		return err
	}
	return c.Delete(ctx, o, opts...)
}

// applySubResource makes no object of which there is only a status.
func applySubResource(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		return err
	}
	return c.SubResource(sub).Apply(ctx, o, opts...)
}

// stored is the object as it is there.
func stored(ctx context.Context, c client.Client, o client.Object) (*unstructured.Unstructured, error) {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(kind)
	return live, c.Get(ctx, client.ObjectKeyFromObject(o), live)
}

func read(c client.Client, o client.Object) (*unstructured.Unstructured, error) {
	kind, err := c.GroupVersionKindFor(o)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// fill has an object say what u says.
func fill(o client.Object, u *unstructured.Unstructured) error {
	if into, ok := o.(*unstructured.Unstructured); ok {
		into.Object = u.DeepCopy().Object
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
}

func resourceOf(u *unstructured.Unstructured) schema.GroupResource {
	resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	return resource.GroupResource()
}
