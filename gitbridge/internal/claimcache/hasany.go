package claimcache

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/internal/tenant"
)

// HasAny asks the API server whether an app cluster has objects of a binding, in any version
// that is served. Served is false where there is no such version: then it does not tell.
func (o *Objects) HasAny(ctx context.Context, clusterID, binding string) (has, served bool, err error) {
	resource := schema.ParseGroupResource(binding)
	data, err := o.lists.Get().AbsPath("/apis", resource.Group).SetHeader("Accept", "application/json").DoRaw(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("ask for the versions of %s: %w", resource.Group, err)
	}
	var group metav1.APIGroup
	if err := json.Unmarshal(data, &group); err != nil {
		return false, false, fmt.Errorf("read the versions of %s: %w", resource.Group, err)
	}
	// Each version that a resource has has all of its objects.
	for _, v := range group.Versions {
		has, err := hasAny(ctx, o.lists, resource.WithVersion(v.Version), clusterID)
		if !apierrors.IsNotFound(err) {
			return has, err == nil, err
		}
	}
	return false, false, nil
}

// hasAny reports whether an app cluster has objects of a resource. It asks without a limit:
// the API server then looks into its cache, where it would read all objects from etcd for
// the one that is not there. Of the answer, which may be of a hundred thousand objects, it
// reads the beginning.
func hasAny(ctx context.Context, c rest.Interface, resource schema.GroupVersionResource, clusterID string) (bool, error) {
	body, err := c.Get().AbsPath("/apis", resource.Group, resource.Version, resource.Resource).
		Param("labelSelector", tenant.ClusterLabel+"="+clusterID).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json").
		Stream(ctx)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	defer body.Close()
	has, err := beginsWithItem(body)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	return has, nil
}

// beginsWithItem reads a list in JSON up to its first item.
func beginsWithItem(list io.Reader) (bool, error) {
	d := json.NewDecoder(list)
	for {
		switch token, err := d.Token(); {
		case err != nil:
			return false, fmt.Errorf("read the list: %w", err)
		case token == "items":
			begin, err := d.Token()
			if err != nil || begin != json.Delim('[') || d.More() {
				return err == nil && begin == json.Delim('['), err
			}
			_, err = d.Token()
			return false, err
		}
	}
}
