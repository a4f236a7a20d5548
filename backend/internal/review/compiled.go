package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/schema"
)

// maxCompiled is how many are kept: those that were used last. Some policies take a MiB.
const maxCompiled = 64

// compiled remembers what was compiled, and why something cannot be, by what it was compiled
// from. It is for all clusters. Its zero value is ready.
type compiled[T any] struct {
	begin sync.Once
	// known are compilations.
	known *lru.Cache
}

type compilation[T any] struct {
	value T
	err   error
}

func (c *compiled[T]) of(source string, compile func() (T, error)) (T, error) {
	c.begin.Do(func() { c.known = lru.New(maxCompiled) })
	if known, ok := c.known.Get(source); ok {
		r := known.(compilation[T])
		return r.value, r.err
	}
	value, err := compile()
	c.known.Add(source, compilation[T]{value, err})
	return value, err
}

// published is what the bridge has published of an API. It is not changed.
type published struct {
	template string
	kind     kschema.GroupVersionKind
	resource kschema.GroupVersionResource
	schema   *schema.Schema
	keys     contract.Keys
}

// readExport reads the file of an export.
func readExport(data []byte) (*published, error) {
	var e v1alpha1.APIServiceExport
	if err := contract.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if e.Status.CRD == nil {
		return nil, errors.New("it has no definition")
	}
	if err := json.Unmarshal(e.Status.CRD.Raw, &crd); err != nil {
		return nil, err
	}
	if len(crd.Spec.Versions) == 0 {
		return nil, errors.New("its definition has no version")
	}
	s, err := schema.New(&crd)
	if err != nil {
		return nil, fmt.Errorf("its definition: %w", err)
	}
	return &published{
		template: e.Spec.Template,
		kind:     kschema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind},
		resource: kschema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural},
		schema:   s,
		keys:     e.Status.MetadataKeys,
	}, nil
}
