package app_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// H9: what steers others' machines reaches no control plane by a claim's labels and
// annotations, and the file's author is told.
func TestH9_OnlyWhatTheListHasReachesTheControlPlane(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.startBridge()
	t := w.tenant(api)
	orders := path(api, "team-a", "orders")
	file := strings.Replace(manifest(orders, nano), "metadata:", "metadata:\n  labels: {team: a, app.kubernetes.io/name: orders, sidecar.istio.io/inject: \"true\"}\n"+
		"  annotations: {note: hello, eks.amazonaws.com/role-arn: arn, example.com/owner: a}\n ", 1)
	t.push("Order", map[string]string{orders: file})
	s := t.wantAnswer(orders, contract.Applied)
	t.carries(orders, "app.kubernetes.io/name,note,team")
	for _, key := range []string{"sidecar.istio.io/inject", "eks.amazonaws.com/role-arn", "example.com/owner"} {
		if !strings.Contains(s.Message, key) {
			w.Errorf("the author is not told of %s: %q", key, s.Message)
		}
	}
	w.list(api, "example.com/")
	t.carries(orders, "app.kubernetes.io/name,example.com/owner,note,team")
	t.eventually("the author is told of the others only", func() error {
		if s := t.answer(orders); strings.Contains(s.Message, "example.com/owner") || !strings.Contains(s.Message, "eks.amazonaws.com") {
			return fmt.Errorf("%q", s.Message)
		}
		return nil
	})
	t.eventually("the app cluster compares by the same list", func() error {
		e, err := t.exported(api)
		if err == nil && strings.Join(e.Status.MetadataKeys, ",") != "example.com/" {
			err = fmt.Errorf("it has %v", e.Status.MetadataKeys)
		}
		return err
	})
	w.called(api, "Small database")
	t.eventually("the app cluster knows what people call it", func() error {
		e, err := t.exported(api)
		if err == nil && (e.Status.Offer == nil || e.Status.Offer.DisplayName != "Small database") {
			err = fmt.Errorf("it has %+v", e.Status.Offer)
		}
		return err
	})
	sales := path(api, "team-a", "sales")
	t.push("Order", map[string]string{sales: strings.Replace(manifest(sales, nano), "metadata:", "metadata:\n  annotations: {example.com/owner: a}\n ", 1)})
	t.wantAnswer(sales, contract.Applied)
	t.carries(sales, "example.com/owner")
	// Which travelled when it was answered, it is no new answer, as after an upgrade.
	before := t.answer(sales)
	w.list(api)
	t.carries(orders, "app.kubernetes.io/name,note,team")
	t.carries(sales, "")
	t.wantObserved()
	if after := t.answer(sales); before.Message != "" || after.Message != "" {
		w.Errorf("it was %+v, and now is %+v", before, after)
	}
	t.push("Change", map[string]string{sales: strings.Replace(manifest(sales, nano), "metadata:", "metadata:\n  annotations: {example.com/owner: b}\n ", 1)})
	t.wantAnswer(sales, contract.Applied, "example.com/owner")
}

// list sets which labels and annotations travel beside the usual.
func (w *world) list(api v1alpha1.ExportedAPI, keys ...string) {
	w.Helper()
	w.eventually("the list is set", func() error {
		var t v1alpha1.APIServiceExportTemplate
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t))
		t.Spec.MetadataKeys = keys
		return w.admin.Update(w.Context(), &t)
	})
}

// called sets what people call an API.
func (w *world) called(api v1alpha1.ExportedAPI, name string) {
	w.Helper()
	w.eventually("it has a name", func() error {
		var t v1alpha1.APIServiceExportTemplate
		w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &t))
		t.Spec.DisplayName = name
		return w.admin.Update(w.Context(), &t)
	})
}

// carries waits until the object has, of what a claim may bring along, these keys.
func (t *tenant) carries(path, want string) {
	t.Helper()
	t.eventually("the object carries "+want, func() error {
		u := t.object(path)
		var got []string
		for _, key := range []string{"app.kubernetes.io/name", "eks.amazonaws.com/role-arn", "example.com/owner", "note", "sidecar.istio.io/inject", "team"} {
			_, label := u.GetLabels()[key]
			_, annotation := u.GetAnnotations()[key]
			if label || annotation {
				got = append(got, key)
			}
		}
		if strings.Join(got, ",") != want {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}
