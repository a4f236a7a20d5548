package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Condition types of an APIServiceExportTemplate.
const (
	// ConditionOffered says that the template's API is served and can be bound.
	// The backend writes it.
	ConditionOffered = "Offered"
	// ConditionTransformValid says that the template's patches can be used. The
	// bridge writes it.
	ConditionTransformValid = "TransformValid"
	// ConditionPoliciesValid says that the template's policies can be used. The bridge
	// writes it.
	ConditionPoliciesValid = "PoliciesValid"
)

// APIServiceExportTemplate is an offer by a platform operator: one API that app
// clusters may bind. Who may bind it is RBAC: verb "bind" on
// apiserviceexporttemplates/<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=gitbind
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.spec.api.resource`
// +kubebuilder:printcolumn:name="API Group",type=string,JSONPath=`.spec.api.group`
// +kubebuilder:printcolumn:name="Catalogue",type=string,JSONPath=`.spec.group`,priority=1
// +kubebuilder:printcolumn:name="Offered",type=string,JSONPath=`.status.conditions[?(@.type=="Offered")].status`
// +kubebuilder:printcolumn:name="Transform",type=string,JSONPath=`.status.conditions[?(@.type=="TransformValid")].status`,priority=1
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.conditions[?(@.type=="PoliciesValid")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type APIServiceExportTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   APIServiceExportTemplateSpec   `json:"spec"`
	Status APIServiceExportTemplateStatus `json:"status,omitempty"`
}

// APIServiceExportTemplateSpec describes the offer.
type APIServiceExportTemplateSpec struct {
	API ExportedAPI `json:"api"`

	// DisplayName is how people know the offer, for example "PostgreSQL"; without
	// it the API's kind stands in.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^\\\\S(.*\\\\S)?$')",message="displayName must be one line without blanks around it, for example PostgreSQL"
	DisplayName string `json:"displayName,omitempty"`

	// Group is under which heading the catalogue lists the offer, for example
	// "Databases".
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^\\\\S(.*\\\\S)?$')",message="group must be one line without blanks around it, for example Databases"
	Group string `json:"group,omitempty"`

	// Description tells developers what they order.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// References say which fields of a claim name the claim that it belongs to, so
	// that people see an instance with its bindings and backups as one thing. Nothing
	// is decided by them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	References []Reference `json:"references,omitempty"`

	// Transform changes each claim before it is applied on the control plane. The
	// file in Git and the claim in the app cluster stay as they are; what was
	// changed is shown in the claim's status on the branch status.
	// +optional
	Transform *Transform `json:"transform,omitempty"`

	// Policies are ValidatingAdmissionPolicies, with their bindings and the objects of their
	// paramKinds. The bridge judges each new and changed claim by them before it applies it,
	// after Transform, as if it were in the app cluster: in its namespace there. Only what
	// every gate can know may be asked for (docs/policies.md). A claim that is as it was,
	// and one that goes, is never denied.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XEmbeddedResource
	// +kubebuilder:validation:items:XPreserveUnknownFields
	Policies []runtime.RawExtension `json:"policies,omitempty"`

	// Quota bounds what each app cluster may have of the API. What is there when it is set
	// or lowered stays, and may be changed to weigh no more than it does.
	// +optional
	Quota *Quota `json:"quota,omitempty"`

	// Changes says how a change of a claim that somebody makes in an app cluster comes to
	// main. With PullRequest the konnector proposes it on a branch changes/…, and it counts
	// once somebody has approved it. Each app cluster may ask for that by itself, for an API
	// or a namespace.
	// +optional
	Changes Changes `json:"changes,omitempty"`

	// MetadataKeys are labels and annotations that travel with claims, from the app
	// cluster to Git and to the control plane, beside those that always do: keys
	// without a prefix, and those of app.kubernetes.io/. An element is one key, for
	// example "example.com/cost-center", or "example.com/" for all of a prefix. What
	// does not travel stays where it was written.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="metadataKeys: each is a key with a prefix, or a prefix with a slash, for example example.com/cost-center or example.com/"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^([^/]*[.])?(gitbind[.]dev|kubernetes[.]io|k8s[.]io|crossplane[.]io|helm[.]sh|argoproj[.]io|fluxcd[.]io|cattle[.]io|tilt[.]dev|skaffold[.]dev|velero[.]io)/')",message="metadataKeys: what tools and servers keep for themselves never travels"
	MetadataKeys []string `json:"metadataKeys,omitempty"`

	// ReadyCondition is the type of the condition in the status of a claim's object on
	// the control plane that says whether the service can be used: "Ready" if it is
	// left out.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="readyCondition is the type of a condition, for example Issued"
	ReadyCondition string `json:"readyCondition,omitempty"`

	// PermissionClaims name the Secrets that travel with a claim to its app cluster,
	// beside the connection Secret of a Crossplane claim, and the Secrets and ConfigMaps
	// of the app cluster that travel with it to the control plane: always between the
	// claim's namespace there and here, under the same name. What goes down is read, and
	// what comes up is written, with the tenant's rights, which the bridge gives it by the
	// ClusterRoles gitbind:claim-secrets and gitbind:claim-inputs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PermissionClaims []PermissionClaim `json:"permissionClaims,omitempty"`
}

// Quota bounds what an app cluster may have of an API.
//
// +kubebuilder:validation:XValidation:rule="has(self.cluster) || has(self.namespace)",message="give a limit for the cluster, for each namespace, or both"
// +kubebuilder:validation:XValidation:rule="has(self.weights) || !(has(self.cluster) && has(self.cluster.weight)) && !(has(self.namespace) && has(self.namespace.weight))",message="a limit by weight needs weights"
type Quota struct {
	// Cluster bounds what an app cluster may have in all.
	// +optional
	Cluster *QuotaLimit `json:"cluster,omitempty"`

	// Namespace bounds what it may have in each of its namespaces.
	// +optional
	Namespace *QuotaLimit `json:"namespace,omitempty"`

	// Weights say what a claim weighs.
	// +optional
	Weights *QuotaWeights `json:"weights,omitempty"`
}

// String tells one quota from another.
func (q *Quota) String() string {
	text, _ := json.Marshal(q)
	return string(text)
}

// Hash tells one quota from another, in 16 characters.
func (q *Quota) Hash() string {
	sum := sha256.Sum256([]byte(q.String()))
	return hex.EncodeToString(sum[:8])
}

// QuotaLimit is how much there may be.
//
// +kubebuilder:validation:XValidation:rule="has(self.claims) || has(self.weight)",message="give claims, weight, or both"
type QuotaLimit struct {
	// Claims is how many there may be.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Claims *int64 `json:"claims,omitempty"`

	// Weight is how much they may weigh together.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Weight *int64 `json:"weight,omitempty"`
}

// QuotaWeights say what a claim weighs by one of its fields, after Transform.
type QuotaWeights struct {
	// Field is a path in spec, for example "spec.plan".
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^spec([.][A-Za-z][A-Za-z0-9_-]*)+$')",message="field is a path in spec, for example spec.plan"
	Field string `json:"field"`

	// Values are the weights by the field's value, as text.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(v, self[v] >= 0)",message="a weight is 0 or more"
	Values map[string]int64 `json:"values"`

	// Default is the weight of any other value, and of none: 1 if it is left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Default *int64 `json:"default,omitempty"`
}

// Path is the field's, by its steps.
func (w *QuotaWeights) Path() []string { return strings.Split(w.Field, ".") }

// Direction says where something travels.
//
// +kubebuilder:validation:Enum=Down;Up
type Direction string

const (
	// DirectionDown is from the control plane to the app cluster, the default.
	DirectionDown Direction = "Down"
	// DirectionUp is from the app cluster to the control plane.
	DirectionUp Direction = "Up"
)

// Resource is what kind of object travels, as RBAC calls it.
//
// +kubebuilder:validation:Enum=secrets;configmaps
type Resource string

const (
	// ResourceSecrets are the default.
	ResourceSecrets Resource = "secrets"
	// ResourceConfigMaps only go up.
	ResourceConfigMaps Resource = "configmaps"
)

// Kind is the kind of such objects: "Secret" or "ConfigMap".
func (r Resource) Kind() string {
	if r == ResourceConfigMaps {
		return "ConfigMap"
	}
	return "Secret"
}

// PermissionClaim names Secrets of a claim, or ConfigMaps, in one of three ways.
//
// +kubebuilder:validation:XValidation:rule="!has(self.resource) || self.resource == 'secrets' || has(self.direction) && self.direction == 'Up'",message="only Secrets go down: direction is Up for configmaps"
// +kubebuilder:validation:XValidation:rule="!has(self.field) || self.field.startsWith(has(self.direction) && self.direction == 'Up' ? 'spec.' : 'status.')",message="field is a path in status, for example status.managed.secret.name; with direction Up it is one in spec, for example spec.caSecretRef.name"
// +kubebuilder:validation:XValidation:rule="[has(self.name), has(self.field), has(self.matchLabels) && size(self.matchLabels) > 0].filter(x, x).size() == 1",message="give exactly one of name, field and matchLabels"
type PermissionClaim struct {
	// Direction is Down, to the app cluster, or Up, from there to the control plane.
	// +optional
	Direction Direction `json:"direction,omitempty"`

	// Resource is secrets, or configmaps, which only go up.
	// +optional
	Resource Resource `json:"resource,omitempty"`

	// Name is the Secret's, in which "$(name)" stands for the claim's: for example
	// "$(name)-service-binding".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([-a-z0-9.]|[$][(]name[)])+$')",message="name is lower-case letters, digits, '-' and '.', and $(name) for the claim's name, for example $(name)-creds"
	Name string `json:"name,omitempty"`

	// Field is where the claim's object on the control plane holds the Secret's name,
	// for example "status.managed.secret.name". Of what goes up it is where the claim
	// itself does, for example "spec.caSecretRef.name".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^(spec|status)([.][A-Za-z][A-Za-z0-9_-]*)+$')",message="field is a path in status or spec, for example status.managed.secret.name"
	Field string `json:"field,omitempty"`

	// MatchLabels chooses the Secrets that have all of these labels. In values "$(name)" stands
	// for the claim's name. These labels go up with an object, and no others.
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// Keys are those that travel; without any all do.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Keys []string `json:"keys,omitempty"`
}

// Of are the claims of one direction, nil for none.
func (d Direction) Of(claims []PermissionClaim) []PermissionClaim {
	var out []PermissionClaim
	for _, c := range claims {
		if cmp.Or(c.Direction, DirectionDown) == d {
			out = append(out, c)
		}
	}
	return out
}

var (
	inputName  = regexp.MustCompile(`^([-a-z0-9.]|[$][(]name[)])+$`)
	inputField = regexp.MustCompile(`^spec([.][A-Za-z][A-Za-z0-9_-]*)+$`)
)

// ValidateInputs tells whether permission claims may stand in a status as what goes up: an
// app cluster has them from Git.
func ValidateInputs(claims []PermissionClaim) error {
	if len(claims) > 16 {
		return errors.New("there are more than 16")
	}
	for i, c := range claims {
		ways := 0
		for _, has := range []bool{c.Name != "", c.Field != "", len(c.MatchLabels) > 0} {
			if has {
				ways++
			}
		}
		switch {
		case c.Direction != DirectionUp:
			return fmt.Errorf("inputs[%d] does not go up", i)
		case c.Resource != "" && c.Resource != ResourceSecrets && c.Resource != ResourceConfigMaps:
			return fmt.Errorf("inputs[%d] is neither of secrets nor of configmaps", i)
		case ways != 1:
			return fmt.Errorf("inputs[%d] has not exactly one of name, field and matchLabels", i)
		case c.Name != "" && (len(c.Name) > maxField || !inputName.MatchString(c.Name)), c.Field != "" && (len(c.Field) > maxField || !inputField.MatchString(c.Field)):
			return fmt.Errorf("inputs[%d] has a name that none can have, or a field that is no path in spec", i)
		case len(c.MatchLabels) > 8 || len(c.Keys) > 64:
			return fmt.Errorf("inputs[%d] has more than 8 labels or 64 keys", i)
		}
	}
	return nil
}

// Transform says what the platform makes of a claim.
type Transform struct {
	// Patches are applied in this order, each to what the one before it made.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Patches []Patch `json:"patches"`
}

// Patch is a kustomize patch of the claim as it is on the control plane. It may
// change metadata.labels, metadata.annotations and spec, and nothing else.
type Patch struct {
	// Patch is YAML: a strategic merge patch (a part of the object) or a JSON
	// patch (RFC 6902, a list of operations).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`

	// Target chooses the claims that are patched; without it all are.
	// +optional
	Target *PatchTarget `json:"target,omitempty"`
}

// PatchTarget chooses claims.
type PatchTarget struct {
	// LabelSelector is on the labels of the claim, to which gitbind.dev/cluster
	// (the cluster's id), gitbind.dev/namespace and gitbind.dev/name belong:
	// "tier=gold,gitbind.dev/cluster in (k3x9, a7c2)".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LabelSelector string `json:"labelSelector"`
}

// ExportedAPI names one version of one namespaced resource of the control
// plane.
type ExportedAPI struct {
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",message="group must be a domain in lower case, for example anynines.com"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('.k8s.io') && self != 'k8s.io' && self != 'gitbind.dev'",message="group is reserved: offer an API of your own group"
	Group string `json:"group"`
	// Version is the served version that travels.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^v[0-9]+((alpha|beta)[0-9]+)?$')",message="version must be one such as v1 or v1alpha1"
	Version string `json:"version"`
	// Resource is the plural name, for example "postgresqlinstances".
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="resource must be the plural name in lower case, for example postgresqlinstances"
	Resource string `json:"resource"`
}

// BindingName is the name of the API's binding and of its folder in Git:
// "<plural>.<group>".
func (a ExportedAPI) BindingName() string { return a.Resource + "." + a.Group }

// APIServiceExportTemplateStatus says whether the offer can be taken.
type APIServiceExportTemplateStatus struct {
	// Kind is the API's kind, as the control plane serves it.
	// +optional
	Kind string `json:"kind,omitempty"`

	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// APIServiceExportTemplateList is a list of APIServiceExportTemplates.
//
// +kubebuilder:object:root=true
type APIServiceExportTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []APIServiceExportTemplate `json:"items"`
}
