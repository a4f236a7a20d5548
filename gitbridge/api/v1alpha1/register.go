package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of all kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "gitbind.dev", Version: "v1alpha1"}

// AddToScheme makes the kinds of this package known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Connection{}, &ConnectionList{},
		&APIServiceBinding{}, &APIServiceBindingList{},
		&ClusterBinding{}, &ClusterBindingList{},
		&APIServiceExportTemplate{}, &APIServiceExportTemplateList{},
		&APIServiceExport{}, &APIServiceExportList{},
		&DryRun{}, &DryRunList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
