package fakeapi

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestAMendedClientBehavesAsAnAPIServer(t *testing.T) {
	Behave(t, New(Builder().WithStatusSubresource(&v1alpha1.DryRun{}, &v1alpha1.ClusterBinding{})), conditions, onFound)
}

func TestAMendedDynamicClientBehavesAsAnAPIServer(t *testing.T) {
	c := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("secrets"): "SecretList", v1alpha1.GroupVersion.WithResource("dryruns"): "DryRunList",
	})
	Mend(c)
	Behave(t, server{c})
}

// server has a dynamic client look as the other one.
type server struct{ dynamic.Interface }

func (s server) of(o client.Object) dynamic.ResourceInterface {
	u := o.(*unstructured.Unstructured)
	resource := map[string]string{"Secret": "secrets", "DryRun": "dryruns"}[u.GetKind()]
	return s.Resource(u.GroupVersionKind().GroupVersion().WithResource(resource)).Namespace(u.GetNamespace())
}

func into(o client.Object, u *unstructured.Unstructured, err error) error {
	if err == nil {
		o.(*unstructured.Unstructured).Object = u.Object
	}
	return err
}

func (s server) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetNamespace(key.Namespace)
	u, err := s.of(o).Get(ctx, key.Name, metav1.GetOptions{})
	return into(o, u, err)
}

func (s server) Create(ctx context.Context, o client.Object, _ ...client.CreateOption) error {
	u, err := s.of(o).Create(ctx, o.(*unstructured.Unstructured), metav1.CreateOptions{})
	return into(o, u, err)
}

func (s server) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	u, err := s.of(o).Update(ctx, o.(*unstructured.Unstructured), metav1.UpdateOptions{})
	return into(o, u, err)
}

func (s server) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	var all client.DeleteOptions
	all.ApplyOptions(opts)
	return s.of(o).Delete(ctx, o.GetName(), *all.AsDeleteOptions())
}

func (s server) Apply(ctx context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return err
	}
	_, err = s.of(u).Patch(ctx, u.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{})
	return err
}
