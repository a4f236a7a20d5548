package app_test

import (
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// testRequests binds and unbinds through Git.
func testRequests(t *world, apis apis) {
	t.Run("B14_a denied request says which right is missing", t.beside(apis, deniedRequest))
	t.Run("B8_an offer that comes later is found", t.beside(apis, laterOffer))
	t.Run("losing the right holds new claims and deletes nothing", t.beside(apis, lostRight))
	t.Run("B11_removing the request unbinds when the last claim is gone", t.beside(apis, unbind))
	t.Run("B12_an orphaned API leaves its services", t.beside(apis, orphan))
	t.Run("a request that the control plane refuses is answered and tried again", t.beside(apis, refusedRequest))
	t.Run("a request and its claims in one push converge", t.beside(apis, requestWithClaims))
}

// testHostileRequests asks for what is another's.
func testHostileRequests(t *world, apis apis) {
	t.Run("D17_a hostile request reaches nothing of another cluster", t.alone(apis, hostileRequests))
}

// beside gives a new tenant to another test, which runs beside its siblings.
func (w *world) beside(offers apis, run func(*tenant, apis)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		run(w.with(t).tenant(), offers)
	}
}

// alone gives a new tenant to another test.
func (w *world) alone(offers apis, run func(*tenant, apis)) func(*testing.T) {
	return func(t *testing.T) { run(w.with(t).tenant(), offers) }
}

// offered says, as the backend does, that an offer can be bound.
func (w *world) offered(template string) {
	w.Helper()
	w.backendSays("APIServiceExportTemplate", "", template, map[string]any{"kind": "Any", "conditions": yes(v1alpha1.ConditionOffered)})
}

// offer makes an offer of an API.
func (w *world) offer(name string, api v1alpha1.ExportedAPI) {
	w.Helper()
	w.must(w.admin.Create(w.Context(), &v1alpha1.APIServiceExportTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.APIServiceExportTemplateSpec{API: api},
	}))
}

// permit lets a tenant's ServiceAccount bind a template, and returns what takes
// that back.
func (t *tenant) permit(template string) (takeBack func()) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: t.id + "-binds-" + template}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"gitbind.dev"}, Resources: []string{"apiserviceexporttemplates"}, ResourceNames: []string{template}, Verbs: []string{"bind"}},
	}}
	t.must(t.admin.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.TenantNamespace(t.id), Name: v1alpha1.TenantServiceAccount}},
	}
	t.must(t.admin.Create(t.Context(), binding))
	return func() { t.must(t.admin.Delete(t.Context(), binding)) }
}

// request is a request file.
func request(api v1alpha1.ExportedAPI, spec string) (path, content string) {
	binding := api.BindingName()
	return contract.RequestPath(binding), "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata:\n  name: " + binding + "\n" + spec
}

// ask pushes a request.
func (t *tenant) ask(api v1alpha1.ExportedAPI, spec string) (path string) {
	t.Helper()
	path, content := request(api, spec)
	t.push("Ask", map[string]string{path: content})
	return path
}

// export is what the tenant has of an API, nil for nothing.
func (t *tenant) export(api v1alpha1.ExportedAPI) *v1alpha1.APIServiceExport {
	t.Helper()
	var e v1alpha1.APIServiceExport
	err := t.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id), Name: api.BindingName()}, &e)
	if apierrors.IsNotFound(err) {
		return nil
	}
	t.must(err)
	return &e
}

// wantBound waits until an API is bound, and grants the rights on it, as the
// backend does.
func (t *tenant) wantBound(api v1alpha1.ExportedAPI) *v1alpha1.APIServiceExport {
	t.Helper()
	var e *v1alpha1.APIServiceExport
	t.eventually(api.BindingName()+" is bound", func() error {
		if e = t.export(api); e == nil {
			return errors.New("there is no export")
		}
		return nil
	})
	t.apis = append(t.apis, api)
	t.grant(t.apis...)
	t.backendSays("APIServiceExport", e.Namespace, e.Name, map[string]any{"conditions": yes(v1alpha1.ConditionGranted)})
	t.eventually("it is published", func() error {
		_, err := t.exported(api)
		return err
	})
	return e
}

// wantUnbound waits until nothing is left of an API but tombstones.
func (t *tenant) wantUnbound(api v1alpha1.ExportedAPI) {
	t.Helper()
	t.eventually(api.BindingName()+" is unbound", func() error {
		_, err := t.exported(api)
		switch {
		case t.export(api) != nil:
			return errors.New("there is an export")
		case err == nil:
			return errors.New("it is published")
		case t.answer(contract.RequestPath(api.BindingName())) != nil:
			return errors.New("the request is answered")
		}
		return nil
	})
}

func deniedRequest(t *tenant, apis apis) {
	path := t.ask(apis.postgresql, "spec:\n  template: postgresqlinstances.anynines.com\n")
	s := t.wantAnswer(path, contract.Denied, "its ServiceAccount "+v1alpha1.TenantNamespace(t.id)+":gitbind-tenant the verb bind on apiserviceexporttemplates/postgresqlinstances.anynines.com")
	if s.Problem.File != path || s.Problem.Line != 6 || s.Metadata.Name != apis.postgresql.BindingName() {
		t.Errorf("%+v at %+v", s, s.Problem)
	}
	t.wantObserved()
	if t.export(apis.postgresql) != nil {
		t.Error("it is bound without the right")
	}
	// The owner may, and is away: nobody else has that right.
	t.permit(apis.postgresql.BindingName())
	t.wantAnswer(path, contract.Applied)
	e := t.wantBound(apis.postgresql)
	if e.Spec != (v1alpha1.APIServiceExportSpec{Template: "postgresqlinstances.anynines.com", API: apis.postgresql}) || e.Labels[v1alpha1.LabelCluster] != t.id ||
		len(e.OwnerReferences) != 1 || string(e.OwnerReferences[0].UID) != t.uid {
		t.Errorf("export %+v", e)
	}
	orders := postgresqlPath(apis, "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	t.eventually("the export says that it may be bound", func() error {
		if c := meta.FindStatusCondition(t.export(apis.postgresql).Status.Conditions, v1alpha1.ConditionPermitted); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// postgresqlPath is where a claim of postgresql lies.
func postgresqlPath(apis apis, name string) string { return path(apis.postgresql, "team-a", name) }

func laterOffer(t *tenant, apis apis) {
	name := "later-" + t.id
	t.permit(name)
	path := t.ask(apis.caches, "spec: {template: "+name+"}\n")
	t.wantAnswer(path, contract.Denied, "there is no offer")
	t.offer(name, apis.caches)
	t.wantAnswer(path, contract.Denied, "cannot be bound just now")
	t.offered(name)
	t.wantAnswer(path, contract.Applied)
	if e := t.wantBound(apis.caches); e.Spec.Template != name {
		t.Errorf("bound by %s", e.Spec.Template)
	}
}

func lostRight(t *tenant, apis apis) {
	takeBack := t.permit(apis.postgresql.BindingName())
	path := t.ask(apis.postgresql, "")
	t.wantBound(apis.postgresql)
	orders, late := postgresqlPath(apis, "orders"), postgresqlPath(apis, "late")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	before := t.object(orders).GetUID()

	takeBack()
	s := t.wantAnswer(path, contract.Held, "new claims wait")
	if s.Reason != contract.NotPermitted {
		t.Errorf("%+v", s)
	}
	t.eventually("the export says so", func() error {
		if !meta.IsStatusConditionFalse(t.export(apis.postgresql).Status.Conditions, v1alpha1.ConditionPermitted) {
			return fmt.Errorf("%+v", t.export(apis.postgresql).Status.Conditions)
		}
		return nil
	})
	t.push("Order one more, and change the other", map[string]string{late: manifest(late, nano), orders: manifest(orders, small)})
	if s := t.wantAnswer(late, contract.Held, "may not bind"); s.Reason != contract.NotPermitted {
		t.Errorf("%+v", s)
	}
	t.wantObject(orders, "spec.plan", "postgresql-single-small")
	if t.object(late) != nil || t.object(orders).GetUID() != before {
		t.Error("something was made, or made again")
	}
	role := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: t.id + "-again"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: t.id + "-binds-" + apis.postgresql.BindingName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + v1alpha1.TenantNamespace(t.id)}},
	}
	t.must(t.admin.Create(t.Context(), role))
	t.wantAnswer(path, contract.Applied)
	t.wantAnswer(late, contract.Applied)
}

func unbind(t *tenant, apis apis) {
	t.permit(apis.postgresql.BindingName())
	path := t.ask(apis.postgresql, "")
	t.wantBound(apis.postgresql)
	orders := postgresqlPath(apis, "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	t.finalizer(orders, true)

	t.push("Unbind", map[string]string{path: ""})
	if s := t.wantAnswer(path, contract.Held, "such as team-a/orders"); s.Reason != contract.ClaimsExist {
		t.Errorf("%+v", s)
	}
	t.wantObserved()
	// Its last file goes, and its service not yet.
	t.push("Cancel", map[string]string{orders: ""})
	t.wantAnswer(orders, contract.Deleting)
	t.wantObserved()
	if t.export(apis.postgresql) == nil {
		t.Fatal("the API went from under a service that is being deleted")
	}
	t.finalizer(orders, false)
	t.wantUnbound(apis.postgresql)
	if s := t.answer(orders); s == nil || s.Result != contract.Gone {
		t.Errorf("the tombstone is %+v", s)
	}
	if got := t.clusterBinding().Status.Bridge.AcceptedCommit; got != t.host.head(t.id, "main") {
		t.Errorf("accepted %s before the API was unbound", got)
	}
}

func orphan(t *tenant, apis apis) {
	t.permit(apis.postgresql.BindingName())
	path := t.ask(apis.postgresql, "")
	t.wantBound(apis.postgresql)
	orders := postgresqlPath(apis, "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	before := t.object(orders)
	_, content := request(apis.postgresql, "spec:\n  deletionPolicy: Orphan\n")
	t.push("Say what becomes of it", map[string]string{path: content})
	t.eventually("that is answered", func() error {
		return is(fmt.Sprint(t.wantAnswer(path, contract.Applied).Status["deletionPolicy"]), "Orphan")
	})
	t.push("Unbind", map[string]string{path: ""})
	t.wantUnbound(apis.postgresql)
	t.wantAnswer(orders, contract.Invalid, "is not bound")
	t.wantObserved()
	if after := t.object(orders); after == nil || after.GetUID() != before.GetUID() || after.GetDeletionTimestamp() != nil {
		t.Errorf("the service is %v", after)
	}
	// It stays when its file goes, too: nobody has a right to delete it any more.
	t.push("Tidy", map[string]string{orders: ""})
	t.wantAnswer(orders, contract.Held, "nothing was deleted")
	if t.object(orders) == nil {
		t.Error("the service is gone")
	}
}

func hostileRequests(t *tenant, apis apis) {
	victim := t.tenant(apis.postgresql)
	secret, closed := "only-"+victim.id, "closed-"+t.id
	t.offer(secret, apis.caches)
	t.offered(secret)
	victim.permit(secret)
	t.offer(closed, apis.caches)
	t.permit(closed)
	t.permit(apis.postgresql.BindingName())
	before := t.names("gitbind.dev/v1alpha1 APIServiceExport")
	ask := func(binding, spec string, result contract.Result, line int, words string) {
		t.Helper()
		path := contract.RequestPath(binding)
		t.push("Attack", map[string]string{path: "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata:\n  name: " + binding + "\n" + spec})
		s := t.wantAnswer(path, result, words)
		if s.Problem == nil || s.Problem.File != path || s.Problem.Line != line {
			t.Errorf("%s: %+v", binding, s.Problem)
		}
		t.push("Clear", map[string]string{path: ""})
		t.eventually("nothing is left of it", func() error {
			if s := t.answer(path); s != nil {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	cache := apis.caches.BindingName()
	ask(cache, "spec:\n  template: "+secret+"\n", contract.Denied, 6, fmt.Sprintf("there is no offer %q", secret))
	ask(cache, "spec:\n  template: nothing-of-that-name\n", contract.Denied, 6, `there is no offer "nothing-of-that-name"`)
	ask(cache, "", contract.Denied, 4, "cannot be bound just now")
	ask(cache, "spec:\n  template: "+apis.postgresql.BindingName()+"\n", contract.Invalid, 6, "is of postgresqlinstances.anynines.com")
	ask(cache, "spec:\n  template: ../../"+secret+"\n", contract.Invalid, 6, "want the name of an offer")
	ask(cache, "spec:\n  template: "+secret+"\n  namespace: "+v1alpha1.TenantNamespace(victim.id)+"\n", contract.Invalid, 7, "namespace")
	ask("widgets.apps.k8s.io", "", contract.Invalid, 0, "reserved")
	ask("clusterbindings.gitbind.dev", "", contract.Invalid, 0, "reserved")
	_, content := request(apis.postgresql, "")
	path := contract.RequestPath(cache)
	t.push("Attack", map[string]string{path: content})
	t.wantAnswer(path, contract.Invalid, "but the path says")
	t.wantObserved()
	after := t.names("gitbind.dev/v1alpha1 APIServiceExport")
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was made", name)
		}
	}
}

// refusedRequest has the control plane refuse the export itself.
func refusedRequest(t *tenant, apis apis) {
	namespace := v1alpha1.TenantNamespace(t.id)
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-exports-" + t.id},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"gitbind.dev"}, APIVersions: []string{"*"}, Resources: []string{"apiserviceexports"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.namespace != '" + namespace + "'", Message: "no exports today"}},
		},
	}
	t.must(t.admin.Create(t.Context(), policy))
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	t.must(t.admin.Create(t.Context(), binding))
	e := &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: apis.postgresql.BindingName()},
		Spec:       v1alpha1.APIServiceExportSpec{Template: apis.postgresql.BindingName(), API: apis.postgresql},
	}
	t.eventually("the policy counts", func() error {
		if err := t.admin.Create(t.Context(), e.DeepCopy(), client.DryRunAll); err == nil {
			return errors.New("an export may be made")
		}
		return nil
	})
	t.permit(apis.postgresql.BindingName())
	path := t.ask(apis.postgresql, "")
	t.wantAnswer(path, contract.Failed, "no exports today")
	// What is pushed beside it is answered.
	t.wantObserved()
	t.must(t.admin.Delete(t.Context(), binding))
	t.must(t.admin.Delete(t.Context(), policy))
	// Until it is tried again, half a minute may pass; and once more, if the policy still
	// counts by then.
	t.eventuallyIn(patienceForMany, "it is answered with "+string(contract.Applied), func() error {
		if s := t.answer(path); s == nil || s.Result != contract.Applied {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	t.wantBound(apis.postgresql)
}

// testUnprovenRequest sets main back to before the request.
func testUnprovenRequest(w *world, apis apis) {
	t := w.tenant()
	t.permit(apis.postgresql.BindingName())
	begin := t.host.head(t.id, "main")
	path := t.ask(apis.postgresql, "spec: {deletionPolicy: Orphan}\n")
	t.wantBound(apis.postgresql)
	t.wantAnswer(path, contract.Applied)
	t.wantObserved()
	t.force(begin)
	t.wantSynced("MainRewritten")
	t.approve(v1alpha1.ApproveMainAnnotation, begin)
	s := t.wantAnswer(path, contract.Held, "no commit that the bridge followed removed it")
	if s.Reason != contract.NotRemoved || t.export(apis.postgresql) == nil {
		t.Fatalf("%+v", s)
	}
	// Also by a process that knows no more than that.
	t.restarted()
	if t.export(apis.postgresql) == nil {
		t.Fatal("a restart unbound it")
	}
	t.ask(apis.postgresql, "spec: {deletionPolicy: Orphan}\n")
	t.wantAnswer(path, contract.Applied)
	t.push("Unbind", map[string]string{path: ""})
	t.wantUnbound(apis.postgresql)
}

func requestWithClaims(t *tenant, apis apis) {
	t.permit(apis.postgresql.BindingName())
	path, content := request(apis.postgresql, "")
	orders := postgresqlPath(apis, "orders")
	t.push("All at once", map[string]string{path: content, orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Held, "not granted")
	t.wantBound(apis.postgresql)
	t.wantAnswer(orders, contract.Applied)
	// And back.
	t.push("None of it", map[string]string{path: "", orders: ""})
	t.wantAnswer(orders, contract.Gone)
	t.wantUnbound(apis.postgresql)
}
