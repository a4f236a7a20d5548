package disconnect

import (
	"bytes"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

// What is bound through a Connection that is gone would lose its kind, and its
// claims with it.
func TestNotAllGoesWhileAnythingIsBound(t *testing.T) {
	c := fakeapi.New(fakeapi.Builder().WithObjects(
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

// Backend and bridge are in a namespace of the same name as the konnector, with all
// repositories.
func TestTheNamespaceStaysForWhatConnectDidNotPutIntoIt(t *testing.T) {
	within := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: name}
	}
	crd := func(name string) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	connections, clusterBindings := crd("connections.gitbind.dev"), crd("clusterbindings.gitbind.dev")
	konnector, backend := &appsv1.Deployment{ObjectMeta: within("konnector")}, &appsv1.Deployment{ObjectMeta: within("gitbind-backend")}
	repositories := &corev1.PersistentVolumeClaim{ObjectMeta: within("gitbind-git")}
	const here = `prod, at https://prod.example.com, `
	for _, c := range []struct {
		what    string
		objects []client.Object
		stays   bool
		says    string
		err     string
	}{
		{what: "an app cluster", objects: []client.Object{connections, konnector},
			says: here + "has no connection. What connect installed there goes:\n  gitbind's kinds, rights and policies, the konnector and its namespace gitbind-system go\n"},
		{what: "a control plane", objects: []client.Object{clusterBindings, backend, repositories}, stays: true,
			err: here + "is no app cluster but a control plane: it has customresourcedefinition/clusterbindings.gitbind.dev, deployment/gitbind-backend, persistentvolumeclaim/gitbind-git, and no konnector. Name the app cluster's context with --context"},
		{what: "a control plane whose programs run elsewhere", objects: []client.Object{clusterBindings}, stays: true, err: "but a control plane"},
		{what: "a control plane whose kinds are gone", objects: []client.Object{backend}, stays: true, err: "but a control plane"},
		{what: "a control plane that was connected to another one", objects: []client.Object{connections, konnector, clusterBindings, backend, repositories}, stays: true,
			says: "  gitbind's kinds, rights and policies and the konnector go\n  namespace/gitbind-system stays, with customresourcedefinition/clusterbindings.gitbind.dev, deployment/gitbind-backend, persistentvolumeclaim/gitbind-git\n"},
		{what: "somebody's own volume", objects: []client.Object{connections, konnector, repositories}, stays: true, says: "namespace/gitbind-system stays, with persistentvolumeclaim/gitbind-git\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appcluster.SystemNamespace}}
			api := fakeapi.New(fakeapi.Builder().WithObjects(ns))
			for _, o := range c.objects {
				if err := api.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			in := Input{All: true, Yes: true}
			in.Cluster = &appcluster.Cluster{WithWatch: api, Context: "prod", Server: "https://prod.example.com"}
			in.Terminal = terminal.Open(nil, &out)
			err := Do(t.Context(), in)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it says:\n%s\nwant\n%s", &out, c.says)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); apierrors.IsNotFound(err) == c.stays {
				t.Errorf("the namespace: %v", err)
			}
			for _, o := range c.objects {
				ours := o == connections || o == konnector
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object)); apierrors.IsNotFound(err) != ours {
					t.Errorf("%T %s: %v", o, o.GetName(), err)
				}
			}
		})
	}
}

// What connect installed is left half removed by a command that named the Connection, which is the
// first to go.
func TestInterruptedTheSameCommandGoesOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "default"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appcluster.SystemNamespace}}
		api := fakeapi.New(fakeapi.Builder().WithObjects(ns))
		in := Input{Name: name, All: true, Yes: true}
		in.Cluster, in.Terminal = &appcluster.Cluster{WithWatch: api}, terminal.Open(nil, &bytes.Buffer{})
		if err := Do(t.Context(), in); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("%q: the namespace: %v", name, err)
		}
	}
}

// answer does something before it says yes.
type answer func() error

func (a answer) Read(p []byte) (int, error) { return copy(p, "y\n"), a() }

// An API that is bound while the person is asked would lose its Connection, or its kind.
func TestNothingGoesIfAnAPIIsBoundBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what      string
		all       bool
		connected bool
		through   string
	}{
		{"through the Connection", false, true, "default"},
		{"through the Connection, and all is to go", true, true, "default"},
		{"through another one, and all is to go", true, true, "gone"},
		{"where all is to go that is left", true, false, "gone"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			there := []client.Object{&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "connections.gitbind.dev"}},
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: appcluster.SystemNamespace, Name: "konnector"}}}
			if c.connected {
				secret := v1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-default"}
				there = append(there, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}},
					&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ConnectionSpec{SecretRef: secret}})
			}
			api := fakeapi.New(fakeapi.Builder().WithObjects(there...))
			in := Input{All: c.all}
			in.Cluster = &appcluster.Cluster{WithWatch: api}
			in.Terminal = terminal.Open(answer(func() error {
				return api.Create(t.Context(), &v1alpha1.APIServiceBinding{
					ObjectMeta: metav1.ObjectMeta{Name: "databases.example.com"}, Spec: v1alpha1.APIServiceBindingSpec{Connection: c.through},
				})
			}), &bytes.Buffer{})
			in.Terminal.Interactive = true
			if err := Do(t.Context(), in); err == nil || !strings.Contains(err.Error(), "still bound: databases.example.com") {
				t.Errorf("error: %v", err)
			}
			for _, o := range there {
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
