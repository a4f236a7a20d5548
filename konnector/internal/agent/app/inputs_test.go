package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/policies/attribution"
)

// sending is a world whose claims refer to objects, and a bridge that opens them.
type sending struct {
	*world
	opener *encryption.Opener
	keys   atomic.Pointer[encryption.Sender]
}

func newSending(t *testing.T) *sending {
	t.Helper()
	up := v1alpha1.DirectionUp
	s := &sending{world: newWorld(t)}
	s.inputs = []v1alpha1.PermissionClaim{
		{Direction: up, Name: "$(name)-ca"},
		{Direction: up, Field: "spec.service"},
		{Direction: up, Resource: v1alpha1.ResourceConfigMaps, MatchLabels: map[string]string{"claim": "$(name)"}},
	}
	s.newKeys()
	s.sender = func(string) *encryption.Sender { return s.keys.Load() }
	return s
}

// newKeys has both sides use others.
func (s *sending) newKeys() {
	s.Helper()
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	s.must(err)
	file, err := encryption.RotateIdentities(nil)
	s.must(err)
	ids, err := encryption.ParseIdentities(file)
	s.must(err)
	s.opener = &encryption.Opener{Cluster: clusterID, Keys: []string{signer.Public()}, Identities: ids}
	s.keys.Store(&encryption.Sender{Cluster: clusterID, Signer: signer, Recipients: ids.Recipients()})
}

// let gives the konnector the right to read in the namespace.
func (s *sending) let() *rbacv1.RoleBinding {
	s.Helper()
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: v1alpha1.KonnectorInputs},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.KonnectorInputs},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "gitbind-system", Name: "konnector"}},
	}
	s.must(s.client.Create(s.Context(), b))
	return b
}

func (s *sending) secretOf(name, value string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Type: kind, StringData: map[string]string{"password": value}}
}

// sent is what main has of a claim's inputs.
func (s *sending) sent(name string) (*contract.EncryptedInputs, map[string]string, error) {
	data, err := s.main().Read(s.key(name).InputsPath())
	if err != nil {
		return nil, nil, err
	}
	e, inputs, err := s.opener.OpenInputs(s.key(name), data)
	values := map[string]string{}
	for _, in := range inputs {
		values[in.Object().String()] = string(in.Data["password"]) + in.Text["mode"]
	}
	return e, values, err
}

func (s *sending) wantSent(name string, want map[string]string) (e *contract.EncryptedInputs) {
	s.Helper()
	s.eventually(fmt.Sprintf("main has %v", want), func() error {
		var got map[string]string
		var err error
		e, got, err = s.sent(name)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("it has %v", got)
		}
		return err
	})
	return e
}

// take answers that the control plane has what main has.
func (s *sending) take(name string, e *contract.EncryptedInputs, refused map[string]string) {
	s.Helper()
	in := &contract.Inputs{Sequence: e.Sequence, Refused: refused}
	for _, o := range e.Objects {
		in.Objects = append(in.Objects, o.String())
	}
	slices.Sort(in.Objects)
	s.answer(name, contract.Status{Result: contract.Applied, UID: string(s.get(name).GetUID()), Inputs: in})
}

// commitsOf are those that touch a claim's inputs.
func (s *sending) commitsOf(name string) int {
	s.Helper()
	return len(strings.Fields(s.host.run("-C", s.host.dir, "log", "--format=%h", "main", "--", s.key(name).InputsPath())))
}

// Secrets and ConfigMaps that a claim refers to go up in the commit of the claim, follow
// their values without any event on it, and go with it. Unchanged ones make no commit, also
// after a restart; other keys have them sealed again.
func TestA11_WhatAClaimRefersToGoesUp(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	s.let()
	ca := s.secretOf("orders-ca", "geheim-1", "")
	s.must(s.client.Create(t.Context(), ca))
	s.must(s.client.Create(t.Context(), s.secretOf("other", "geheim-0", "")))
	s.must(s.client.Create(t.Context(), s.secretOf("a9s-postgresql13", "geheim-0", "helm.sh/release.v1")))
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "settings", Labels: map[string]string{"claim": "orders", "more": "x"}}, Data: map[string]string{"mode": "fast"}}
	s.must(s.client.Create(t.Context(), settings))
	s.loop()
	s.apply("orders", spec("small"))
	s.committed("orders")
	e := s.wantSent("orders", map[string]string{"ConfigMap settings": "fast", "Secret orders-ca": "geheim-1"})
	if e.UID != string(s.get("orders").GetUID()) || e.Sequence == 0 {
		t.Errorf("the file says %+v", e)
	}
	if together := s.host.run("-C", s.host.dir, "log", "--format=", "--name-only", "--diff-filter=A", "main", "--", s.key("orders").InputsPath(), s.key("orders").Path()); strings.Count(together, "orders.yaml") != 2 || s.commitsOf("orders") != 1 {
		t.Errorf("claim and inputs came in\n%s", together)
	}
	s.take("orders", e, nil)
	if message := s.conditionIs("orders", "Inputs", "NeverTravels"); !strings.Contains(message, "helm.sh/release.v1") || strings.Contains(message, "geheim") {
		t.Error(message)
	}
	s.must(s.client.Delete(t.Context(), s.secretOf("a9s-postgresql13", "", "")))
	s.conditionIs("orders", "Inputs", "Missing")
	s.must(s.client.Create(t.Context(), s.secretOf("a9s-postgresql13", "shared", "")))
	e = s.wantSent("orders", map[string]string{"ConfigMap settings": "fast", "Secret a9s-postgresql13": "shared", "Secret orders-ca": "geheim-1"})
	s.take("orders", e, map[string]string{"Secret orders-ca": "it is somebody else's"})
	if message := s.conditionIs("orders", "Inputs", "Refused"); !strings.Contains(message, "Secret orders-ca: it is somebody else's.") {
		t.Error(message)
	}
	s.take("orders", e, nil)
	s.conditionIs("orders", "Inputs", "Taken")

	ca.StringData = map[string]string{"password": "geheim-2"}
	s.must(s.client.Update(t.Context(), ca))
	settings.Labels = nil
	s.must(s.client.Update(t.Context(), settings))
	rotated := map[string]string{"Secret a9s-postgresql13": "shared", "Secret orders-ca": "geheim-2"}
	e = s.wantSent("orders", rotated)
	s.take("orders", e, nil)
	s.conditionIs("orders", "Inputs", "Taken")

	t.Run("somebody's push to the file is replaced", func(*testing.T) {
		s.put(s.person, "Tamper", s.key("orders").InputsPath(), []byte("kind: Secret\n"))
		e = s.wantSent("orders", rotated)
		s.take("orders", e, nil)
	})
	before := s.commitsOf("orders")
	s.stop()
	s.start()
	s.apply("billing", spec("small"))
	s.wantSent("billing", map[string]string{"Secret a9s-postgresql13": "shared"})
	s.conditionIs("orders", "Inputs", "Taken")
	if after := s.commitsOf("orders"); after != before {
		t.Errorf("%d commits of what did not change", after-before)
	}
	s.stop()
	s.newKeys()
	s.start()
	if again := s.wantSent("orders", rotated); again.Sequence <= e.Sequence {
		t.Errorf("the sequence is %d after %d", again.Sequence, e.Sequence)
	}
	t.Run("F5_the file goes with the claim", func(*testing.T) {
		s.deleteObject("orders")
		s.fileGone("orders")
		s.eventually("the inputs are gone", func() error {
			if _, _, err := s.sent("orders"); !errors.Is(err, store.ErrNotExist) {
				return fmt.Errorf("they are not: %w", err)
			}
			return nil
		})
	})
	if all := s.host.run("-C", s.host.dir, "log", "-p", "--all"); strings.Contains(all, "geheim") || strings.Contains(all, "shared") {
		t.Error("a value is in the repository")
	}
}

// Without the right to read, the claim goes up all the same, and says how to give it. When
// it is given, what the claim refers to follows; when it is taken back, nothing is taken
// away.
func TestD17_WhatTheKonnectorMayNotReadDoesNotGoUp(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	s.must(s.client.Create(t.Context(), s.secretOf("orders-ca", "geheim-1", "")))
	s.loop()
	s.apply("orders", spec("small"))
	s.committed("orders")
	s.answer("orders", contract.Status{Result: contract.Applied, UID: string(s.get("orders").GetUID())})
	message := s.conditionIs("orders", "Inputs", "Forbidden")
	if !strings.Contains(message, "kubectl create rolebinding "+v1alpha1.KonnectorInputs+" -n "+s.namespace) {
		t.Error(message)
	}
	if _, _, err := s.sent("orders"); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("main has a file: %v", err)
	}
	right := s.let()
	e := s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-1"})
	s.take("orders", e, nil)
	s.conditionIs("orders", "Inputs", "Missing")

	s.must(s.client.Delete(t.Context(), right))
	// The authorizer hears of it in a moment, and until then the konnector may read.
	s.konnectorMay(authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: s.namespace}, false)
	s.must(s.client.Update(t.Context(), s.secretOf("orders-ca", "geheim-2", "")))
	s.conditionIs("orders", "Inputs", "Forbidden")
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-1"})
	s.let()
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-2"})
}

// While nobody answers, the claim says what it waits for.
func TestAClaimWhoseInputsWaitSaysSo(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	s.let()
	s.must(s.client.Create(t.Context(), s.secretOf("orders-ca", "geheim-1", "")))
	s.must(s.client.Create(t.Context(), s.secretOf("a9s-postgresql13", "geheim-2", "")))
	s.loop()
	s.apply("orders", spec("small"))
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-1", "Secret a9s-postgresql13": "geheim-2"})
	s.conditionIs("orders", "Committed", "Committed")
	s.conditionIs("orders", "Inputs", "Waiting")
}

// A Git host that refuses what a claim refers to takes the claim.
func TestRefusedInputsDoNotKeepTheClaim(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	s.let()
	s.must(s.client.Create(t.Context(), s.secretOf("orders-ca", "geheim-1", "")))
	s.must(s.client.Create(t.Context(), s.secretOf("a9s-postgresql13", "geheim-2", "")))
	s.host.judge(`while read old new ref; do
	git log --format= --name-only "$new" --not --all | grep -q /inputs/ && { echo 'nothing encrypted here' >&2; exit 1; }
done; exit 0`)
	s.loop()
	s.apply("orders", spec("small"))
	s.committed("orders")
	s.answer("orders", contract.Status{Result: contract.Applied, UID: string(s.get("orders").GetUID())})
	if message := s.conditionIs("orders", "Inputs", "PushRejected"); !strings.Contains(message, "nothing encrypted here") {
		t.Error(message)
	}
	s.setSpec("orders", "big", "plan")
	s.fileIs("orders", plan("big"))
}

// Where changes are reviewed, what a claim refers to goes up by what is approved, and
// follows its values while something else is proposed.
func TestInputsAreOfWhatIsApproved(t *testing.T) {
	t.Parallel()
	s := newSending(t)
	r := withReviewers(s.world)
	s.must(s.client.Create(t.Context(), attribution.ForBinding(s.group, s.plural)))
	s.changes = v1alpha1.ChangesPullRequest
	s.let()
	for _, name := range []string{"orders-ca", "a9s-postgresql13", "another"} {
		s.must(s.client.Create(t.Context(), s.secretOf(name, "geheim-1", "")))
	}
	s.loop()
	s.apply("orders", spec("small"))
	r.proposed("orders", plan("small"))
	if _, _, err := s.sent("orders"); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("main has a file of what is only proposed: %v", err)
	}
	r.approve("orders")
	r.settled("orders")
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-1", "Secret a9s-postgresql13": "geheim-1"})

	s.setSpec("orders", "another", "service")
	r.proposed("orders", func(spec map[string]any) error {
		if spec["service"] != "another" {
			return fmt.Errorf("service is %v", spec["service"])
		}
		return nil
	})
	s.must(s.client.Update(t.Context(), s.secretOf("orders-ca", "geheim-2", "")))
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-2", "Secret a9s-postgresql13": "geheim-1"})
	r.approve("orders")
	s.wantSent("orders", map[string]string{"Secret orders-ca": "geheim-2", "Secret another": "geheim-1"})
}
