package disconnect

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/test/fakeapi"
)

// What is bound through a Connection that is gone would lose its kind, and its
// claims with it.
func TestNotAllGoesWhileAnythingIsBound(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithObjects(
		&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "here"}},
		&v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: "databases.example.com"}, Spec: v1alpha1.APIServiceBindingSpec{Connection: "gone"}},
	))
	var in Input
	in.Cluster = &appcluster.Cluster{WithWatch: c}
	if connection, err := in.connection(t.Context()); err != nil || connection.Name != "here" {
		t.Errorf("one connection: %v, %v", connection, err)
	}
	in.All = true
	if _, err := in.connection(t.Context()); err == nil || !strings.Contains(err.Error(), "kubectl gitbind unbind databases.example.com") {
		t.Errorf("all: %v", err)
	}
}
