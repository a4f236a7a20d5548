package contract

import (
	"fmt"

	yaml "go.yaml.in/yaml/v3"
)

// DeletionPolicy says what becomes of the claims of a binding when its request
// goes.
type DeletionPolicy string

const (
	// Refuse holds the removal of a request as long as there are claims. It is
	// meant where nothing is said.
	Refuse DeletionPolicy = "Refuse"
	// Orphan lets go of claims: their services and files stay.
	Orphan DeletionPolicy = "Orphan"
	// Delete deletes them, services included.
	Delete DeletionPolicy = "Delete"
)

// RequestKind is the kind of a Request's manifest.
const RequestKind = "APIServiceExportRequest"

// Request asks for an API: it is the file request.yaml of a binding.
type Request struct {
	// Binding is the API, "<plural>.<group>".
	Binding string
	// Template is the offer; "" for the one offer of this API that the app
	// cluster may bind.
	Template string
	// DeletionPolicy is never "" in what DecodeRequest gives.
	DeletionPolicy DeletionPolicy
}

// EncodeRequest writes a request in its one canonical form. Equal requests give
// equal bytes.
func EncodeRequest(r Request) ([]byte, error) {
	spec := object{}.with("template", r.Template)
	if r.DeletionPolicy != Refuse {
		spec = spec.with("deletionPolicy", string(r.DeletionPolicy))
	}
	o := object{{"apiVersion", APIVersion}, {"kind", RequestKind}, {"metadata", object{{"name", r.Binding}}}}
	if len(spec) > 0 {
		o = append(o, field{"spec", spec})
	}
	b, err := marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode request for %s: %w", r.Binding, err)
	}
	return b, nil
}

// DecodeRequest reads a request. The error is always a *Problem.
func DecodeRequest(f File) (Request, error) {
	d := decoder{file: f.Path, noun: "request", remove: "to unbind the API, remove the file", fields: "apiVersion, kind, metadata"}
	binding, ok := ParseRequestPath(f.Path)
	if !ok {
		return Request{}, d.problem(0, "not the path of a request: want bindings/<plural>.<group>/request.yaml")
	}
	doc, content, err := d.object(f)
	if err != nil {
		return Request{}, err
	}
	if err := d.requestHead(binding, doc, content); err != nil {
		return Request{}, err
	}
	return d.requestSpec(binding, doc, content)
}

// requestHead checks all but spec.
func (d decoder) requestHead(binding string, doc *yaml.Node, content map[string]any) error {
	if err := d.known(doc, "", map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "spec": true, "status": true}); err != nil {
		return err
	}
	for _, f := range []struct{ field, want string }{{"apiVersion", APIVersion}, {"kind", RequestKind}} {
		if got, _ := content[f.field].(string); got != f.want {
			return d.problem(lineOf(doc, f.field), "%s is %q: want %s", f.field, got, f.want)
		}
	}
	meta, ok := content["metadata"].(map[string]any)
	if !ok {
		return d.problem(lineOf(doc, "metadata"), "metadata is missing or no object")
	}
	allowed := map[string]bool{"name": true, "labels": true, "annotations": true}
	for k := range serverSet {
		allowed[k] = true
	}
	if err := d.known(child(doc, "metadata"), "metadata.", allowed); err != nil {
		return err
	}
	if got, _ := meta["name"].(string); got != binding {
		return d.problem(lineOf(doc, "metadata.name"), "metadata.name is %q, but the path says %q", got, binding)
	}
	return nil
}

func (d decoder) requestSpec(binding string, doc *yaml.Node, content map[string]any) (Request, error) {
	r := Request{Binding: binding, DeletionPolicy: Refuse}
	if content["spec"] == nil {
		return r, nil
	}
	spec, ok := content["spec"].(map[string]any)
	if !ok {
		return Request{}, d.problem(lineOf(doc, "spec"), "spec is no object")
	}
	if err := d.known(child(doc, "spec"), "spec.", map[string]bool{"template": true, "deletionPolicy": true}); err != nil {
		return Request{}, err
	}
	if value := spec["template"]; value != nil {
		if r.Template, ok = value.(string); !ok || !isName(r.Template) {
			return Request{}, d.problem(lineOf(doc, "spec.template"), "spec.template is %q: want the name of an offer, as kubectl gitbind catalog lists it", fmt.Sprint(value))
		}
	}
	if value := spec["deletionPolicy"]; value != nil {
		text, _ := value.(string)
		switch r.DeletionPolicy = DeletionPolicy(text); r.DeletionPolicy {
		case Refuse, Orphan, Delete:
		default:
			return Request{}, d.problem(lineOf(doc, "spec.deletionPolicy"), "spec.deletionPolicy is %q: want Refuse, Orphan or Delete", fmt.Sprint(value))
		}
	}
	return r, nil
}
