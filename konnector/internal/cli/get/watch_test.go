package get

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
)

func TestClaimsAreFollowedWhereTheyMayBeListed(t *testing.T) {
	t.Parallel()
	archive := schema.GroupVersionKind{Group: "example.net", Version: "v1", Kind: "Archive"}
	scheme := fakeapi.Scheme()
	scheme.AddKnownTypeWithName(archive, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(archive.GroupVersion().WithKind("ArchiveList"), &unstructured.UnstructuredList{})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(archive, meta.RESTScopeNamespace)
	const own = "team-a"
	refused := func(list client.ObjectList, opts []client.ListOption) (namespace string, err error) {
		namespace = (&client.ListOptions{}).ApplyOptions(opts).Namespace
		if list.GetObjectKind().GroupVersionKind().Group == archive.Group && namespace != own {
			err = apierrors.NewForbidden(schema.GroupResource{Group: archive.Group, Resource: "archives"}, "", nil)
		}
		return namespace, err
	}
	watched := make(chan string, 100)
	api := fakeapi.New(fakeapi.Builder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(
		&v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: "archives.example.net"}},
	), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, err := refused(list, opts); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			namespace, err := refused(list, opts)
			if err != nil {
				return nil, err
			}
			watched <- namespace
			return c.Watch(ctx, list, opts...)
		},
	})
	in := Input{Selector: labels.Everything(), Watch: true}
	in.Cluster = &appcluster.Cluster{WithWatch: api, Namespace: own}
	in.Terminal, in.Notes, in.Now = terminal.Open(nil, io.Discard), io.Discard, time.Now
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- claims(ctx, in) }()
	select {
	case <-watched:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Error("the claims that may be listed are not watched")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
