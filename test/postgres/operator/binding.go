package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	postgresql "gitbind.dev/test/postgres/api/postgresql/v1beta3"
	servicebinding "gitbind.dev/test/postgres/api/servicebinding/v1beta3"
	postgres "gitbind.dev/test/postgres/server"
)

// bindings makes users of instances. The password is in the Secret alone: who deletes
// the Secret gets another one with a new password, and the old one no longer works.
type bindings struct{ base }

// Reconcile makes user and Secret of a ServiceBinding.
func (r *bindings) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &servicebinding.ServiceBinding{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		return r.delete(ctx, b)
	}
	if controllerutil.AddFinalizer(b, finalizer) {
		if err := r.Update(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
	}
	was := *b.Status.DeepCopy()
	trouble := r.implement(ctx, b)
	b.Status.Error = ""
	if trouble != nil {
		b.Status.Error = trouble.Error()
	}
	if !equality.Semantic.DeepEqual(was, b.Status) {
		if err := r.Status().Update(ctx, b); err != nil {
			return ctrl.Result{}, err
		}
	}
	if trouble != nil {
		return ctrl.Result{RequeueAfter: troubleInterval}, nil
	}
	return ctrl.Result{}, nil
}

// implement sets a status besides: what was implemented stays so while its server is
// started again.
func (r *bindings) implement(ctx context.Context, b *servicebinding.ServiceBinding) error {
	at := b.Spec.Instance.NamespacedName
	if at.Namespace != b.Namespace {
		return fmt.Errorf("the instance is in namespace %s: a binding must be in its instance's namespace", at.Namespace)
	}
	_, i, err := r.instance(ctx, client.ObjectKey{Namespace: at.Namespace, Name: at.Name})
	if err != nil {
		return err
	}
	secret, err := r.secret(ctx, b)
	if err != nil {
		return err
	}
	password := string(secret.Data["password"])
	if secret.UID == "" {
		password = rand.Text()
	}
	if err := i.EnsureUser(ctx, username(b), password); err != nil {
		return err
	}
	if err := r.write(ctx, b, i, secret, password); err != nil {
		return err
	}
	b.Status.Implemented = true
	b.Status.Secret = &servicebinding.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	return nil
}

// username is the same for as long as the binding is there.
func username(b *servicebinding.ServiceBinding) string {
	return "a8s-sb-" + strings.ReplaceAll(string(b.UID), "-", "")[:16]
}

// secret is the binding's, without a UID if it is not there.
func (r *bindings) secret(ctx context.Context, b *servicebinding.ServiceBinding) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: b.Namespace, Name: b.Name + "-service-binding"}
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, nil
	case err == nil && !metav1.IsControlledBy(secret, b):
		err = fmt.Errorf("the Secret %s belongs to somebody else: delete it, or give the binding another name", key.Name)
	case err == nil && !secret.DeletionTimestamp.IsZero():
		err = fmt.Errorf("the Secret %s is being deleted", key.Name)
	}
	return secret, err
}

// write makes the Secret. It cannot be changed: one that leads elsewhere, since the
// server has another port, is replaced.
func (r *bindings) write(ctx context.Context, b *servicebinding.ServiceBinding, i *postgres.Instance, secret *corev1.Secret, password string) error {
	host, port, err := i.Address()
	if err != nil {
		return err
	}
	at := b.Spec.Instance.NamespacedName
	data := map[string][]byte{
		"database": []byte(postgres.Database), "username": []byte(username(b)), "password": []byte(password),
		"instance_service": []byte(at.Name + "-master." + at.Namespace),
		// There is no network of a cluster here that would know the service.
		"host": []byte(host), "port": []byte(strconv.Itoa(port)),
	}
	if secret.UID != "" {
		if maps.EqualFunc(secret.Data, data, func(a, b []byte) bool { return string(a) == string(b) }) {
			return nil
		}
		if err := r.Delete(ctx, secret, client.Preconditions{UID: &secret.UID}); err != nil {
			return err
		}
	}
	immutable := true
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}
	secret.Immutable, secret.Data = &immutable, data
	if err := controllerutil.SetControllerReference(b, secret, r.Scheme()); err != nil {
		return err
	}
	return r.Create(ctx, secret)
}

// delete drops the user, unless it has gone with its instance.
func (r *bindings) delete(ctx context.Context, b *servicebinding.ServiceBinding) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(b, finalizer) {
		return ctrl.Result{}, nil
	}
	at := b.Spec.Instance.NamespacedName
	pg := &postgresql.Postgresql{}
	err := r.Get(ctx, client.ObjectKey{Namespace: at.Namespace, Name: at.Name}, pg)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err == nil && pg.DeletionTimestamp.IsZero() && at.Namespace == b.Namespace {
		i := r.machine.Lookup(string(pg.UID))
		if i == nil {
			return ctrl.Result{RequeueAfter: troubleInterval}, nil
		}
		if err := i.DropUser(ctx, username(b)); errors.Is(err, postgres.ErrNotRunning) {
			return ctrl.Result{RequeueAfter: troubleInterval}, nil
		} else if err != nil {
			return ctrl.Result{}, err
		}
	}
	if secret, err := r.secret(ctx, b); err == nil && secret.UID != "" {
		if err := r.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	controllerutil.RemoveFinalizer(b, finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, b))
}

// bindingsOf are those of an instance, which wait for it to run.
func (b *base) bindingsOf(ctx context.Context, o client.Object) []reconcile.Request {
	list := &servicebinding.ServiceBindingList{}
	if err := b.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for _, one := range list.Items {
		if one.Spec.Instance.Name == o.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&one)})
		}
	}
	return requests
}
