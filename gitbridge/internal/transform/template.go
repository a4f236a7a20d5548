package transform

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// Template is a template's transform, ready to be used by many goroutines at
// once. The nil one changes nothing.
type Template struct {
	name     string
	patches  []patch
	revision string
}

// patch is one of the two kinds.
type patch struct {
	selector  labels.Selector
	operation jsonpatch.Patch
	merge     *kyaml.RNode
}

// TemplateError is the operator's to mend. Its words are for claims, too.
type TemplateError struct {
	Template string
	// Patch counts from 1; 0 means the whole template.
	Patch  int
	Reason string
}

func (e *TemplateError) Error() string {
	if e.Patch == 0 {
		return fmt.Sprintf("the platform's template %s %s", e.Template, e.Reason)
	}
	return fmt.Sprintf("the platform's template %s: spec.transform.patches[%d] %s", e.Template, e.Patch-1, e.Reason)
}

// Compile reads a transform. It gives nil for none.
func Compile(template string, t *v1alpha1.Transform) (*Template, error) {
	if t == nil || len(t.Patches) == 0 {
		return nil, nil
	}
	out := &Template{name: template}
	for i, p := range t.Patches {
		compiled, err := compile(p)
		if err != nil {
			return nil, &TemplateError{Template: template, Patch: i + 1, Reason: err.Error()}
		}
		out.patches = append(out.patches, compiled)
	}
	content, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode the transform of %s: %w", template, err)
	}
	out.revision = fmt.Sprintf("%x", sha256.Sum256(content))[:16]
	return out, nil
}

// Revision is another one whenever the patches are; "" is that of none.
func (t *Template) Revision() string {
	if t == nil {
		return ""
	}
	return t.revision
}

// Name is that of the template.
func (t *Template) Name() string { return t.name }

func compile(p v1alpha1.Patch) (out patch, err error) {
	out.selector = labels.Everything()
	if p.Target != nil {
		if out.selector, err = labels.Parse(p.Target.LabelSelector); err != nil {
			return out, fmt.Errorf("has a labelSelector that cannot be read: %w", err)
		}
	}
	content, err := yaml.YAMLToJSONStrict([]byte(p.Patch))
	if err != nil {
		return out, fmt.Errorf("is not valid YAML: %w", err)
	}
	if bytes.HasPrefix(content, []byte("[")) {
		out.operation, err = operations(content)
		return out, err
	}
	if err := mayMerge(content); err != nil {
		return out, err
	}
	if out.merge, err = kyaml.Parse(string(content)); err != nil {
		return out, fmt.Errorf("is not valid YAML: %w", err)
	}
	return out, nil
}

// folders are what a patch may change.
var folders = []string{"/spec", "/metadata/labels", "/metadata/annotations"}

const mayChange = "a transform may change spec, metadata.labels and metadata.annotations only"

func operations(content []byte) (jsonpatch.Patch, error) {
	out, err := jsonpatch.DecodePatch(content)
	if err != nil {
		return nil, fmt.Errorf("is a list, but not of JSON patch operations: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("has no operation")
	}
	known := []string{"add", "remove", "replace", "move", "copy", "test"}
	for i, o := range out {
		if !slices.Contains(known, o.Kind()) {
			return nil, fmt.Errorf("has %q as op of operation %d: want one of %s", o.Kind(), i, strings.Join(known, ", "))
		}
		path, err := o.Path()
		if err != nil {
			return nil, fmt.Errorf("has no path in operation %d", i)
		}
		if o.Kind() != "test" && !within(path) {
			return nil, fmt.Errorf("has path %q in operation %d: %s", path, i, mayChange)
		}
		if from, err := o.From(); o.Kind() == "move" && (err != nil || !within(from)) {
			return nil, fmt.Errorf("moves from %q in operation %d: %s", from, i, mayChange)
		}
	}
	return out, nil
}

// within reports whether a JSON pointer is of something in a folder, or of a
// folder of metadata as a whole, which a claim may lack.
func within(path string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return strings.HasPrefix(path, folder+"/") || path == folder && folder != "/spec"
	})
}

// mayMerge refuses a merge patch that touches what it must not. It may name the
// object as a kustomization does: the object it makes is compared, anyway.
func mayMerge(content []byte) error {
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return errors.New("is neither a part of an object nor a list of operations")
	}
	if len(object) == 0 {
		return errors.New("is empty")
	}
	for key := range object {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "spec"}, key) {
			return fmt.Errorf("sets %s: %s", key, mayChange)
		}
	}
	metadata, ok := object["metadata"].(map[string]any)
	if _, set := object["metadata"]; set && !ok {
		return fmt.Errorf("sets metadata: %s", mayChange)
	}
	for key := range metadata {
		if key != "labels" && key != "annotations" {
			return fmt.Errorf("sets metadata.%s: %s", key, mayChange)
		}
	}
	if spec, set := object["spec"]; set {
		if _, ok := spec.(map[string]any); !ok {
			return errors.New("sets spec to something that is no object")
		}
	}
	return nil
}

// apply gives the object that a template makes of one, which is not changed.
func (t *Template) apply(object map[string]any, has labels.Set) (map[string]any, error) {
	for i, p := range t.patches {
		if !p.selector.Matches(has) {
			continue
		}
		var err error
		if p.merge != nil {
			object, err = p.merged(object)
		} else {
			object, err = p.operated(object)
		}
		if err != nil {
			return nil, &TemplateError{Template: t.name, Patch: i + 1, Reason: err.Error()}
		}
	}
	return object, nil
}

func (p patch) operated(object map[string]any) (map[string]any, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	content, err = p.operation.Apply(content)
	if err != nil {
		return nil, fmt.Errorf("does not fit this claim: %w", err)
	}
	return decode(content)
}

func (p patch) merged(object map[string]any) (map[string]any, error) {
	node, err := nodeOf(object)
	if err != nil {
		return nil, err
	}
	// What is merged is taken over as it is.
	out, err := patchstrategicmerge.Filter{Patch: p.merge.Copy()}.Filter([]*kyaml.RNode{kyaml.NewRNode(node)})
	switch {
	case err != nil:
		return nil, fmt.Errorf("does not fit this claim: %w", err)
	case len(out) != 1:
		return nil, errors.New("deletes the claim as a whole")
	}
	merged, err := valueOf(out[0].YNode())
	if err != nil {
		return nil, fmt.Errorf("does not fit this claim: %w", err)
	}
	if object, ok := merged.(map[string]any); ok {
		return object, nil
	}
	return nil, errors.New("makes of this claim something that is no object")
}
