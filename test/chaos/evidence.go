package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// keepEvidence copies what a violation can be explained from to a folder, and
// returns it: all objects of both clusters that gitbind writes, the whole
// repository, the logs of all processes, and all that happened. What cannot be had
// is named in the error; the rest is kept all the same.
func (r *run) keepEvidence(ctx context.Context, violations []Violation) (dir string, err error) {
	dir = r.options.Evidence
	if dir == "" {
		if dir, err = os.MkdirTemp("", fmt.Sprintf("gitbind-chaos-%d-", r.options.Seed)); err != nil {
			return "", err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var told strings.Builder
	for _, v := range violations {
		fmt.Fprintln(&told, v)
	}
	return dir, errors.Join(
		os.WriteFile(filepath.Join(dir, "violations.txt"), []byte(told.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "timeline.txt"), []byte(r.journal.Timeline("")), 0o644),
		r.keepObjects(ctx, filepath.Join(dir, "app"), r.sides.app),
		r.keepObjects(ctx, filepath.Join(dir, "control"), r.sides.control),
		os.CopyFS(filepath.Join(dir, "logs"), os.DirFS(filepath.Join(r.Dir, "logs"))),
		r.sides.host.copyTo(ctx, filepath.Join(dir, "repository.git")),
	)
}

// keepObjects writes the objects of one cluster, a file for each kind.
func (r *run) keepObjects(ctx context.Context, dir string, client dynamic.Interface) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	resources := []schema.GroupVersionResource{ours("connections"), ours("apiservicebindings")}
	if client == r.sides.control {
		resources = []schema.GroupVersionResource{ours("clusterbindings"), ours("apiserviceexports")}
	}
	for _, a := range r.sides.apis {
		resources = append(resources, a.resource)
	}
	var errs error
	for _, resource := range resources {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("list %s for %s: %w", resource.Resource, dir, err))
			continue
		}
		data, err := yaml.Marshal(list)
		errs = errors.Join(errs, err, os.WriteFile(filepath.Join(dir, resource.Resource+".yaml"), data, 0o644))
	}
	return errs
}

// ours is a resource of gitbind's own API group.
func ours(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gitbind.dev", Version: "v1alpha1", Resource: resource}
}
