package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/policies/attribution"
)

// These are what the scenarios of binding and unbinding look at and do, from
// outside.

// getBinding is nil when there is none.
func (w *world) getBinding() *v1alpha1.APIServiceBinding {
	w.Helper()
	b := &v1alpha1.APIServiceBinding{}
	err := w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, b)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return b
}

func (w *world) patchBinding(patch string) {
	w.Helper()
	w.must(w.client.Patch(w.Context(), &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: w.binding}}, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// offers publishes the export with another name for people, and waits until the binding has
// it: by then the konnector has looked at the binding as it was before.
func (w *world) offers(name string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	w.Helper()
	w.offer = &v1alpha1.Offer{DisplayName: name}
	w.publish(change)
	w.eventually("the binding offers "+name, func() error {
		if b := w.getBinding(); b == nil || b.Status.Offer == nil || b.Status.Offer.DisplayName != name {
			return fmt.Errorf("it is %+v", b)
		}
		return nil
	})
}

func (w *world) setPolicy(p v1alpha1.DeletionPolicy) {
	w.Helper()
	w.patchBinding(fmt.Sprintf(`{"spec":{"deletionPolicy":%q}}`, p))
}

// bindingSays waits until a condition of the binding has a reason, and returns
// its message.
func (w *world) bindingSays(kind, reason string) (message string) {
	w.Helper()
	w.eventually(kind+" of the binding is "+reason, func() error {
		b := w.getBinding()
		if b == nil {
			return errors.New("there is no binding")
		}
		return hasReason(b.Status.Conditions, kind, reason, &message)
	})
	return message
}

// request is what main asks for; nil for nothing.
func (w *world) request() *contract.Request {
	w.Helper()
	path := contract.RequestPath(w.binding)
	data, err := w.main().Read(path)
	if err != nil {
		return nil
	}
	r, err := contract.DecodeRequest(contract.File{Path: path, Data: data})
	w.must(err)
	return &r
}

func (w *world) requestIs(template string, policy contract.DeletionPolicy) {
	w.Helper()
	want := contract.Request{Binding: w.binding, Template: template, DeletionPolicy: policy}
	w.eventually("the request on main", func() error {
		if got := w.request(); got == nil || *got != want {
			return fmt.Errorf("it is %v, want %v", got, want)
		}
		return nil
	})
}

func (w *world) noRequest() {
	w.Helper()
	w.eventually("no request on main", func() error {
		if got := w.request(); got != nil {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
}

// asks writes the request as a person, "" removes it.
func (w *world) asks(text string) {
	w.Helper()
	var data []byte
	if text != "" {
		data = fmt.Appendf(nil, "# for the shop\napiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: %s}\nspec: %s\n", w.binding, text)
	}
	w.put(w.person, "Change the request", contract.RequestPath(w.binding), data)
}

// answerRequest is the control plane's word on the request as it is on main.
func (w *world) answerRequest(result contract.Result, message string) {
	w.Helper()
	path, main := contract.RequestPath(w.binding), w.main()
	s := contract.Status{Metadata: contract.StatusMeta{Name: w.binding}, Result: result, Message: message, Answers: contract.Answers{Commit: string(main.Head())}}
	if e, ok := main.Entry(path); ok {
		s.Answers.Blob = string(e.Hash)
	}
	if asked := w.request(); asked != nil && result == contract.Applied {
		s.Status = map[string]any{"deletionPolicy": string(asked.DeletionPolicy)}
	}
	data, err := contract.EncodeStatus(&s)
	w.must(err)
	w.put(w.bridge, "status of "+w.binding, path, data)
}

// unbind deletes the binding, as `kubectl delete` does.
func (w *world) unbind() {
	w.Helper()
	w.must(w.alice.Delete(w.Context(), &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: w.binding}}))
}

// takenBack waits until nothing of the binding is left in the cluster. What the
// garbage collector takes may be owned by the binding still.
func (w *world) takenBack() {
	w.Helper()
	w.eventually("no binding", func() error {
		if b := w.getBinding(); b != nil {
			return fmt.Errorf("it is there: %+v", b.Status.Conditions)
		}
		return nil
	})
	role := "gitbind:api:" + w.binding
	for _, o := range []client.Object{
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: w.binding}},
		&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: attribution.ForBinding(w.group, w.plural).Name}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role + ":view"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role + ":edit"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role}},
	} {
		err := w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o)
		goes := slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Name == w.binding })
		if !apierrors.IsNotFound(err) && !goes {
			w.Errorf("%T %s is left: %v", o, o.GetName(), err)
		}
	}
}

// peopleRoles are those that binding an API gives to people.
func (w *world) peopleRoles() {
	w.Helper()
	for _, name := range []string{"view", "edit"} {
		w.must(w.client.Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gitbind:api:" + w.binding + ":" + name}}))
	}
}

// ungrant takes the konnector's rights on the API away. The authorizer hears of it
// in a moment.
func (w *world) ungrant() {
	w.Helper()
	name := metav1.ObjectMeta{Name: "gitbind:api:" + w.binding}
	w.must(w.client.Delete(w.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name}))
	w.must(w.client.Delete(w.Context(), &rbacv1.ClusterRole{ObjectMeta: name}))
	w.noRights()
}

// grantAgain is cluster.grant where rights of the same name are about to go.
func (w *world) grantAgain() error {
	name := metav1.ObjectMeta{Name: "gitbind:api:" + w.binding}
	for _, o := range []client.Object{&rbacv1.ClusterRole{ObjectMeta: name}, &rbacv1.ClusterRoleBinding{ObjectMeta: name}} {
		w.must(client.IgnoreNotFound(w.client.Delete(w.Context(), o)))
	}
	return w.grant(w.Context(), w.plural, w.group)
}

// giveRights gives the konnector's rights on the API to another binding, as
// unbinding does. It is there, so that the garbage collector waits.
func (w *world) giveRights(binding string) []client.Object {
	w.Helper()
	b := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: binding}, Spec: v1alpha1.APIServiceBindingSpec{Connection: "none"}}
	w.must(w.client.Create(w.Context(), b))
	name := metav1.ObjectMeta{Name: "gitbind:api:" + w.binding}
	rights := []client.Object{&rbacv1.ClusterRole{ObjectMeta: name}, &rbacv1.ClusterRoleBinding{ObjectMeta: name}}
	for _, o := range rights {
		w.eventually("the rights are given", func() error {
			w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(o), o))
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "APIServiceBinding", Name: b.Name, UID: b.UID}})
			return w.client.Update(w.Context(), o)
		})
	}
	return rights
}

// eventSays looks for an Event on an object of this name.
func (w *world) eventSays(name, reason, words string) error {
	list := &eventsv1.EventList{}
	if err := w.client.List(w.Context(), list); err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, words) {
			return nil
		}
	}
	return errors.New("there is none")
}

func (w *world) objectKey() client.ObjectKey { return client.ObjectKey{Name: w.name} }

func (w *world) secretKey() client.ObjectKey {
	return client.ObjectKey{Namespace: w.connection.Spec.SecretRef.Namespace, Name: w.connection.Spec.SecretRef.Name}
}
