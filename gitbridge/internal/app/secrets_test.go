package app_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
)

// keys are an app cluster's, registered.
func (t *tenant) registerKey() encryption.Identities {
	t.Helper()
	text, recipient, err := encryption.GenerateIdentity()
	t.must(err)
	ids, err := encryption.ParseIdentities([]byte(text))
	t.must(err)
	b := t.clusterBinding()
	before := b.DeepCopy()
	b.Spec.Encryption = &v1alpha1.EncryptionKeys{Recipients: []string{recipient}}
	t.must(t.admin.Patch(t.Context(), b, client.MergeFrom(before)))
	return ids
}

// claimed lets Secrets of an API travel.
func (w *world) claimed(api v1alpha1.ExportedAPI, claims ...v1alpha1.PermissionClaim) {
	w.Helper()
	w.offers(api, func(s *v1alpha1.APIServiceExportTemplateSpec) { s.PermissionClaims = claims })
}

// offers changes what an API is offered with. Nobody else changes its spec.
func (w *world) offers(api v1alpha1.ExportedAPI, change func(*v1alpha1.APIServiceExportTemplateSpec)) {
	w.Helper()
	var template v1alpha1.APIServiceExportTemplate
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Name: api.BindingName()}, &template))
	before := template.DeepCopy()
	change(&template.Spec)
	w.must(w.admin.Patch(w.Context(), &template, client.MergeFrom(before)))
}

// secret makes or changes a Secret beside a claim's object.
func (t *tenant) secret(namespace, name string, data map[string]string, mutate ...func(*corev1.Secret)) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
	for _, m := range mutate {
		m(s)
	}
	err := t.admin.Create(t.Context(), s)
	if apierrors.IsAlreadyExists(err) {
		var live corev1.Secret
		t.must(t.admin.Get(t.Context(), client.ObjectKeyFromObject(s), &live))
		s.ResourceVersion = live.ResourceVersion
		err = t.admin.Update(t.Context(), s)
	}
	t.must(err)
}

// delivered is a Secret as the app cluster reads it from status.
func (t *tenant) delivered(api v1alpha1.ExportedAPI, name string, ids encryption.Identities) (map[string]string, error) {
	snap, err := t.status.Fetch(t.Context())
	if err != nil {
		return nil, err
	}
	at := contract.SecretKey{Binding: api.BindingName(), Namespace: "team-a", Name: name}
	data, err := snap.Read(at.Path())
	if err != nil {
		return nil, err
	}
	b := t.clusterBinding().Status.Bridge
	if b == nil || b.Encryption == nil {
		return nil, errors.New("the bridge has published no key")
	}
	_, secret, err := (&encryption.Opener{Cluster: t.id, Keys: b.Encryption.SigningKeys, Identities: ids}).Open(at, data)
	out := map[string]string{}
	for k, v := range secret.Data {
		out[k] = string(v)
	}
	return out, err
}

func (t *tenant) wantDelivered(api v1alpha1.ExportedAPI, name string, ids encryption.Identities, want map[string]string) {
	t.Helper()
	t.eventually(fmt.Sprintf("%s has %d values", name, len(want)), func() error {
		got, err := t.delivered(api, name, ids)
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("it has %v", got)
		}
		return err
	})
}

func (t *tenant) wantSecrets(path string, want ...string) *contract.Status {
	t.Helper()
	var s *contract.Status
	t.eventually(fmt.Sprintf("the Secrets are %v", want), func() error {
		if s = t.answer(path); s == nil || !slices.Equal(s.Secrets.Names(), want) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	return s
}

// The Secrets that an offer names travel encrypted, follow their values without any
// event on the claim, and go when the offer names them no more. The bridge runs with no more than its
// ServiceAccount's rights, and reads with the tenant's.
func TestA11_SecretsTravelEncrypted(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.claimed(api, v1alpha1.PermissionClaim{Name: "$(name)-creds"}, v1alpha1.PermissionClaim{MatchLabels: map[string]string{"claim": "$(name)"}})
	w.startBridge()
	t := w.tenant(api)
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	u := t.object(orders)
	password := map[string]string{"username": "u", "password": "geheim-4711"}
	t.secret(u.GetNamespace(), "orders-creds", password)
	t.secret(u.GetNamespace(), "not-orders", password)
	t.eventually("it says that there is no key", func() error {
		if s := t.answer(orders); s.Secrets != nil || !strings.Contains(s.Withheld["*"], "registered no key") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	ids := t.registerKey()
	t.wantDelivered(api, "orders-creds", ids, password)
	if s := t.wantSecrets(orders, "orders-creds"); len(s.Withheld) > 0 {
		w.Errorf("withheld: %v", s.Withheld)
	}
	// Not one value is in what the repository keeps.
	snap, err := t.status.Fetch(t.Context())
	t.must(err)
	for e := range snap.List("") {
		data, err := snap.Read(e.Path)
		t.must(err)
		if strings.Contains(string(data), password["password"]) {
			w.Errorf("%s has the value", e.Path)
		}
	}

	t.Run("A12_a Secret that labels choose travels", func(*testing.T) {
		t.secret(u.GetNamespace(), "a12", map[string]string{"k": "v"}, func(s *corev1.Secret) { s.Labels = map[string]string{"claim": "orders"} })
		t.wantSecrets(orders, "a12", "orders-creds")
		t.wantDelivered(api, "a12", ids, map[string]string{"k": "v"})
	})
	password["password"] = "rotated-4712"
	t.secret(u.GetNamespace(), "orders-creds", password)
	t.wantDelivered(api, "orders-creds", ids, password)
	t.Run("B16_a Secret that is selected no more goes", func(*testing.T) {
		t.secret(u.GetNamespace(), "a12", map[string]string{"k": "v"})
		t.wantSecrets(orders, "orders-creds")
		t.wantNoFile(api, "a12")
	})

	// Another bridge makes no commit of what did not change.
	t.wantObserved()
	before, err := t.status.Fetch(t.Context())
	t.must(err)
	t.restarted()
	billing := path(api, "team-a", "billing")
	t.push("Order", map[string]string{billing: manifest(billing, nano)})
	t.wantAnswer(billing, contract.Applied)
	t.wantObserved()
	after, err := t.status.Fetch(t.Context())
	t.must(err)
	file := contract.SecretKey{Binding: api.BindingName(), Namespace: "team-a", Name: "orders-creds"}.Path()
	was, _ := before.Entry(file)
	if is, _ := after.Entry(file); is.Hash != was.Hash {
		w.Error("the file of the unchanged Secret is another one after a restart")
	}

	// Another key: encrypted again.
	t.wantDelivered(api, "orders-creds", t.registerKey(), password)
	t.Run("the condition that the offer names is in the answer", func(*testing.T) {
		t.setStatus(orders, map[string]any{"managed": map[string]any{"clusterStatus": "Running"}})
		for _, named := range []string{"Running", "Ready"} {
			w.offers(api, func(s *v1alpha1.APIServiceExportTemplateSpec) { s.ReadyCondition = named })
			t.eventually("claims are answered with "+named, func() error { return is(t.answer(orders).ReadyType(), named) })
		}
	})
	t.Run("B16_a Secret that the offer names no more goes", func(*testing.T) {
		w.claimed(api)
		t.wantSecrets(orders)
		t.wantNoFile(api, "orders-creds")
	})
}

// wantNoFile sees that status has no file of a Secret: it goes in the commit that says so.
func (t *tenant) wantNoFile(api v1alpha1.ExportedAPI, name string) {
	t.Helper()
	snap, err := t.status.Fetch(t.Context())
	t.must(err)
	if _, there := snap.Entry(contract.SecretKey{Binding: api.BindingName(), Namespace: "team-a", Name: name}.Path()); there {
		t.Errorf("the file of %s is still on status", name)
	}
}

// What a tenant may make the bridge read is RBAC of the control plane: in its own claim
// namespaces, and only with the ClusterRole.
func TestD17_SecretsAreReadWithTheTenantsRights(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.claimed(api, v1alpha1.PermissionClaim{Name: "creds"})
	w.startBridge()
	t, other := w.tenant(api), w.tenant(api)
	t.registerKey()
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	here := t.object(orders).GetNamespace()
	t.secret(here, "creds", map[string]string{"k": "v"})
	t.wantSecrets(orders, "creds")
	other.push("Order", map[string]string{orders: manifest(orders, nano)})
	other.wantAnswer(orders, contract.Applied)
	for namespace, want := range map[string]bool{here: true, other.object(orders).GetNamespace(): false, v1alpha1.TenantNamespace(t.id): false, v1alpha1.SystemNamespace: false, "default": false} {
		if got := t.can("get", "", "secrets", namespace); got != want {
			w.Errorf("the tenant may read Secrets in %s: %t", namespace, got)
		}
	}
	// The bridge cannot give that right to anybody else.
	kubeconfig, err := w.control().KubeconfigFor(w.Context(), v1alpha1.SystemNamespace, v1alpha1.BridgeServiceAccount)
	w.must(err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	w.must(err)
	bridge, err := client.New(config, client.Options{Scheme: w.admin.Scheme()})
	w.must(err)
	for name, b := range map[string]client.Object{
		"itself": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: "x"}, RoleRef: readSecrets,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeServiceAccount}}},
		"the tenant in another's namespace": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: other.object(orders).GetNamespace(), Name: "x"}, RoleRef: readSecrets,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.TenantNamespace(t.id), Name: v1alpha1.TenantServiceAccount}}},
	} {
		if err := bridge.Create(w.Context(), b); !apierrors.IsForbidden(err) {
			w.Errorf("the bridge gives the right to %s: %v", name, err)
		}
	}
}

var readSecrets = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.ClaimSecrets}

// A Crossplane claim's connection Secret is the one that its object controls.
func TestConnectionSecretsAreThoseThatTheClaimControls(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.startBridge()
	t := w.tenant(api)
	ids := t.registerKey()
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano+"\n  writeConnectionSecretToRef: {name: orders-conn}")})
	t.wantAnswer(orders, contract.Applied)
	u := t.object(orders)
	t.secret(u.GetNamespace(), "orders-conn", map[string]string{"host": "foreign"})
	t.eventually("it does not travel", func() error {
		if s := t.answer(orders); s.Secrets != nil || !strings.Contains(s.Withheld["orders-conn"], "does not control it") {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	t.secret(u.GetNamespace(), "orders-conn", map[string]string{"host": "db"}, func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: ptr.To(true)}}
	})
	t.wantDelivered(api, "orders-conn", ids, map[string]string{"host": "db"})
}
