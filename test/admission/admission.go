// Package admission asks a real API server what its policies say of a change, and compares
// that with a verdict of policies/evaluator.
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/policies/evaluator"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

// Start starts an API server for a test, asked as its administrator.
func Start(t *testing.T) *Server {
	t.Helper()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.App}, NoControllerManager: true})
	config, err := clientcmd.BuildConfigFromFlags("", e.Cluster(env.App).Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.WarningHandlerWithContext = warnings{}
	c, err := client.New(config, client.Options{Scheme: fakeapi.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &Server{c}
}

// Server is an API server, as its administrator has it.
type Server struct{ client.Client }

// Make creates objects.
func (s *Server) Make(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := s.Create(t.Context(), o); err != nil {
			t.Fatalf("create %s: %v", o.GetName(), err)
		}
	}
}

// MakeNamespaces creates namespaces.
func (s *Server) MakeNamespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		s.Make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// Serve makes kinds of a scope whose objects may have any content, and waits until they are
// there.
func (s *Server) Serve(t *testing.T, scope apiextensionsv1.ResourceScope, kinds ...schema.GroupVersionKind) {
	t.Helper()
	for _, kind := range kinds {
		singular := strings.ToLower(kind.Kind)
		s.Make(t, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: kind.Group, Scope: scope,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Kind: kind.Kind, ListKind: kind.Kind + "List", Singular: singular},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: kind.Version, Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
				}},
			},
		})
	}
	for _, kind := range kinds {
		Wait(t, kind.Kind+" is served", func() error {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(kind)
			if scope == apiextensionsv1.NamespaceScoped {
				u.SetNamespace(metav1.NamespaceDefault)
			}
			u.SetName("probe")
			return s.Create(t.Context(), u, client.DryRunAll)
		})
	}
}

// Wait waits until there is no error any more.
func Wait(t *testing.T, what string, look func() error) {
	t.Helper()
	if err := env.Await(2*time.Minute, look); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Compare has the API server judge a change, of which it keeps nothing; an old object has
// to be there. It says how verdict, words, reason and warnings are other ones than v's, ""
// if they are not.
func (s *Server) Compare(ctx context.Context, change evaluator.Change, v evaluator.Verdict) string {
	var warned []string
	err := s.ask(context.WithValue(ctx, warnings{}, &warned), change)
	if !slices.Equal(warned, v.Warnings) {
		return fmt.Sprintf("the API server warns %q, the evaluator %q", warned, v.Warnings)
	}
	if v.Allowed() {
		if err != nil {
			return fmt.Sprintf("the API server says %v, the evaluator allows it", err)
		}
		return ""
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprintf("the API server says %v, the evaluator %s", err, v.Denials[0])
	}
	// Of several denials it tells one.
	got := status.Status()
	if slices.ContainsFunc(v.Denials, func(d evaluator.Denial) bool {
		return strings.HasSuffix(got.Message, ": "+d.String()) && got.Reason == d.Reason
	}) {
		return ""
	}
	return fmt.Sprintf("the API server says %s: %s\nthe evaluator %s: %s", got.Reason, got.Message, v.Denials[0].Reason, v.Denials[0])
}

func (s *Server) ask(ctx context.Context, change evaluator.Change) error {
	if change.OldObject == nil {
		return s.Create(ctx, change.Object.DeepCopy(), client.DryRunAll)
	}
	live := change.OldObject.DeepCopy()
	if err := s.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return err
	}
	if change.Object == nil {
		return s.Delete(ctx, live, client.DryRunAll)
	}
	u := change.Object.DeepCopy()
	u.SetResourceVersion(live.GetResourceVersion())
	return s.Update(ctx, u, client.DryRunAll)
}

// warnings puts a request's warnings where its context says, by this type.
type warnings struct{}

func (warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if all, ok := ctx.Value(warnings{}).(*[]string); ok && code == 299 {
		*all = append(*all, text)
	}
}
