package claim

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/base"
)

// baseOf is the version that an object and Git last agreed on. An object that was
// created from a file by a konnector that ended before it wrote status has one,
// too: without it a claim whose file went meanwhile would look like a new one,
// and come back.
func (r *reconciler) baseOf(ctx context.Context, key contract.Key, object *unstructured.Unstructured) (*base.Base, error) {
	if b := base.Read(object); b != nil || !base.IsUnnamed(object) {
		return b, nil
	}
	// The cache does not have who wrote what.
	whole, err := r.get(ctx, key)
	if err != nil || whole == nil || whole.GetUID() != object.GetUID() {
		return nil, err
	}
	return base.ReadCreated(whole, string(fieldOwner)), nil
}
