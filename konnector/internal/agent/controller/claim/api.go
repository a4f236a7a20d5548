package claim

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/repository"
)

// servedWithin is how long an API server may take until all of it goes by a new
// definition. Mostly it is a moment.
const servedWithin = time.Minute

// API is a bound API.
type API struct {
	// Binding is its name, "<plural>.<group>".
	Binding    string
	Kind       schema.GroupVersionKind
	Repository *repository.Repository
	// Held are the held files as they were listed before this process began.
	Held []v1alpha1.HeldFile

	// Writer says who may change claims; "" is Both.
	Writer v1alpha1.Writer
	// Review says that changes that are made here are proposed, in all namespaces, and
	// OnRejection what becomes of an object whose change was rejected; "" is Keep.
	Review      bool
	OnRejection v1alpha1.OnRejection

	// Inputs are what goes to the control plane with claims.
	Inputs []v1alpha1.PermissionClaim

	// revision tells one state of the definition from another.
	revision string
	// since is when that state was seen first.
	since time.Time
	// redefined says that there was another definition before.
	redefined bool
	schema    *contract.Schema
	// spec and status are the schemas of these fields.
	spec, status *structural.Structural
}

// NewAPI takes from a definition, as it is installed, what keeping its objects
// in step needs.
func NewAPI(crd *apiextensionsv1.CustomResourceDefinition, repo *repository.Repository) (API, error) {
	s, err := contract.NewSchema(crd)
	if err != nil {
		return API{}, err
	}
	api := API{
		Binding: crd.Name, Repository: repo, schema: s,
		revision: fmt.Sprintf("%s/%d", crd.UID, crd.Generation), since: time.Now(), redefined: crd.Generation > 1,
	}
	for _, v := range crd.Spec.Versions {
		if !v.Storage {
			continue
		}
		api.Kind = schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
		var internal apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &internal, nil); err != nil {
			return API{}, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		whole, err := structural.NewStructural(&internal)
		if err != nil {
			return API{}, fmt.Errorf("schema of %s: %w", crd.Name, err)
		}
		spec, status := whole.Properties["spec"], whole.Properties["status"]
		api.spec, api.status = &spec, &status
	}
	return api, nil
}

// WithKeys is the API with whose claims these labels and annotations travel, too.
func (a API) WithKeys(keys contract.Keys) API {
	a.schema = a.schema.WithKeys(keys)
	a.revision += " " + strings.Join(keys, " ")
	return a
}

// WithInputs is the API with whose claims these objects go to the control plane.
func (a API) WithInputs(in []v1alpha1.PermissionClaim) API {
	a.Inputs = in
	if len(in) > 0 {
		a.revision += fmt.Sprint(" ", in)
	}
	return a
}

// asStored is a status as the API server will keep it: without fields that the
// schema does not know, and with its defaults. Otherwise what was written would
// never be what is read, and would be written again and again.
func (a API) asStored(status map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(status)
	pruning.Prune(out, a.status, false)
	defaulting.PruneNonNullableNullsWithoutDefaults(out, a.status)
	defaulting.Default(out, a.status)
	return out
}
