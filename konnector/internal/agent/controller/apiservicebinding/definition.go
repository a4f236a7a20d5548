package apiservicebinding

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// checkName refuses the names that no binding may have: of groups that are
// Kubernetes' own or ours.
func checkName(binding string) error {
	if err := contract.ValidateBinding(binding); err != nil {
		return err
	}
	group := contract.BindingGroup(binding)
	for _, reserved := range []string{"k8s.io", "kubernetes.io", "gitbind.dev"} {
		if group == reserved || strings.HasSuffix(group, "."+reserved) {
			return fmt.Errorf("API group %s is reserved", group)
		}
	}
	if !strings.Contains(group, ".") {
		return fmt.Errorf("API group %s is reserved: groups without a dot are Kubernetes' own", group)
	}
	return nil
}

// definition takes from an export what is to be installed. An export comes from
// Git: whatever it holds beyond the one granted API is refused, not left out, so
// that nobody takes for installed what is not.
func definition(binding, connection string, export []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	var e v1alpha1.APIServiceExport
	if err := contract.Unmarshal(export, &e); err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %w", err)
	}
	switch {
	case e.Kind != "APIServiceExport" || e.APIVersion != v1alpha1.GroupVersion.String():
		return nil, fmt.Errorf("it is a %s %s", e.APIVersion, e.Kind)
	case e.Name != binding || e.Spec.API.BindingName() != binding:
		return nil, fmt.Errorf("it is for another API: %s", e.Name)
	case e.Status.CRD == nil:
		return nil, errors.New("it has no CustomResourceDefinition yet")
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(e.Status.CRD.Raw, &crd); err != nil {
		return nil, fmt.Errorf("its CustomResourceDefinition cannot be read: %w", err)
	}
	if err := checkDefinition(binding, &crd); err != nil {
		return nil, fmt.Errorf("its CustomResourceDefinition is refused: %w", err)
	}
	out := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        binding,
			Labels:      map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector},
			Annotations: map[string]string{v1alpha1.ConnectionAnnotation: connection},
		},
		Spec: crd.Spec,
	}
	prepare(&out.Spec)
	apiextensionsv1.SetDefaults_CustomResourceDefinition(out)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&out.Spec)
	return out, nil
}

// terms are what an export says of an API beside its definition.
type terms struct {
	// MetadataKeys are the labels and annotations that travel beside the usual.
	MetadataKeys contract.Keys `json:"metadataKeys"`
	// Inputs are what goes to the control plane with claims.
	Inputs []v1alpha1.PermissionClaim `json:"inputs"`
	// Changes says how changes that are made here come to main; "" is directly.
	Changes v1alpha1.Changes `json:"changes"`
	// Policies are those of the offer: see package bound.
	Policies []runtime.RawExtension `json:"policies"`
	// Offer is for people. One that has no place in a status is left out: the API is the
	// same without it.
	Offer *v1alpha1.Offer `json:"offer"`
}

// lastTerms are those of the last export that could be used.
func lastTerms(b *v1alpha1.APIServiceBinding) terms {
	return terms{MetadataKeys: b.Status.MetadataKeys, Inputs: b.Status.Inputs, Changes: b.Status.Changes, Offer: b.Status.Offer}
}

// readTerms takes them from an export.
func readTerms(export []byte) (terms, error) {
	var e struct {
		Status terms `json:"status"`
	}
	if err := contract.Unmarshal(export, &e); err != nil {
		return terms{}, fmt.Errorf("it is not valid YAML: %w", err)
	}
	t := e.Status
	if err := t.MetadataKeys.Validate(); err != nil {
		return terms{}, fmt.Errorf("its metadataKeys are refused: %w", err)
	}
	if t.Changes.Reviewed() {
		// Of another way than this konnector knows, the control plane may be newer.
		t.Changes = v1alpha1.ChangesPullRequest
	}
	if err := v1alpha1.ValidateInputs(t.Inputs); err != nil {
		return terms{}, fmt.Errorf("its inputs are refused: %w", err)
	}
	if t.Offer.Validate() != nil {
		t.Offer = nil
	}
	return t, nil
}

// asksForReview reports whether an export that cannot be used otherwise says that changes are
// reviewed. All that is not known to be direct says so.
func asksForReview(export []byte) bool {
	var e struct {
		Status struct {
			Changes any `json:"changes"`
		} `json:"status"`
	}
	if contract.Unmarshal(export, &e) != nil || e.Status.Changes == nil {
		return false
	}
	said, isText := e.Status.Changes.(string)
	return !isText || v1alpha1.Changes(said).Reviewed()
}

func checkDefinition(binding string, crd *apiextensionsv1.CustomResourceDefinition) error {
	s := crd.Spec
	switch {
	case crd.Name != binding || s.Names.Plural+"."+s.Group != binding:
		return fmt.Errorf("it defines %s.%s", s.Names.Plural, s.Group)
	case s.Scope != apiextensionsv1.NamespaceScoped:
		return errors.New("it is not namespaced")
	case s.Conversion != nil && (s.Conversion.Strategy != apiextensionsv1.NoneConverter || s.Conversion.Webhook != nil):
		return errors.New("it converts by a webhook")
	case s.PreserveUnknownFields:
		return errors.New("it keeps fields that its schema does not know")
	}
	storage := 0
	for _, v := range s.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return fmt.Errorf("version %s has no schema", v.Name)
		}
		if v.Storage {
			storage++
		}
	}
	if storage != 1 {
		return fmt.Errorf("it has %d storage versions", storage)
	}
	return nil
}

// prepare makes room in all versions for what the konnector writes.
func prepare(s *apiextensionsv1.CustomResourceDefinitionSpec) {
	for i := range s.Versions {
		if v := &s.Versions[i]; v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			prepareVersion(v)
		}
	}
}

func prepareVersion(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	if v.Subresources == nil {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{}
	}
	if v.Subresources.Status == nil {
		v.Subresources.Status = &apiextensionsv1.CustomResourceSubresourceStatus{}
	}
	// Who changes a claim by way of its scale is not seen by the attribution policy.
	v.Subresources.Scale = nil
	root := v.Schema.OpenAPIV3Schema
	status, ok := root.Properties["status"]
	if !ok {
		status = apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	ours, ok := status.Properties["gitbind"]
	if !ok {
		ours = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	}
	ours = withProperty(ours, "uid", text("The UID of this object: what is said here is about no other."))
	ours = withProperty(ours, "taken", text("The state that admission made of the konnector's last write: it is no edit."))
	ours = withProperty(ours, "hold", hold())
	ours = withProperty(ours, "secrets", secrets())
	ours = withProperty(ours, "secretsSequence", apiextensionsv1.JSONSchemaProps{
		Type: "integer", Format: "int64", Description: "Which list of the claim's Secrets was taken last: no older one is.",
	})
	// All of it is the konnector's. To keep account of each field's owner would
	// take the API server about as long, and as much room, as the status itself.
	status.XMapType = new("atomic")
	*root = withProperty(*root, "status", withProperty(status, "gitbind", ours))
}

func text(description string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "string", Description: description}
}

func hold() apiextensionsv1.JSONSchemaProps {
	item := text("")
	return apiextensionsv1.JSONSchemaProps{
		Type:        "object",
		Description: "What a person is to decide: kubectl gitbind resolve.",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"reason": text("One word for programs."),
			"token":  text("It names what is decided on: after another change it is another one."),
			"choices": {Type: "array", Description: "What can be decided: cluster, file, delete, release or keep.",
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}},
			"kept": text("The branch that keeps the version of this object that lost a conflict."),
			"file": text("What the file on main says."),
		},
	}
}

func secrets() apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		Type:        "array",
		Description: "The Secrets of the service that are in this namespace.",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"name"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"name":  text("Its name."),
				"since": text("When the control plane made it as it is, as RFC 3339."),
			},
		}},
	}
}

func withProperty(s apiextensionsv1.JSONSchemaProps, name string, p apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	properties := map[string]apiextensionsv1.JSONSchemaProps{name: p}
	for k, v := range s.Properties {
		if k != name {
			properties[k] = v
		}
	}
	s.Properties = properties
	return s
}
