package app_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	origin "gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// sender is an app cluster's konnector, as far as it sends inputs.
type sender struct {
	*tenant
	api      v1alpha1.ExportedAPI
	signer   *encryption.Signer
	sequence int64
}

// newSender registers a signing key.
func (t *tenant) newSender(api v1alpha1.ExportedAPI) *sender {
	t.Helper()
	s := &sender{t, api, nil, time.Now().UnixMilli()}
	s.newKey()
	return s
}

func (s *sender) newKey() {
	s.Helper()
	var err error
	s.signer, err = encryption.NewSigner(encryption.GenerateSeed())
	s.must(err)
	b := s.clusterBinding()
	before := b.DeepCopy()
	b.Spec.Encryption = &v1alpha1.EncryptionKeys{SigningKeys: []string{s.signer.Public()}}
	s.must(s.admin.Patch(s.Context(), b, client.MergeFrom(before)))
}

// seal is the next version of a claim's inputs.
func (s *sender) seal(path, uid string, in ...encryption.Input) string {
	s.Helper()
	s.sequence++
	var to []string
	s.eventually("the bridge has published a recipient", func() error {
		if b := s.clusterBinding().Status.Bridge; b != nil && b.Encryption != nil {
			to = b.Encryption.Recipients
		}
		if len(to) != 1 {
			return fmt.Errorf("they are %v", to)
		}
		return nil
	})
	key, err := contract.ParsePath(path)
	s.must(err)
	file, err := s.signer.SealInputs(encryption.Binding{Cluster: s.id, Claim: key, UID: uid}, in, to, s.sequence)
	s.must(err)
	return string(file)
}

func inputsOf(path string) string { return strings.Replace(path, "/claims/", "/inputs/", 1) }

func secretInput(name, value string) encryption.Input {
	return encryption.Input{Kind: "Secret", Name: name, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte(value)}}
}

// wantInputs waits for what a claim's answer says of its inputs, with a part of why one is
// refused.
func (s *sender) wantInputs(path string, want []string, refused map[string]string) {
	s.Helper()
	s.eventually(fmt.Sprintf("the inputs are %v, refused %v", want, refused), func() error {
		a := s.answer(path)
		if a == nil || a.Inputs == nil || !slices.Equal(a.Inputs.Objects, want) || len(a.Inputs.Refused) != len(refused) {
			return fmt.Errorf("%+v", a)
		}
		for name, why := range refused {
			if !strings.Contains(a.Inputs.Refused[name], why) {
				return fmt.Errorf("%v", a.Inputs.Refused)
			}
		}
		return nil
	})
}

func (s *sender) wantPassword(namespace, name, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("Secret %s has %q", name, want), func() error {
		var secret corev1.Secret
		err := s.admin.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &secret)
		if apierrors.IsNotFound(err) && want == "" {
			return nil
		}
		if err == nil && (want == "" || string(secret.Data["password"]) != want) {
			err = fmt.Errorf("it has %q", secret.Data["password"])
		}
		return err
	})
}

var upClaims = []v1alpha1.PermissionClaim{
	{Direction: v1alpha1.DirectionUp, Name: "$(name)-ca"},
	{Direction: v1alpha1.DirectionUp, Field: "spec.service"},
	{Direction: v1alpha1.DirectionUp, Resource: v1alpha1.ResourceConfigMaps, MatchLabels: map[string]string{"claim": "$(name)"}},
}

// Secrets and ConfigMaps that come with a claim are there before it is, follow their values,
// and go with it. The bridge runs with no more than its ServiceAccount's rights, and writes
// with the tenant's.
func TestA11_ReferencedSecretsAndConfigMapsComeUp(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.claimed(api, upClaims...)
	w.startBridge()
	t := w.tenant(api).newSender(api)
	orders, billing := path(api, "team-a", "orders"), path(api, "team-a", "billing")
	settings := encryption.Input{Kind: "ConfigMap", Name: "settings", Labels: map[string]string{"claim": "orders", "gitbind.dev/cluster": "a7c2"}, Text: map[string]string{"mode": "fast"}, Data: map[string][]byte{"bin": {0}}}
	shared := secretInput("a9s-postgresql13", "shared-1")
	t.push("Order", map[string]string{
		orders: manifest(orders, nano), inputsOf(orders): t.seal(orders, "u1", secretInput("orders-ca", "geheim-1"), settings, shared, secretInput("other", "x")),
	}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	all := []string{"ConfigMap settings", "Secret a9s-postgresql13", "Secret orders-ca"}
	t.wantInputs(orders, all, map[string]string{"Secret other": "does not name it"})
	u := t.object(orders)
	in := u.GetNamespace()
	t.wantPassword(in, "orders-ca", "geheim-1")
	var config corev1.ConfigMap
	t.must(t.admin.Get(t.Context(), client.ObjectKey{Namespace: in, Name: "settings"}, &config))
	if created := config.CreationTimestamp.Time; created.After(u.GetCreationTimestamp().Time) {
		w.Error("the claim was applied before what it refers to")
	}
	wantLabels := map[string]string{"claim": "orders", v1alpha1.ManagedByLabel: v1alpha1.ManagedByBridge, origin.ClusterLabel: t.id,
		v1alpha1.InputOfLabel: config.Labels[v1alpha1.InputOfLabel]}
	if config.Data["mode"] != "fast" || len(config.BinaryData["bin"]) != 1 || !maps.Equal(config.Labels, wantLabels) {
		w.Errorf("the ConfigMap is %v %v", config.Labels, config.Data)
	}

	// A value that rotates, in a commit without a change of the claim.
	rotated := t.seal(orders, "u1", secretInput("orders-ca", "geheim-2"), settings, shared)
	t.push("Rotate", map[string]string{inputsOf(orders): rotated})
	t.wantInputs(orders, all, nil)
	t.wantPassword(in, "orders-ca", "geheim-2")

	t.Run("two claims share one", func(*testing.T) {
		t.push("Order", map[string]string{billing: manifest(billing, nano), inputsOf(billing): t.seal(billing, "u2", shared)}, object(billing, "u2"))
		t.wantInputs(billing, []string{"Secret a9s-postgresql13"}, nil)
		t.push("Less", map[string]string{inputsOf(orders): t.seal(orders, "u1", secretInput("orders-ca", "geheim-3"))})
		t.wantInputs(orders, []string{"Secret orders-ca"}, nil)
		t.wantPassword(in, "orders-ca", "geheim-3")
		t.wantPassword(in, "a9s-postgresql13", "shared-1")
		if err := t.admin.Get(t.Context(), client.ObjectKeyFromObject(&config), &config); !apierrors.IsNotFound(err) {
			w.Errorf("the ConfigMap that is selected no more: %v", err)
		}
	})
	t.Run("a foreign Secret of the same name stays until it is handed over", func(*testing.T) {
		t.wantPassword(in, "billing-ca", "")
		t.secret(in, "billing-ca", map[string]string{"password": "theirs"})
		t.push("More", map[string]string{inputsOf(billing): t.seal(billing, "u2", shared, secretInput("billing-ca", "ours"))})
		t.wantInputs(billing, []string{"Secret a9s-postgresql13"}, map[string]string{"Secret billing-ca": v1alpha1.AdoptAnnotation + "=" + t.id})
		t.wantPassword(in, "billing-ca", "theirs")
		t.secret(in, "billing-ca", map[string]string{"password": "theirs"}, func(s *corev1.Secret) { s.Annotations = map[string]string{v1alpha1.AdoptAnnotation: t.id} })
		t.push("Again", map[string]string{inputsOf(billing): t.seal(billing, "u2", shared, secretInput("billing-ca", "ours"))})
		t.wantInputs(billing, []string{"Secret a9s-postgresql13", "Secret billing-ca"}, nil)
		t.wantPassword(in, "billing-ca", "ours")
	})
	t.Run("F7_what is replayed, swapped or invented changes nothing", func(*testing.T) {
		has := []string{"Secret a9s-postgresql13", "Secret billing-ca"}
		good := t.seal(billing, "u2", shared, secretInput("billing-ca", "ours"))
		invented, err := encryption.NewSigner(encryption.GenerateSeed())
		t.must(err)
		registered := t.signer
		t.signer = invented
		foreign := t.seal(billing, "u2", secretInput("billing-ca", "evil"))
		t.signer = registered
		for why, file := range map[string]string{
			"older than":               rotatedBefore(t, billing, shared),
			"another claim":            t.seal(orders, "u1", secretInput("orders-ca", "evil")),
			"another UID":              t.seal(billing, "u9", secretInput("billing-ca", "evil")),
			"key that the app cluster": foreign,
			"not signed":               "kind: Secret\n",
			"as the konnector signed":  strings.Replace(good, "uid: u2", "uid: u3", 1),
		} {
			t.push("Invent", map[string]string{inputsOf(billing): file})
			t.wantInputs(billing, has, map[string]string{contract.AllInputs: why})
		}
		t.wantPassword(in, "billing-ca", "ours")
		t.push("Put back", map[string]string{inputsOf(billing): t.seal(billing, "u2", shared, secretInput("billing-ca", "ours"))})
		t.wantInputs(billing, has, nil)
	})

	// Another process writes nothing that did not change; another key is taken when it is
	// registered.
	var before corev1.Secret
	t.must(t.admin.Get(t.Context(), client.ObjectKey{Namespace: in, Name: "orders-ca"}, &before))
	t.restarted()
	t.newKey()
	t.push("With another key", map[string]string{inputsOf(billing): t.seal(billing, "u2", secretInput("billing-ca", "again"))})
	t.wantInputs(billing, []string{"Secret billing-ca"}, nil)
	t.wantPassword(in, "a9s-postgresql13", "")
	var after corev1.Secret
	t.must(t.admin.Get(t.Context(), client.ObjectKeyFromObject(&before), &after))
	if before.ResourceVersion != after.ResourceVersion {
		w.Error("a Secret that did not change was written again")
	}
	t.wantInputs(orders, []string{"Secret orders-ca"}, map[string]string{contract.AllInputs: "has not registered"})

	t.Run("F5_what came with a claim goes with it", func(*testing.T) {
		// A bridge that ended wrote another Secret, and could not say so any more. A person
		// copied one.
		var brought corev1.Secret
		t.must(t.admin.Get(t.Context(), client.ObjectKey{Namespace: in, Name: "billing-ca"}, &brought))
		for name, of := range map[string]string{"unsaid": "unsaid", "copied": "billing-ca"} {
			o := brought
			o.ObjectMeta = metav1.ObjectMeta{Namespace: in, Name: name, Labels: brought.Labels, Annotations: maps.Clone(brought.Annotations)}
			o.Annotations[v1alpha1.ObjectAnnotation] = in + "/" + of
			t.must(t.admin.Create(t.Context(), &o))
		}
		t.remove(billing, inputsOf(billing))
		t.wantAnswer(billing, contract.Gone)
		t.wantPassword(in, "billing-ca", "")
		t.wantPassword(in, "unsaid", "")
		t.wantPassword(in, "copied", "again")
		t.wantPassword(in, "orders-ca", "geheim-3")
	})
	t.Run("B16_what the offer names no more goes", func(*testing.T) {
		w.claimed(api)
		t.wantPassword(in, "orders-ca", "")
	})
	t.noValues("geheim", "shared-1", "ours")
}

// rotatedBefore is a file of a claim that is older than all others.
func rotatedBefore(s *sender, path string, in encryption.Input) string {
	s.Helper()
	now := s.sequence
	s.sequence = 5
	defer func() { s.sequence = now }()
	return s.seal(path, "u2", in)
}

// noValues sees that no value is in what the repository keeps.
func (s *sender) noValues(values ...string) {
	s.Helper()
	for _, branch := range []store.Branch{s.main, s.status} {
		snap, err := branch.Fetch(s.Context())
		s.must(err)
		for e := range snap.List("") {
			data, err := snap.Read(e.Path)
			s.must(err)
			for _, value := range values {
				if strings.Contains(string(data), value) {
					s.Errorf("%s has the value %s", e.Path, value)
				}
			}
		}
	}
}

// What comes up is written with the tenant's rights: in its own claim namespaces only, where
// claims have such, and only with the ClusterRole. It never is a credential of the cluster.
func TestD17_InputsAreWrittenWithTheTenantsRights(test *testing.T) {
	w := newWorld(test)
	api := w.define(postgresqlFile)
	w.claimed(api, v1alpha1.PermissionClaim{Direction: v1alpha1.DirectionUp, Name: "ca"})
	w.startBridge()
	t, other := w.tenant(api).newSender(api), w.tenant(api)
	orders := path(api, "team-a", "orders")
	token := secretInput("ca", "x")
	token.Type = corev1.SecretTypeServiceAccountToken
	t.push("Order", map[string]string{orders: manifest(orders, nano), inputsOf(orders): t.seal(orders, "u1", token)}, object(orders, "u1"))
	t.wantAnswer(orders, contract.Applied)
	t.wantInputs(orders, nil, map[string]string{"Secret ca": "cluster's own"})
	t.push("Another", map[string]string{inputsOf(orders): t.seal(orders, "u1", secretInput("ca", "v"))})
	here := t.object(orders).GetNamespace()
	t.wantPassword(here, "ca", "v")
	// The file of another cluster.
	snap, err := t.main.Fetch(t.Context())
	t.must(err)
	theirs, err := snap.Read(inputsOf(orders))
	t.must(err)
	foreign := other.newSender(api)
	foreign.push("Order", map[string]string{orders: manifest(orders, nano), inputsOf(orders): string(theirs)}, object(orders, "u1"))
	foreign.wantInputs(orders, nil, map[string]string{contract.AllInputs: "not registered"})
	there := foreign.object(orders).GetNamespace()
	foreign.wantPassword(there, "ca", "")
	for namespace, want := range map[string]bool{here: true, there: false, v1alpha1.TenantNamespace(t.id): false, v1alpha1.SystemNamespace: false, "default": false} {
		if got := t.can("create", "", "secrets", namespace); got != want {
			w.Errorf("the tenant may write Secrets in %s: %t", namespace, got)
		}
	}
	// A right that is withdrawn takes nothing away, and the bridge gives it again.
	t.must(t.admin.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: origin.InputsRoleBinding}}))
	t.push("Rotate", map[string]string{inputsOf(orders): t.seal(orders, "u1", secretInput("ca", "v2"))})
	t.wantPassword(here, "ca", "v2")
}
