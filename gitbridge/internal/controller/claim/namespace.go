package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/internal/tenant"
)

var (
	// errForeignNamespace says that somebody else made the namespace, or
	// changed it.
	errForeignNamespace = errors.New("the namespace is not this cluster's")
	// errTerminatingNamespace says that the namespace is going.
	errTerminatingNamespace = errors.New("the namespace is being deleted")
	// errTooManyNamespaces says that the cluster has as many as it may.
	errTooManyNamespaces = errors.New("the cluster has no room for another namespace")
)

// namespaces makes the claim namespaces of one cluster, each once.
type namespaces struct {
	cluster tenant.Cluster
	client  kubernetes.Interface
	// most is how many there may be; 0 means any number.
	most int

	// counting guards what is below it: how many there are, at least, and when
	// that was looked at.
	counting  sync.Mutex
	have      int
	countedAt time.Time

	making singleflight.Group
	// done has those that are there.
	done sync.Map
}

// ensure makes the namespace for the claims of one namespace of the app cluster,
// with the tenant's rights in it. Callers at the same time share one attempt and
// its error. It is made with the context of the first of them: the contexts of
// one controller's workers end together.
func (n *namespaces) ensure(ctx context.Context, namespace string) error {
	_, err, _ := n.making.Do(namespace, func() (any, error) {
		if _, ok := n.done.Load(namespace); ok {
			return nil, nil
		}
		if err := n.make(ctx, namespace); err != nil {
			return nil, err
		}
		if err := n.bind(ctx, n.cluster.ClaimNamespace(namespace), tenant.RoleBinding, n.cluster.ClusterRole()); err != nil {
			return nil, err
		}
		n.done.Store(namespace, true)
		return nil, nil
	})
	return err
}

// forget has a namespace looked at again before it is used.
func (n *namespaces) forget(namespace string) {
	n.done.Delete(namespace)
	n.mayNotReadSecrets(n.cluster.ClaimNamespace(namespace))
	n.mayNotWriteInputs(n.cluster.ClaimNamespace(namespace))
}

func (n *namespaces) make(ctx context.Context, namespace string) error {
	want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        n.cluster.ClaimNamespace(namespace),
		Labels:      map[string]string{tenant.ClusterLabel: n.cluster.ID, tenant.ClusterUIDLabel: n.cluster.UID},
		Annotations: map[string]string{tenant.NamespaceLabel: namespace},
	}}
	got, err := n.client.CoreV1().Namespaces().Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := n.reserve(ctx); err != nil {
			return err
		}
		got, err = n.client.CoreV1().Namespaces().Create(ctx, want, metav1.CreateOptions{FieldManager: tenant.FieldOwner})
	}
	if err != nil {
		return fmt.Errorf("make namespace %s: %w", want.Name, err)
	}
	return n.check(got, namespace)
}

// check says why a namespace cannot be used for the claims of one of the app cluster.
func (n *namespaces) check(got *corev1.Namespace, namespace string) error {
	switch {
	case got.Labels[tenant.ClusterLabel] != n.cluster.ID, got.Labels[tenant.ClusterUIDLabel] != n.cluster.UID,
		got.Annotations[tenant.NamespaceLabel] != namespace:
		return fmt.Errorf("use namespace %s: %w", got.Name, errForeignNamespace)
	case got.DeletionTimestamp != nil:
		return fmt.Errorf("use namespace %s: %w", got.Name, errTerminatingNamespace)
	}
	return nil
}

// isThere reports whether the namespace for the claims of one of the app cluster was made,
// and can be used.
func (n *namespaces) isThere(ctx context.Context, namespace string) (bool, error) {
	got, err := n.client.CoreV1().Namespaces().Get(ctx, n.cluster.ClaimNamespace(namespace), metav1.GetOptions{})
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, n.check(got, namespace)
}

// countAgain is how long a count holds of which there is no room: namespaces go,
// too, and many claims may ask.
const countAgain = 10 * time.Second

// reserve counts one namespace more, if there may be one.
func (n *namespaces) reserve(ctx context.Context) error {
	n.counting.Lock()
	defer n.counting.Unlock()
	if n.most == 0 {
		return nil
	}
	if (n.countedAt.IsZero() || n.have >= n.most) && time.Since(n.countedAt) > countAgain {
		list, err := n.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
			LabelSelector: tenant.ClusterUIDLabel + "=" + n.cluster.UID, Limit: int64(n.most),
		})
		if err != nil {
			return fmt.Errorf("count namespaces: %w", err)
		}
		n.have, n.countedAt = len(list.Items), time.Now()
	}
	if n.have >= n.most {
		return fmt.Errorf("%w: %d", errTooManyNamespaces, n.most)
	}
	n.have++
	return nil
}

// letReadSecrets gives the tenant the right to read Secrets in a claim namespace.
func (n *namespaces) letReadSecrets(ctx context.Context, name string) error {
	return n.let(ctx, name, tenant.SecretsRoleBinding, v1alpha1.ClaimSecrets)
}

// letWriteInputs gives it the right to write what is sent with claims there.
func (n *namespaces) letWriteInputs(ctx context.Context, name string) error {
	return n.let(ctx, name, tenant.InputsRoleBinding, v1alpha1.ClaimInputs)
}

// let gives the tenant the rights of a ClusterRole in a claim namespace, once.
func (n *namespaces) let(ctx context.Context, name, binding, role string) error {
	_, err, _ := n.making.Do(name+"/"+binding, func() (any, error) {
		if _, ok := n.done.Load(name + "/" + binding); ok {
			return nil, nil
		}
		if err := n.bind(ctx, name, binding, role); err != nil {
			return nil, err
		}
		n.done.Store(name+"/"+binding, true)
		return nil, nil
	})
	return err
}

// mayNotReadSecrets has the right given again, and mayNotWriteInputs the other one.
func (n *namespaces) mayNotReadSecrets(name string) {
	n.done.Delete(name + "/" + tenant.SecretsRoleBinding)
}

func (n *namespaces) mayNotWriteInputs(name string) {
	n.done.Delete(name + "/" + tenant.InputsRoleBinding)
}

// bind gives the tenant the rights of a ClusterRole in a claim namespace. It goes with the
// ClusterBinding; the namespace, which has the services, stays.
func (n *namespaces) bind(ctx context.Context, name, binding, role string) error {
	want := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name, Name: binding, Labels: map[string]string{tenant.ClusterLabel: n.cluster.ID},
			OwnerReferences: v1alpha1.ClusterOwners(n.cluster.ID, types.UID(n.cluster.UID), nil),
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.cluster.Namespace, Name: v1alpha1.TenantServiceAccount}},
	}
	got, err := n.client.RbacV1().RoleBindings(name).Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		got, err = n.client.RbacV1().RoleBindings(name).Create(ctx, want, metav1.CreateOptions{FieldManager: tenant.FieldOwner})
	}
	if err != nil {
		return fmt.Errorf("make the tenant's role binding in %s: %w", name, err)
	}
	if got.RoleRef != want.RoleRef || len(got.Subjects) != 1 || got.Subjects[0] != want.Subjects[0] {
		return fmt.Errorf("use the role binding in %s: %w", name, errForeignNamespace)
	}
	return nil
}
