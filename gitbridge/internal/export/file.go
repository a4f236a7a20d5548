package export

import (
	"encoding/json"
	"fmt"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Snapshot is a definition as it lies in an export's status.crd. Equal
// definitions give equal bytes.
func Snapshot(crd *apiextensionsv1.CustomResourceDefinition) (*runtime.RawExtension, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", crd.Name, err)
	}
	// What an API server says of a definition that it serves.
	delete(object, "status")
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", crd.Name, err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// Published is what an app cluster gets of an API.
type Published struct {
	CRD *runtime.RawExtension
	// Keys are those of labels and annotations that travel.
	Keys contract.Keys
	// Inputs are what goes up from the app cluster with claims.
	Inputs []v1alpha1.PermissionClaim
	// Changes says how changes in the app cluster come to main; "" is directly.
	Changes v1alpha1.Changes
	// Policies are those that the app cluster's API server judges claims by.
	Policies []runtime.RawExtension
	// Offer is for people; nil where nothing is known.
	Offer *v1alpha1.Offer
}

// File is an export as it lies on the branch status. What only the control
// plane has to do with stays behind. Equal exports give equal bytes.
func File(e *v1alpha1.APIServiceExport, p Published) ([]byte, error) {
	status := map[string]any{"crd": p.CRD}
	if len(p.Keys) > 0 {
		status["metadataKeys"] = p.Keys
	}
	if len(p.Inputs) > 0 {
		status["inputs"] = p.Inputs
	}
	if p.Changes.Reviewed() {
		status["changes"] = p.Changes
	}
	if len(p.Policies) > 0 {
		status["policies"] = p.Policies
	}
	if p.Offer != nil && !reflect.DeepEqual(*p.Offer, v1alpha1.Offer{}) {
		status["offer"] = p.Offer
	}
	out := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "APIServiceExport",
		"metadata":   map[string]any{"name": e.Name},
		"spec":       e.Spec,
		"status":     status,
	}
	data, err := contract.MarshalYAML(out)
	if err != nil {
		return nil, fmt.Errorf("encode export %s: %w", e.Name, err)
	}
	return data, nil
}
