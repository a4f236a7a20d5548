// Package drift tells whether somebody on the control plane changed or took away
// fields of an object that the bridge applied. It is pure.
//
// It compares no values. An API server keeps, in managedFields, which fields an
// applier owns; a client that changes or removes one of them takes it out of that
// list. An object carries a digest of the list as it was applied, so that it
// can be judged by itself, at each event and after a restart.
package drift

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/tenant"
)

// Fields knows which fields of an object an API server counts as one. It may be
// used by many goroutines at once.
type Fields struct{ object typed.ParseableType }

// NewFields takes a definition as the control plane has it, in one version.
func NewFields(live *apiextensionsv1.CustomResourceDefinition, version string) (*Fields, error) {
	_, structural, err := contract.VersionSchema(live, version)
	if err != nil {
		return nil, err
	}
	object := whole(*structural.ToKubeOpenAPI(), true)
	const name = "object"
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: &object}, false)
	if err != nil {
		return nil, fmt.Errorf("fields of %s: %w", live.Name, err)
	}
	parser := typed.Parser{Schema: smdschema.Schema{Types: types.Types}}
	return &Fields{object: parser.Type(name)}, nil
}

// whole adds to the schema of an object, and to those of objects in it, what an
// API server knows of each object and a definition does not say.
func whole(s spec.Schema, isObject bool) spec.Schema {
	for name, property := range s.Properties {
		s.Properties[name] = whole(property, false)
	}
	if s.Items != nil && s.Items.Schema != nil {
		items := whole(*s.Items.Schema, false)
		s.Items.Schema = &items
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		values := whole(*s.AdditionalProperties.Schema, false)
		s.AdditionalProperties.Schema = &values
	}
	embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource")
	if !isObject && !embedded {
		return s
	}
	if s.Properties == nil {
		s.Properties = map[string]spec.Schema{}
	}
	texts := spec.MapProperty(spec.StringProperty())
	metadata := spec.Schema{
		SchemaProps:      spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{"labels": *texts, "annotations": *texts}},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}
	for _, field := range []string{"name", "namespace", "uid", "resourceVersion"} {
		metadata.Properties[field] = *spec.StringProperty()
	}
	s.Properties["apiVersion"], s.Properties["kind"], s.Properties["metadata"] = *spec.StringProperty(), *spec.StringProperty(), metadata
	return s
}

// Mark puts on an object that is to be applied which fields will be the
// bridge's. The error of one that does not fit its definition says where.
func (f *Fields) Mark(u *unstructured.Unstructured) error {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[tenant.FieldsAnnotation] = "" // it is one of them
	u.SetAnnotations(annotations)
	set, err := f.of(u)
	if err != nil {
		delete(annotations, tenant.FieldsAnnotation)
		u.SetAnnotations(annotations)
		return err
	}
	content, err := set.ToJSON()
	if err != nil {
		return fmt.Errorf("mark the fields of %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return fmt.Errorf("mark the fields of %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	annotations[tenant.FieldsAnnotation] = digest(fields)
	u.SetAnnotations(annotations)
	return nil
}

// unowned are fields that identify an object: an API server lists no owner for
// them.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"),
)

func (f *Fields) of(u *unstructured.Unstructured) (*fieldpath.Set, error) {
	value, err := f.object.FromUnstructured(u.Object)
	if err != nil {
		return nil, words(err)
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, err
	}
	return set.Difference(unowned), nil
}

// words leave out of an error what is meant for those who wrote the library.
func words(err error) error {
	var all typed.ValidationErrors
	if !errors.As(err, &all) {
		return err
	}
	var lines []string
	for _, e := range all {
		message, _, _ := strings.Cut(e.ErrorMessage, ", got ")
		lines = append(lines, strings.TrimPrefix(e.Path, ".")+": "+message)
	}
	slices.Sort(lines)
	return errors.New(strings.Join(lines, "; "))
}

// foundKey is where Slim keeps what Found says.
const foundKey = "foundFields"

// Slim takes out of a watched object the lists of fields, which are large, and
// keeps what Found says of them.
func Slim(u *unstructured.Unstructured) {
	found := Found(u)
	u.SetManagedFields(nil)
	SetFound(u, found)
}

// SetFound makes Found say so of an object that has no lists of fields.
func SetFound(u *unstructured.Unstructured, found string) {
	delete(u.Object, foundKey)
	if found != "" {
		u.Object[foundKey] = found
	}
}

// Entry is one of an object's lists of fields.
type Entry struct {
	Manager     string                            `json:"manager"`
	Operation   metav1.ManagedFieldsOperationType `json:"operation"`
	Subresource string                            `json:"subresource"`
	FieldsV1    json.RawMessage                   `json:"fieldsV1"`
}

// FoundIn is Found for an object that is given by its lists of fields and its
// annotations.
func FoundIn(entries []Entry, annotations map[string]string) string {
	found := "none"
	for _, e := range entries {
		if e.Manager != tenant.FieldOwner || e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1, &fields); err != nil {
			return "unreadable"
		}
		found = digest(fields)
	}
	if len(entries) == 0 || found == annotations[tenant.FieldsAnnotation] {
		return ""
	}
	return found
}

// Found names the fields that are the bridge's where these are others than it
// applied, and is "" where they are the same.
func Found(u *unstructured.Unstructured) string {
	if found, ok := u.Object[foundKey].(string); ok {
		return found
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	entries, ok := metadata["managedFields"].([]any)
	if !ok {
		return ""
	}
	found := "none"
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		if e["manager"] != tenant.FieldOwner || e["operation"] != string(metav1.ManagedFieldsOperationApply) || e["subresource"] != nil {
			continue
		}
		fields, _ := e["fieldsV1"].(map[string]any)
		found = digest(fields)
	}
	if found == u.GetAnnotations()[tenant.FieldsAnnotation] {
		return ""
	}
	return found
}

func digest(fields map[string]any) string {
	content, err := json.Marshal(fields)
	if err != nil {
		return "unreadable"
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))[:16]
}

// Change is what somebody did to fields that the bridge applied.
type Change struct {
	// Fields are their paths, sorted: "spec.plan".
	Fields []string
	// Managers are who owns them now, sorted; none where they were taken away.
	Managers []string
}

// Changes says what of an object that is to be applied is not the bridge's in
// the live one, as the API server has it.
func (f *Fields) Changes(wanted, live *unstructured.Unstructured) (Change, error) {
	missing, err := f.of(wanted)
	if err != nil {
		return Change{}, err
	}
	owned := map[string]*fieldpath.Set{}
	for _, entry := range live.GetManagedFields() {
		set := &fieldpath.Set{}
		if entry.FieldsV1 == nil || entry.Subresource != "" {
			continue
		}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return Change{}, fmt.Errorf("read the fields of %s: %w", entry.Manager, err)
		}
		if entry.Manager == tenant.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply {
			missing = missing.Difference(set)
		} else {
			owned[entry.Manager] = set
		}
	}
	var c Change
	missing = missing.Leaves()
	missing.Iterate(func(path fieldpath.Path) { c.Fields = append(c.Fields, strings.TrimPrefix(path.String(), ".")) })
	for manager, set := range owned {
		if !set.Intersection(missing).Empty() {
			c.Managers = append(c.Managers, manager)
		}
	}
	slices.Sort(c.Fields)
	slices.Sort(c.Managers)
	return c, nil
}
