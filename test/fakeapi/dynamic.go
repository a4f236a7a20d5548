package fakeapi

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Mend has a fake dynamic client of client-go write as an API server does. By itself it gives
// neither UIDs nor versions, and compares none.
func Mend(c *dynamicfake.FakeDynamicClient) {
	objects := c.Tracker()
	at := func(a clienttesting.Action, name string) (*unstructured.Unstructured, error) {
		o, err := objects.Get(a.GetResource(), a.GetNamespace(), name)
		if err != nil {
			return nil, err
		}
		return o.(*unstructured.Unstructured), nil
	}
	// put has next in the place of live; nil is no object.
	put := func(a clienttesting.Action, live, next *unstructured.Unstructured, dryRun []string) (bool, runtime.Object, error) {
		switch {
		case slices.Contains(dryRun, metav1.DryRunAll):
			return true, next, nil
		case live == nil:
			return true, next, objects.Create(a.GetResource(), next, a.GetNamespace())
		case next == nil, next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0:
			return true, next, objects.Delete(a.GetResource(), a.GetNamespace(), live.GetName())
		}
		return true, next, objects.Update(a.GetResource(), next, a.GetNamespace())
	}
	c.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateActionImpl)
		return put(a, nil, created(o.GetObject().(*unstructured.Unstructured)), o.CreateOptions.DryRun)
	})
	c.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.UpdateActionImpl)
		sent := o.GetObject().(*unstructured.Unstructured)
		live, err := at(a, sent.GetName())
		if err != nil {
			return true, nil, err
		}
		next, err := updated(a.GetResource().GroupResource(), live, sent)
		if err != nil {
			return true, nil, err
		}
		return put(a, live, next, o.UpdateOptions.DryRun)
	})
	c.PrependReactor("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.DeleteActionImpl)
		live, err := at(a, o.GetName())
		if err != nil {
			return true, nil, err
		}
		next, err := Delete(a.GetResource().GroupResource(), live, o.DeleteOptions)
		if err != nil {
			return true, nil, err
		}
		return put(a, live, next, o.DeleteOptions.DryRun)
	})
	c.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.PatchActionImpl)
		live, err := at(a, o.GetName())
		if err != nil && !apierrors.IsNotFound(err) {
			return true, nil, err
		}
		next, err := ApplyPatch(o, live)
		if err != nil {
			return true, nil, err
		}
		return put(a, live, next, o.PatchOptions.DryRun)
	})
}

// ApplyPatch is Apply with what a dynamic client sends.
func ApplyPatch(a clienttesting.PatchAction, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if a.GetPatchType() != types.ApplyPatchType {
		return nil, fmt.Errorf("package fakeapi imitates no patch of type %s of a dynamic client", a.GetPatchType())
	}
	sent := &unstructured.Unstructured{}
	if err := sent.UnmarshalJSON(a.GetPatch()); err != nil {
		return nil, err
	}
	return Apply(a.GetResource().GroupResource(), live, sent)
}
