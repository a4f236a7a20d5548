package app_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
)

// tenant is one app cluster, as the backend would have set it up.
type tenant struct {
	*world
	id, uid, password string
	main, status      store.Branch
	apis              []v1alpha1.ExportedAPI
}

func (w *world) tenant(apis ...v1alpha1.ExportedAPI) *tenant {
	w.Helper()
	t := &tenant{world: w, id: "t" + strings.ToLower(rand.Text()[:9]), password: rand.Text()}
	w.host.create(t.id, t.password)
	repository := w.host.open(t.id, t.password)
	t.main, t.status = repository.Branch("main"), repository.Branch("status")
	t.push("Begin", map[string]string{"README.md": "hello"})
	t.setUp()
	for _, api := range apis {
		t.bind(api)
	}
	return t
}

// setUp makes what the control plane has of the tenant.
func (t *tenant) setUp() {
	t.Helper()
	w := t.world
	namespace := v1alpha1.TenantNamespace(t.id)
	b := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: t.id}, Spec: v1alpha1.ClusterBindingSpec{
		DisplayName: "test", Owner: v1alpha1.Owner{Issuer: "https://issuer.example.org", Subject: "1", Username: "oidc:alice@example.org"},
	}}
	w.must(w.admin.Create(w.Context(), b))
	t.uid = string(b.UID)
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.BridgeImpersonation}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{v1alpha1.LabelCluster: t.id}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.TenantServiceAccount}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.BridgeBinding}, RoleRef: role, Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.BridgeServiceAccount},
		}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.BridgeSecret}, StringData: map[string]string{"username": "bridge", "password": t.password}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantRole(t.id)}},
	} {
		w.must(w.admin.Create(w.Context(), o))
	}
	w.backendSays("ClusterBinding", "", t.id, map[string]any{
		"repository": map[string]any{"url": w.host.url(t.id)}, "tenantNamespace": namespace, "conditions": yes(v1alpha1.ConditionReady),
	})
}

// backendSays writes the backend's fields of a status.
func (w *world) backendSays(kind, namespace, name string, status map[string]any) {
	w.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetNamespace(namespace)
	u.SetName(name)
	w.must(w.admin.Status().Apply(w.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gitbind-backend"), client.ForceOwnership))
}

func yes(condition string) []any {
	return []any{map[string]any{"type": condition, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}
}

// bind grants an API, as the backend does.
func (t *tenant) bind(api v1alpha1.ExportedAPI) {
	t.Helper()
	t.apis = append(t.apis, api)
	t.grant(t.apis...)
	e := &v1alpha1.APIServiceExport{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(t.id), Name: api.BindingName()},
		Spec:       v1alpha1.APIServiceExportSpec{Template: api.BindingName(), API: api},
	}
	t.must(t.admin.Create(t.Context(), e))
	t.backendSays("APIServiceExport", e.Namespace, e.Name, map[string]any{"conditions": yes(v1alpha1.ConditionGranted)})
}

// grant sets what the tenant's role allows.
func (t *tenant) grant(apis ...v1alpha1.ExportedAPI) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantRole(t.id)}}
	for _, api := range apis {
		role.Rules = append(role.Rules, rights(api))
	}
	t.must(t.admin.Update(t.Context(), role))
}

func (t *tenant) clusterBinding() *v1alpha1.ClusterBinding {
	t.Helper()
	var b v1alpha1.ClusterBinding
	t.must(t.admin.Get(t.Context(), client.ObjectKey{Name: t.id}, &b))
	return &b
}

// wantSynced waits for a reason of the condition Synced, said of the settings as they are.
func (t *tenant) wantSynced(reason string) {
	t.Helper()
	t.eventually("Synced is "+reason, func() error {
		b := t.clusterBinding()
		for _, c := range b.Status.Conditions {
			if c.Type == v1alpha1.ConditionSynced {
				if c.Reason == reason && c.ObservedGeneration == b.Generation {
					return nil
				}
				return fmt.Errorf("%+v, for generation %d", c, b.Generation)
			}
		}
		return errors.New("no condition")
	})
}

// push commits files on main; "" removes one. What names objects is committed by the konnector,
// as trailers of others do not count.
func (t *tenant) push(subject string, files map[string]string, trailers ...store.Trailer) string {
	t.Helper()
	main := t.main
	if len(trailers) > 0 {
		name, email := contract.ComponentIdentity(contract.Konnector, t.id)
		r, err := gitstore.Open(gitstore.Options{URL: t.host.url(t.id), Committer: store.Signature{Name: name, Email: email}, Credentials: credentials(t.password)})
		t.must(err)
		main, trailers = r.Branch("main"), withBlobs(trailers, files)
	}
	_, err := main.Fetch(t.Context())
	t.must(err)
	snap, err := main.Update(t.Context(), store.Edit{
		Author: alice, Subject: subject, Trailers: trailers,
		Apply: func(tree *store.Tree) error {
			for _, path := range slices.Sorted(maps.Keys(files)) {
				err := tree.Write(path, []byte(files[path]))
				if files[path] == "" {
					err = tree.Remove(path)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	})
	t.must(err)
	return string(snap.Head())
}

// withBlobs has trailers name the files that the commit writes: one without is of a removal.
func withBlobs(trailers []store.Trailer, files map[string]string) []store.Trailer {
	var out []store.Trailer
	for _, trailer := range trailers {
		for _, o := range contract.ParseObjectTrailers(trailer.Key + ": " + trailer.Value) {
			if content := files[o.Key.Path()]; content != "" {
				o.Blob = string(store.BlobHash([]byte(content)))
			}
			trailer.Value = o.String()
		}
		out = append(out, trailer)
	}
	return out
}

// answer is the ClaimStatus of a path, nil if there is none.
func (t *tenant) answer(path string) *contract.Status {
	t.Helper()
	snap, err := t.status.Fetch(t.Context())
	t.must(err)
	data, err := snap.Read(contract.StatusPath(path))
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	t.must(err)
	s, err := contract.DecodeStatus(data)
	t.must(err)
	return s
}

// wantAnswer waits for an answer with a result, and a message or reason with
// certain words.
func (t *tenant) wantAnswer(path string, result contract.Result, words ...string) *contract.Status {
	t.Helper()
	var s *contract.Status
	t.eventually(fmt.Sprintf("%s is answered with %s", path, result), func() error {
		s = t.answer(path)
		if s == nil {
			return errors.New("no answer")
		}
		text := s.Message
		if s.Problem != nil {
			text += " " + s.Problem.Error()
		}
		for _, word := range words {
			if s.Result != result || !strings.Contains(text, word) {
				return fmt.Errorf("%s %q", s.Result, text)
			}
		}
		if s.Result != result {
			return fmt.Errorf("%s %q", s.Result, text)
		}
		return nil
	})
	return s
}

// wantObserved waits until status answers main's head.
func (t *tenant) wantObserved() contract.Observed {
	t.Helper()
	var o contract.Observed
	t.eventually("main is answered", func() (err error) {
		o, err = t.observed()
		return err
	})
	return o
}

// wantManyObserved is wantObserved where there is much to answer.
func (t *tenant) wantManyObserved() {
	t.Helper()
	t.eventuallyIn(patienceForMany, "main is answered", func() error {
		_, err := t.observed()
		return err
	})
}

// observed is what status answers. The error says that it is not main's head.
func (t *tenant) observed() (o contract.Observed, err error) {
	t.Helper()
	snap, err := t.status.Fetch(t.Context())
	if err != nil {
		return o, err
	}
	data, err := snap.Read(contract.ObservedPath)
	if err != nil {
		return o, err
	}
	if o, err = contract.DecodeObserved(data); err != nil {
		return o, err
	}
	if head := t.host.head(t.id, "main"); o.Commit != head {
		return o, fmt.Errorf("%+v, want commit %s", o, head)
	}
	return o, nil
}

// restarted waits for a bridge that was restarted, which follows all tenants of the
// world again, and for it to answer one more commit.
func (t *tenant) restarted() {
	t.Helper()
	t.bridge.stop()
	t.startBridge()
	t.push("Touch", map[string]string{"README.md": rand.Text()})
	t.wantObserved()
}

// object is that of a claim, nil if there is none.
func (t *tenant) object(path string) *unstructured.Unstructured {
	t.Helper()
	key, err := contract.ParsePath(path)
	t.must(err)
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(key.Group() + "/v1")
	u.SetKind(kinds[key.Binding])
	err = t.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(t.id) + "-" + key.Namespace, Name: key.Name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	t.must(err)
	return u
}

func (t *tenant) wantObject(path, field, want string) *unstructured.Unstructured {
	t.Helper()
	var u *unstructured.Unstructured
	t.eventually(path+" has "+field+"="+want, func() error {
		if u = t.object(path); u == nil {
			return errors.New("there is no object")
		}
		if got, _, _ := unstructured.NestedString(u.Object, strings.Split(field, ".")...); got != want {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	return u
}

// setStatus plays the provider.
func (t *tenant) setStatus(path string, status map[string]any) {
	t.Helper()
	t.eventually("the provider writes status", func() error {
		u := t.object(path)
		if u == nil {
			return errors.New("there is no object")
		}
		u.Object["status"] = status
		return t.admin.Status().Update(t.Context(), u)
	})
}

// wantReady waits until the answer to a path says that the service is ready.
func (t *tenant) wantReady(path string) {
	t.Helper()
	t.eventually("it is ready", func() error {
		s := t.answer(path)
		if s == nil {
			return errors.New("no answer")
		}
		conditions, _, _ := unstructured.NestedSlice(s.Status, "conditions")
		for _, c := range conditions {
			if m, _ := c.(map[string]any); m["type"] == "Ready" && m["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("%s %s %v", s.Result, s.Message, conditions)
	})
}

func (t *tenant) wantData(u *unstructured.Unstructured, key, want string) {
	t.Helper()
	t.eventually(key+" is "+want, func() error {
		if err := t.admin.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(u.Object, "data", key)
		return is(got, want)
	})
}
