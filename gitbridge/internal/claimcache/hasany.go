package claimcache

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/internal/tenant"
)

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
