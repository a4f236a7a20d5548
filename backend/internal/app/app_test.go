package app

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/credential"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/test/env"
)

// TestBackend runs the backend against a real API server and a real issuer.
func TestBackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.kubectl(t, "apply", "--server-side", "-f", "testdata/offer.yaml")

	t.Run("side by side", func(t *testing.T) {
		t.Run("it tells anybody how to sign in", together(f.testInfo))
		t.Run("a request without a valid ID token is refused", together(f.testUnauthenticated))
		t.Run("a connected cluster has a repository that its konnector can push to", together(f.testConnect))
		t.Run("connecting at the same time makes one cluster", together(f.testRacingConnects))
		t.Run("connecting again gives the same cluster and replaces the credential", together(f.testReconnect))
		t.Run("D12_credentials are renewed and rotated and revoked", together(f.testCredentials))
		t.Run("F9_keys are registered by the cluster and by nobody else", together(f.testKeys))
		t.Run("a cluster that was rebuilt reclaims its place, for its owner only", together(f.testReclaim))
		t.Run("a request that makes no sense is refused with words", together(f.testInvalid))
		t.Run("another person's cluster is not there", together(f.testTenants))
		t.Run("a repository is shared by binding and namespace and taken back", together(f.testShare))
		t.Run("D2_a proposed change is merged by who may approve it and did not propose it", together(f.testReview))
		t.Run("an owner hands a cluster over to who accepts it", together(f.testTransfer))
		t.Run("who may bind what", together(f.testOffersOfOneAPI))
		t.Run("people use the web page", together(f.testWebPage))
		t.Run("the bridge acts as a tenant in its own namespaces only", together(f.testBridgeRights))
		t.Run("H10_the backend acts as no tenant and cannot let itself", together(f.testBackendIsNoTenant))
		t.Run("A8_namespace and rights of a tenant are there and come back", together(f.testDrift))
		t.Run("the bridge's conditions stay", together(f.testForeignConditions))
		t.Run("a namespace that is not the cluster's own is not taken over", together(f.testTakenNamespace))
		t.Run("removing a ClusterBinding removes all but the repository", together(f.testRemoval))
	})
	t.Run("H4_the right to connect is no right to make ClusterBindings by hand", f.testDirectCreate)
	// Each of these stops something.
	t.Run("B2_a konnector that keeps in touch is seen and one that does not is told", f.testHeartbeat)
	t.Run("L5_two live copies are held until their owner decides, whichever process starts again", f.testCopies)
	t.Run("H4_connecting is a right that operators give and take", f.testConnectIsARight)
	t.Run("H4_an owner has a number of clusters and no more", f.testMaxClusters)
	t.Run("a repository that is gone is not made again", f.testLostRepository)
	t.Run("agents go on while the API server is away", f.testAPIServerAway)
	t.Run("it starts while the API server is away, and goes on by itself", f.testStartWithoutAPIServer)
	t.Run("it starts while the issuer is away, and goes on by itself", f.testIssuerAway)
	// This leaves no definition of DryRuns.
	t.Run("it works without the definition of dry runs", f.testWithoutDryRuns)
}

// together is a test that runs beside others.
func together(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		test(t)
	}
}

// testOffersOfOneAPI is one after the other: all of it offers the same API, and
// changes who may have it.
func (f *fixture) testOffersOfOneAPI(t *testing.T) {
	t.Run("an offer says why it cannot be taken", f.testOffers)
	t.Run("who may bind what is the control plane's RBAC", f.testBind)
	t.Run("the catalogue", f.testCatalogue)
	t.Run("A4_bind says what to apply and lets the cluster bind just that in Git", f.testBindInGit)
}

func (f *fixture) testInfo(t *testing.T) {
	var info restapi.Info
	if status, _ := f.call(t, "", "GET", "/v1/info", nil, &info); status != http.StatusOK || info.Issuer != f.Dex.Issuer || info.ClientID != f.Dex.ClientID || len(info.Scopes) == 0 {
		t.Errorf("status %d, %+v", status, info)
	}
}

func (f *fixture) testUnauthenticated(t *testing.T) {
	parts := strings.Split(f.tokens[env.Alice], ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	forged := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), env.Alice, env.Bob, 1))) + "." + parts[2]
	for _, route := range []string{"POST /v1/clusters", "GET /v1/clusters", "GET /v1/catalog", "POST /v1/clusters/k3x9d2abqw/bindings"} {
		method, path, _ := strings.Cut(route, " ")
		for name, token := range map[string]string{"no token": "", "no token at all": "hello", "a forged token": forged} {
			if status, message := f.call(t, token, method, path, nil, nil); status != http.StatusUnauthorized {
				t.Errorf("%s with %s: %d %s", route, name, status, message)
			}
		}
	}
}

func (f *fixture) testConnect(t *testing.T) {
	c := f.connect(t, env.Alice, "connect")
	if c.Credential == nil || !strings.HasPrefix(c.Credential.Password, "gbk_") || c.RepositoryURL != f.url+"/git/"+c.ID+".git" {
		t.Fatalf("got %+v", c)
	}
	events := f.listen(t, c.ID, c.Credential.Username, c.Credential.Password)
	if e := next(t, events); e.Ref != "refs/heads/main" {
		t.Errorf("first event %+v", e)
	}

	dir := filepath.Join(t.TempDir(), "clone")
	email := "konnector@" + contract.ClusterDomain(c.ID)
	for _, args := range [][]string{
		{"clone", "-q", withCredential(c.RepositoryURL, c.Credential.Username, c.Credential.Password), dir},
		{"-C", dir, "-c", "user.name=konnector", "-c", "user.email=" + email, "commit", "-q", "--allow-empty", "-m", "hello"},
		{"-C", dir, "push", "-q", "origin", "HEAD:main"},
	} {
		if out, err := git(t, "", args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	head, _ := git(t, dir, "rev-parse", "HEAD")
	if e := next(t, events); e.Ref != "refs/heads/main" || e.Hash != strings.TrimSpace(head) {
		t.Errorf("after the push: %+v, want %s", e, head)
	}

	for name, c := range map[string]struct {
		user, password string
	}{
		"the owner with an ID token": {"alice", f.tokens[env.Alice]},
		"the bridge":                 {"bridge", f.bridgeSecret(t, c.ID)},
	} {
		if out, err := gitRemote(t, f.url+"/git/"+f.only(t, "connect")+".git", c.user, c.password); err != nil || !strings.Contains(out, "refs/heads/main") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
	cb := f.binding(t, c.ID)
	if cb.Spec.Owner.Username != "oidc:"+env.Alice || cb.Status.TenantNamespace != v1alpha1.TenantNamespace(c.ID) || cb.Status.Repository.URL != c.RepositoryURL {
		t.Errorf("ClusterBinding %+v", cb)
	}
	var kept corev1.Secret
	if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: cb.Status.TenantNamespace, Name: v1alpha1.KonnectorSecret}, &kept); err != nil {
		t.Fatal(err)
	}
	for key, value := range kept.Data {
		if strings.Contains(string(value), c.Credential.Password) {
			t.Errorf("the konnector's token is kept in clear in %s", key)
		}
	}
}

// only is the id of the one ClusterBinding with this UID.
func (f *fixture) only(t *testing.T, uid string) string {
	t.Helper()
	var list v1alpha1.ClusterBindingList
	if err := f.admin.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, cb := range list.Items {
		if cb.Spec.ClusterUID == uid {
			ids = append(ids, cb.Name)
		}
	}
	if len(ids) != 1 {
		t.Fatalf("ClusterBindings of %s: %v, want one", uid, ids)
	}
	return ids[0]
}

func (f *fixture) testRacingConnects(t *testing.T) {
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if status, message := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "race", ClusterUID: "race"}, nil); status != http.StatusOK {
				t.Errorf("%d %s", status, message)
			}
		})
	}
	wg.Wait()
	f.only(t, "race")
}

func (f *fixture) testReconnect(t *testing.T) {
	first := f.connect(t, env.Alice, "again")
	var second restapi.Cluster
	if status, message := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "renamed", ClusterUID: "again"}, &second); status != http.StatusOK {
		t.Fatalf("%d %s", status, message)
	}
	if first.ID != second.ID || second.Name != "renamed" || f.binding(t, first.ID).Spec.DisplayName != "renamed" {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if out, err := gitRemote(t, second.RepositoryURL, second.Credential.Username, second.Credential.Password); err != nil {
		t.Errorf("the new credential: %v %s", err, out)
	}
	eventually(t, "the old credential is refused", func() error {
		if _, err := gitRemote(t, first.RepositoryURL, first.Credential.Username, first.Credential.Password); err == nil {
			return fmt.Errorf("it still counts")
		}
		return nil
	})
	if bobs := f.connect(t, env.Bob, "again"); bobs.ID == first.ID {
		t.Error("another person connected the same UID and got the same cluster")
	}
}

func (f *fixture) testInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		body   any
		status int
		words  string
	}{
		"no JSON":         {"hello", 400, "no JSON"},
		"unknown field":   {`{"name":"a","clusterUID":"u","owner":"bob"}`, 400, "owner"},
		"two objects":     {`{"name":"a","clusterUID":"u"}{}`, 400, "more than one"},
		"no name":         {restapi.ConnectRequest{ClusterUID: "u"}, 400, "name:"},
		"a long name":     {restapi.ConnectRequest{Name: strings.Repeat("x", 64), ClusterUID: "u"}, 400, "name:"},
		"control codes":   {restapi.ConnectRequest{Name: "a\x1b[31m", ClusterUID: "u"}, 400, "name:"},
		"no UID":          {restapi.ConnectRequest{Name: "a"}, 400, "clusterUID:"},
		"a UID with dots": {restapi.ConnectRequest{Name: "a", ClusterUID: "../x"}, 400, "clusterUID:"},
		"no cluster id":   {restapi.ConnectRequest{Name: "a", ClusterUID: "u", ConnectedAs: "../x"}, 400, "connectedAs:"},
		"too large":       {restapi.ConnectRequest{Name: strings.Repeat("x", 100_000), ClusterUID: "u"}, 413, "64 KiB"},
	} {
		if status, message := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", c.body, nil); status != c.status || !strings.Contains(message, c.words) {
			t.Errorf("%s: %d %s", name, status, message)
		}
	}
	if status, message := f.call(t, f.tokens[env.Alice], "GET", "/v1/nothing", nil, nil); status != 404 || !strings.Contains(message, "there is nothing") {
		t.Errorf("an unknown route: %d %s", status, message)
	}
}

func (f *fixture) testTenants(t *testing.T) {
	alices := f.connect(t, env.Alice, "tenants")
	var bobs []restapi.Cluster
	f.call(t, f.tokens[env.Bob], "GET", "/v1/clusters", nil, &bobs)
	for _, c := range bobs {
		if c.ID == alices.ID {
			t.Error("Bob sees Alice's cluster")
		}
	}
	var own []restapi.Cluster
	f.call(t, f.tokens[env.Alice], "GET", "/v1/clusters", nil, &own)
	if len(own) == 0 || own[0].Credential != nil {
		t.Errorf("Alice's own: %+v", own)
	}
	bind := restapi.BindRequest{Offer: "database"}
	status, message := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/"+alices.ID+"/bindings", bind, nil)
	nowhere, nothing := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/nosuchid/bindings", bind, nil)
	if status != 404 || nowhere != 404 || message != nothing {
		t.Errorf("Alice's cluster: %d %s; none at all: %d %s", status, message, nowhere, nothing)
	}
	if out, err := gitRemote(t, alices.RepositoryURL, "bob", f.tokens[env.Bob]); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("Bob at Alice's repository: %v %s", err, out)
	}
	for _, path := range []string{"/v1/events?cluster=" + alices.ID, "/v1/events?cluster=nosuchid", "/v1/events?cluster=../x"} {
		if status, _ := f.call(t, f.tokens[env.Bob], "GET", path, nil, nil); status != 404 {
			t.Errorf("Bob at %s: %d", path, status)
		}
	}
}

func (f *fixture) testOffers(t *testing.T) {
	for name, want := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		kind   string
	}{
		"database":    {metav1.ConditionTrue, "Offered", "Database"},
		"planet":      {metav1.ConditionFalse, "NotNamespaced", "Planet"},
		"nothing":     {metav1.ConditionFalse, "NotInstalled", ""},
		"database-v2": {metav1.ConditionFalse, "VersionNotServed", "Database"},
	} {
		template := &v1alpha1.APIServiceExportTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c := f.condition(t, template, func() []metav1.Condition { return template.Status.Conditions }, v1alpha1.ConditionOffered, want.status)
		if c.Reason != want.reason || template.Status.Kind != want.kind {
			t.Errorf("%s: %+v, kind %q", name, c, template.Status.Kind)
		}
	}
}

func (f *fixture) testBind(t *testing.T) {
	c := f.connect(t, env.Alice, "bind")
	bobs := f.connect(t, env.Bob, "bind")
	path := "/v1/clusters/" + c.ID + "/bindings"

	var catalog []restapi.Offer
	f.call(t, f.tokens[env.Alice], "GET", "/v1/catalog", nil, &catalog)
	if len(catalog) != 1 || catalog[0].Name != "database" || catalog[0].Kind != "Database" || catalog[0].Description != "A database" {
		t.Errorf("Alice's catalogue: %+v", catalog)
	}
	f.call(t, f.tokens[env.Bob], "GET", "/v1/catalog", nil, &catalog)
	if len(catalog) != 0 {
		t.Errorf("Bob's catalogue: %+v", catalog)
	}
	status, forbidden := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/"+bobs.ID+"/bindings", restapi.BindRequest{Offer: "database"}, nil)
	none, missing := f.call(t, f.tokens[env.Bob], "POST", "/v1/clusters/"+bobs.ID+"/bindings", restapi.BindRequest{Offer: "missing1"}, nil)
	if status != 404 || none != 404 || forbidden != strings.Replace(missing, "missing1", "database", 1) {
		t.Errorf("Bob binds: %d %s; what is not there: %d %s", status, forbidden, none, missing)
	}
	if status, message := f.call(t, f.tokens[env.Alice], "POST", path, restapi.BindRequest{Offer: "planet"}, nil); status != 409 || !strings.Contains(message, "cannot be bound just now") {
		t.Errorf("an offer that is not offered: %d %s", status, message)
	}
	if status, message := f.call(t, f.tokens[env.Alice], "POST", path, restapi.BindRequest{Offer: "../x"}, nil); status != 400 {
		t.Errorf("no name: %d %s", status, message)
	}

	for range 2 { // the second time it is there already
		var b restapi.Binding
		if status, message := f.call(t, f.tokens[env.Alice], "POST", path, restapi.BindRequest{Offer: "database"}, &b); status != 200 || b.Name != "databases.example.com" || b.Offer != "database" {
			t.Fatalf("%d %s %+v", status, message, b)
		}
	}
	export := &v1alpha1.APIServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.TenantNamespace(c.ID), Name: "databases.example.com"}}
	f.condition(t, export, func() []metav1.Condition { return export.Status.Conditions }, v1alpha1.ConditionGranted, metav1.ConditionTrue)
	role := func() rbacv1.ClusterRole {
		var r rbacv1.ClusterRole
		if err := f.admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.TenantRole(c.ID)}, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := role(); len(r.Rules) != 1 || r.Rules[0].Resources[0] != "databases" || r.Rules[0].APIGroups[0] != "example.com" {
		t.Errorf("rights: %+v", r.Rules)
	}

	// The operator takes the offer back, and gives it again.
	f.kubectl(t, "label", "clusterrole", "offer-databases", "gitbind.dev/offered-")
	if c := f.condition(t, export, func() []metav1.Condition { return export.Status.Conditions }, v1alpha1.ConditionGranted, metav1.ConditionFalse); c.Reason != "NotOffered" {
		t.Errorf("without the offer: %+v", c)
	}
	eventually(t, "the tenant's rights are gone", func() error {
		if r := role(); len(r.Rules) > 0 {
			return fmt.Errorf("still %+v", r.Rules)
		}
		return nil
	})
	f.kubectl(t, "label", "clusterrole", "offer-databases", "gitbind.dev/offered=true")
	f.condition(t, export, func() []metav1.Condition { return export.Status.Conditions }, v1alpha1.ConditionGranted, metav1.ConditionTrue)

	if err := f.admin.Delete(t.Context(), export); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rights go with the export", func() error {
		if r := role(); len(r.Rules) > 0 {
			return fmt.Errorf("still %+v", r.Rules)
		}
		return nil
	})
}

func (f *fixture) testBridgeRights(t *testing.T) {
	a, b := f.connect(t, env.Alice, "bridge-a"), f.connect(t, env.Alice, "bridge-b")
	kubeconfig, err := f.Cluster(env.Control).KubeconfigFor(t.Context(), v1alpha1.SystemNamespace, v1alpha1.BridgeServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	as := func(user string) error {
		cfg := rest.CopyConfig(bridge)
		cfg.Impersonate.UserName = user
		return newClient(t, cfg).Create(t.Context(), &authenticationv1.SelfSubjectReview{})
	}
	for _, c := range []restapi.Cluster{a, b} {
		eventually(t, "the bridge acts as a tenant", func() error {
			return as("system:serviceaccount:" + v1alpha1.TenantNamespace(c.ID) + ":" + v1alpha1.TenantServiceAccount)
		})
	}
	for _, user := range []string{
		"system:serviceaccount:default:" + v1alpha1.TenantServiceAccount,
		"system:serviceaccount:" + v1alpha1.TenantNamespace(a.ID) + ":default",
		"system:serviceaccount:" + v1alpha1.SystemNamespace + ":gitbind-backend",
		"oidc:" + env.Alice, "kubernetes-admin",
	} {
		if err := as(user); !apierrors.IsForbidden(err) {
			t.Errorf("the bridge acts as %s: %v", user, err)
		}
	}
}

func (f *fixture) testDrift(t *testing.T) {
	c := f.connect(t, env.Alice, "drift")
	ns := v1alpha1.TenantNamespace(c.ID)
	before := f.bridgeSecret(t, c.ID)
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v1alpha1.TenantServiceAccount}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v1alpha1.BridgeBinding}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantRole(c.ID)}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v1alpha1.BridgeSecret}},
	} {
		eventually(t, fmt.Sprintf("%T is there", o), func() error { return f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o) })
		uid := o.GetUID()
		if err := f.admin.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%T comes back", o), func() error {
			if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o.GetUID() == uid {
				return fmt.Errorf("it has not gone yet")
			}
			return nil
		})
	}
	after := f.bridgeSecret(t, c.ID)
	if after == before || after == "" {
		t.Error("the bridge's token did not change with its Secret")
	}
	if out, err := gitRemote(t, c.RepositoryURL, "bridge", after); err != nil {
		t.Errorf("the new token: %v %s", err, out)
	}
	eventually(t, "the old token is refused", func() error {
		if _, err := gitRemote(t, c.RepositoryURL, "bridge", before); err == nil {
			return fmt.Errorf("it still counts")
		}
		return nil
	})
	// An administrator who revokes the konnector's credential removes its Secret.
	if err := f.admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v1alpha1.KonnectorSecret}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked credential is refused", func() error {
		if _, err := gitRemote(t, c.RepositoryURL, "konnector", c.Credential.Password); err == nil {
			return fmt.Errorf("it still counts")
		}
		return nil
	})
}

func (f *fixture) testForeignConditions(t *testing.T) {
	c := f.connect(t, env.Alice, "foreign")
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"bridge": map[string]any{"acceptedCommit": "abc"},
		"conditions": []any{map[string]any{
			"type": v1alpha1.ConditionSynced, "status": "True", "reason": "Synced", "message": "", "lastTransitionTime": "2026-08-01T00:00:00Z",
		}},
	}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterBinding"))
	u.SetName(c.ID)
	if err := f.admin.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gitbind-gitbridge"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	// A change that makes the backend write its status once more.
	if status, message := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "foreign renamed", ClusterUID: "foreign"}, nil); status != 200 {
		t.Fatalf("%d %s", status, message)
	}
	cb := f.binding(t, c.ID)
	if ready := meta.FindStatusCondition(cb.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.ObservedGeneration != cb.Generation {
		t.Errorf("Ready: %+v at generation %d", ready, cb.Generation)
	}
	if !meta.IsStatusConditionTrue(cb.Status.Conditions, v1alpha1.ConditionSynced) || cb.Status.Bridge == nil || cb.Status.Bridge.AcceptedCommit != "abc" {
		t.Errorf("the bridge's part is gone: %+v", cb.Status)
	}
}

func (f *fixture) testTakenNamespace(t *testing.T) {
	const id = "takenabcde"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantNamespace(id)}}
	if err := f.admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	cb := &v1alpha1.ClusterBinding{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.ClusterBindingSpec{
		DisplayName: "x", Owner: v1alpha1.Owner{Issuer: "i", Subject: "s", Username: "u"},
	}}
	if err := f.admin.Create(t.Context(), cb); err != nil {
		t.Fatal(err)
	}
	if c := f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, metav1.ConditionFalse); c.Reason != "InTheWay" {
		t.Errorf("%+v", c)
	}
	if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil || len(ns.OwnerReferences) > 0 || ns.Labels[v1alpha1.LabelCluster] != "" {
		t.Errorf("namespace %+v, %v", ns.ObjectMeta, err)
	}
}

func (f *fixture) testRemoval(t *testing.T) {
	c := f.connect(t, env.Alice, "removal")
	if err := f.admin.Delete(t.Context(), f.binding(t, c.ID)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantNamespace(c.ID)}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.TenantRole(c.ID)}},
	} {
		eventually(t, fmt.Sprintf("%T goes", o), func() error {
			if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
	}
	if _, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password); err == nil {
		t.Error("the credential still counts")
	}
	if _, err := os.Stat(filepath.Join(f.opts.gitDir, c.ID+".git", "HEAD")); err != nil {
		t.Errorf("the repository: %v", err)
	}
	if again := f.connect(t, env.Alice, "removal"); again.ID != c.ID {
		t.Errorf("connected again as %s, was %s", again.ID, c.ID)
	}
}

func (f *fixture) testLostRepository(t *testing.T) {
	c := f.connect(t, env.Alice, "lost")
	dir := filepath.Join(f.opts.gitDir, c.ID+".git")
	f.stop()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	f.run(t)
	cb := f.binding(t, c.ID)
	if got := f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, metav1.ConditionFalse); got.Reason != "RepositoryGone" {
		t.Errorf("%+v", got)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	f.condition(t, cb, func() []metav1.Condition { return cb.Status.Conditions }, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

func (f *fixture) testAPIServerAway(t *testing.T) {
	c := f.connect(t, env.Alice, "away")
	control := f.Cluster(env.Control)
	eventually(t, "the cache knows the credential", func() error {
		_, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password)
		return err
	})
	if err := control.APIServer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password); err != nil {
		t.Errorf("the konnector: %v %s", err, out)
	}
	if out, err := gitRemote(t, c.RepositoryURL, "konnector", credential.New(credential.KonnectorPrefix)); err == nil || !strings.Contains(out, "503") {
		t.Errorf("a credential that nobody knows: %v %s", err, out)
	}
	if status, message := f.call(t, f.tokens[env.Alice], "GET", "/v1/catalog", nil, nil); status != 503 || !strings.Contains(message, "try again") {
		t.Errorf("catalogue: %d %s", status, message)
	}
	if status, words := f.healthOf("/readyz/api-server"); status != 503 {
		t.Errorf("health: %d %s", status, words)
	}
	if status, words := f.healthOf("/readyz"); status != 200 || !strings.Contains(words, "[-] api-server") {
		t.Errorf("the Git host's readiness: %d %s", status, words)
	}
	if err := control.APIServer.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Its caches may sleep for up to a minute by now.
	eventuallyIn(t, patienceAtStart, "a cluster is connected again", func() error {
		if status, message := f.call(t, f.tokens[env.Alice], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "test", ClusterUID: "back"}, nil); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, message)
		}
		return nil
	})
}

func (f *fixture) testStartWithoutAPIServer(t *testing.T) {
	c := f.connect(t, env.Alice, "start")
	f.stop()
	server := f.Cluster(env.Control).APIServer
	if err := server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := make(chan struct{})
	go func() {
		defer close(away)
		eventually(t, "health says what is away", func() error {
			if status, words := f.healthOf("/readyz"); status != 503 || !strings.Contains(words, "[-] caches") || !strings.Contains(words, "[-] api-server") {
				return fmt.Errorf("%d %s", status, words)
			}
			return nil
		})
		if err := server.Start(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	f.run(t)
	<-away
	if again := f.connect(t, env.Alice, "start"); again.ID != c.ID {
		t.Errorf("connected again as %s, was %s", again.ID, c.ID)
	}
}

func (f *fixture) testIssuerAway(t *testing.T) {
	c := f.connect(t, env.Alice, "issuer")
	f.stop()
	if err := f.Dex.Process.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := make(chan struct{})
	go func() {
		defer close(away)
		eventually(t, "sign-in is refused with words", func() error {
			r, _ := http.NewRequestWithContext(context.Background(), "GET", f.url+"/v1/catalog", nil)
			r.Header.Set("Authorization", "Bearer "+f.tokens[env.Alice])
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != 503 {
				return fmt.Errorf("status %s", resp.Status)
			}
			return nil
		})
		eventually(t, "agents go on", func() error {
			out, err := gitRemote(t, c.RepositoryURL, c.Credential.Username, c.Credential.Password)
			if err != nil {
				return fmt.Errorf("%w %s", err, out)
			}
			return nil
		})
		if err := f.Dex.Process.Start(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	f.run(t) // waits for sign-in
	<-away
	// A Dex that forgets its keys when it stops: tokens from before count no longer.
	var err error
	if f.tokens[env.Alice], err = f.Dex.IDToken(t.Context(), env.Alice); err != nil {
		t.Fatal(err)
	}
	if status, message := f.call(t, f.tokens[env.Alice], "GET", "/v1/clusters", nil, nil); status != 200 {
		t.Errorf("afterwards: %d %s", status, message)
	}
}
