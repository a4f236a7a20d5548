package chaos

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/contract"
)

// api is one bound API, as the load uses it.
type api struct {
	resource schema.GroupVersionResource
	kind     string
	// fields are what each side writes, each one alone, or both.
	cluster, git, shared []string
	// value makes the n-th value of a field.
	value func(field string, n int) any
	// begin is the spec of a new claim.
	begin map[string]any
	// defaults are filled in by the API server.
	defaults map[string]any
	// delivered says that something besides gitbind writes to its objects.
	delivered bool
	// refers says that its claims refer to Secrets.
	refers bool
}

func (a *api) binding() string { return a.resource.Resource + "." + a.resource.Group }

// widgets are what most people work with.
func widgets() *api {
	a := things("widgets", "Widget")
	a.refers = true
	return a
}

// gadgets are those of the administrator alone, who ends them all with their definition.
func gadgets() *api { return things("gadgets", "Gadget") }

// things have many fields, so that few writes overwrite others.
func things(resource, kind string) *api {
	a := &api{
		resource: schema.GroupVersionResource{Group: "chaos.example", Version: "v1", Resource: resource}, kind: kind,
		value:    func(_ string, n int) any { return fmt.Sprintf("v%06d", n) },
		begin:    map[string]any{},
		defaults: map[string]any{"size": "small"},
	}
	for i := range 6 {
		a.cluster = append(a.cluster, fmt.Sprintf("cluster.c%d", i))
		a.git = append(a.git, fmt.Sprintf("git.g%d", i))
	}
	a.shared = []string{"shared.s0", "shared.s1"}
	return a
}

// postgresql is the first API. On Crossplane its deletes take half a minute.
func postgresql(delivered bool) *api {
	return &api{
		resource: schema.GroupVersionResource{Group: "anynines.com", Version: "v1", Resource: "postgresqlinstances"}, kind: "PostgresqlInstance",
		cluster: []string{"parameters.maxConnections"}, git: []string{"parameters.logStatement"},
		value: func(field string, n int) any {
			if field == "parameters.maxConnections" {
				return int64(100 + n)
			}
			return []string{"none", "ddl", "mod", "all"}[n%4]
		},
		begin:     map[string]any{"service": "a9s-postgresql13", "plan": "postgresql-single-nano"},
		defaults:  map[string]any{"expose": "Internal"},
		delivered: delivered,
	}
}

// claim is one that the load works with. But for rate, its fields belong to one worker.
type claim struct {
	api             *api
	namespace, name string
	life            int
	// there says that it was created and not deleted.
	there bool
	// uid is that of the object in the app cluster.
	uid string
	// isReleased says that a person who looked let its object go: another one is made of the file.
	isReleased bool
	// both says that people change it on both sides.
	both bool
	// size is in the spec from the begin.
	size string
	// owner is the UID of the ConfigMap that owns the object, "" for none.
	owner types.UID
	// rate bounds how often people change it.
	rate *rate.Limiter
}

// newRate keeps people below what the konnector takes for a loop, 50 writes and 10 more
// each minute: an edit that meets another one takes two.
func newRate() *rate.Limiter { return rate.NewLimiter(rate.Every(12*time.Second), 20) }

func (c *claim) key() string { return c.api.binding() + " " + c.namespace + "/" + c.name }

func (c *claim) id() contract.Key {
	return contract.Key{Binding: c.api.binding(), Namespace: c.namespace, Name: c.name}
}

func (c *claim) path() string { return c.id().Path() }

func (c *claim) object() *unstructured.Unstructured {
	spec := deepCopy(c.api.begin)
	if c.size != "" {
		spec["size"] = c.size
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": c.api.resource.Group + "/" + c.api.resource.Version, "kind": c.api.kind,
		"metadata": map[string]any{"namespace": c.namespace, "name": c.name},
		"spec":     spec,
	}}
	if c.owner != "" {
		u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: ownerName, UID: c.owner}})
	}
	return u
}

func deepCopy(m map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: m}).DeepCopy().Object
}
