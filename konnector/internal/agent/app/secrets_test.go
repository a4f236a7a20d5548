package app_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/test/env"
)

// sealing is a bridge that seals Secrets for the cluster, and the cluster's key.
type sealing struct {
	*world
	signer     *encryption.Signer
	recipients []string
	// lists are those of claims that were told last.
	lists map[string]*contract.SecretList
}

// newSealing is a world with a claim, orders, that was applied on the control plane.
func newSealing(t *testing.T) *sealing {
	t.Helper()
	w := newWorld(t)
	signer, err := encryption.NewSigner(encryption.GenerateSeed())
	w.must(err)
	text, recipient, err := encryption.GenerateIdentity()
	w.must(err)
	ids, err := encryption.ParseIdentities([]byte(text))
	w.must(err)
	opener := &encryption.Opener{Cluster: clusterID, Keys: []string{signer.Public()}, Identities: ids}
	w.opener = func(string) *encryption.Opener { return opener }
	s := &sealing{w.loop(), signer, []string{recipient}, map[string]*contract.SecretList{}}
	s.apply("orders", spec("small"))
	s.committed("orders")
	return s
}

// tell answers a claim with these Secrets, of one version, in one commit.
func (s *sealing) tell(name string, sequence int64, secrets map[string]string) {
	s.Helper()
	key, main := s.key(name), s.main()
	status := contract.Status{
		Metadata: contract.StatusMeta{Name: key.Name, Namespace: key.Namespace}, Result: contract.Applied,
		Answers: contract.Answers{Commit: string(main.Head())}, UID: string(s.get(name).GetUID()),
	}
	if e, ok := main.Entry(key.Path()); ok {
		status.Answers.Blob = string(e.Hash)
	}
	files, versions := map[string][]byte{}, map[string]int64{}
	for secret, password := range secrets {
		versions[secret] = sequence
		files[contract.SecretKey{Binding: s.binding, Namespace: s.namespace, Name: secret}.Path()] = s.seal(name, secret, password, sequence)
	}
	status.Secrets = s.list(name, versions)
	s.write(key, &status, files)
}

// write puts an answer, and the files of Secrets beside it.
func (s *sealing) write(key contract.Key, status *contract.Status, files map[string][]byte) {
	s.Helper()
	data, err := contract.EncodeStatus(status)
	s.must(err)
	_, err = s.bridge.Update(s.Context(), store.Edit{
		Author: store.Signature{Name: "Bridge", Email: "bridge@example.org"}, Subject: "answer",
		Apply: func(t *store.Tree) error {
			for path, file := range files {
				if err := t.Write(path, file); err != nil {
					return err
				}
			}
			return t.Write(key.Path(), data)
		},
	})
	s.must(err)
}

// list is the next list of a claim.
func (s *sealing) list(claim string, versions map[string]int64) *contract.SecretList {
	s.lists[claim] = s.signer.List(encryption.Binding{Cluster: clusterID, Claim: s.key(claim), UID: string(s.get(claim).GetUID())}, versions, s.lists[claim], time.Now().UnixMilli())
	return s.lists[claim]
}

func (s *sealing) seal(claim, name, password string, sequence int64) []byte {
	s.Helper()
	file, err := s.signer.Seal(
		encryption.Binding{Cluster: clusterID, Claim: s.key(claim), UID: string(s.get(claim).GetUID())},
		encryption.Secret{Name: name, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte(password)}}, s.recipients, sequence)
	s.must(err)
	return file
}

// rotate answers with another version of one Secret.
func (s *sealing) rotate(claim, name, password string, sequence int64) {
	s.Helper()
	branch, err := s.bridge.Fetch(s.Context())
	s.must(err)
	data, err := branch.Read(s.key(claim).Path())
	s.must(err)
	status, err := contract.DecodeStatus(data)
	s.must(err)
	versions := maps.Clone(status.Secrets.Versions)
	versions[name] = sequence
	status.Secrets = s.list(claim, versions)
	s.write(s.key(claim), status, map[string][]byte{
		contract.SecretKey{Binding: s.binding, Namespace: s.namespace, Name: name}.Path(): s.seal(claim, name, password, sequence),
	})
}

func (s *sealing) find(name string) *corev1.Secret {
	s.Helper()
	secret := &corev1.Secret{}
	err := s.client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return secret
}

// passwordIs waits for a value; "" for no Secret.
func (s *sealing) passwordIs(name, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("Secret %s has %q", name, want), func() error {
		got := ""
		if secret := s.find(name); secret != nil {
			got = string(secret.Data["password"])
		}
		if got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// The credentials of a service come, follow a rotation that changes nothing else, come
// back when somebody changed them, and go when they are listed no more.
func TestF4_ARotatedSecretFollowsAndALostOneComesBack(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.tell("orders", 1_795_000_000_000, map[string]string{"orders-creds": "first", "orders-tls": "cert"})
	s.passwordIs("orders-creds", "first")
	s.passwordIs("orders-tls", "cert")
	s.conditionIs("orders", "Secrets", "Delivered")
	list, _, _ := unstructured.NestedSlice(s.get("orders").Object, "status", "gitbind", "secrets")
	if err := cmpError([]any{
		map[string]any{"name": "orders-creds", "since": "2026-11-18T11:06:40Z"}, map[string]any{"name": "orders-tls", "since": "2026-11-18T11:06:40Z"},
	}, list); err != nil {
		t.Error(err)
	}
	if b := base.Read(s.get("orders")); b == nil || !b.Committed {
		t.Errorf("of the claim that was committed from here the base is %+v", b)
	}
	secret := s.find("orders-creds")
	if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != s.get("orders").GetUID() || secret.Labels["app.kubernetes.io/managed-by"] != "gitbind-konnector" {
		t.Errorf("it is marked with %v, %v", secret.OwnerReferences, secret.Labels)
	}

	s.rotate("orders", "orders-creds", "second", 1_795_000_001_000)
	s.passwordIs("orders-creds", "second")
	s.rotate("orders", "orders-creds", "replayed", 1_795_000_000_500)
	s.conditionIs("orders", "Secrets", "Replayed")
	s.passwordIs("orders-creds", "second")
	s.rotate("orders", "orders-creds", "third", 1_795_000_002_000)
	s.passwordIs("orders-creds", "third")
	s.conditionIs("orders", "Secrets", "Delivered")

	// What somebody did while no konnector ran is found when one begins.
	s.stop()
	s.must(s.client.Delete(t.Context(), s.find("orders-creds")))
	edited := s.find("orders-tls")
	edited.Data = map[string][]byte{"password": []byte("edited")}
	s.must(s.client.Update(t.Context(), edited))
	s.start()
	s.passwordIs("orders-creds", "third")
	s.passwordIs("orders-tls", "cert")

	s.tell("orders", 1_795_000_003_000, map[string]string{"orders-tls": "cert"})
	s.passwordIs("orders-creds", "")
	s.passwordIs("orders-tls", "cert")
	s.tell("orders", 1_795_000_003_000, nil)
	s.passwordIs("orders-tls", "")
	s.eventually("nothing is said of Secrets", func() error {
		if status, reason, _ := condition(s.get("orders"), "Secrets"); status != "" {
			return errors.New(reason)
		}
		return nil
	})
}

// Looks at a claim whose Secrets are as they should be ask nothing of them.
func TestAnUnchangedSecretCostsNothing(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.tell("orders", 5, map[string]string{"orders-creds": "first"})
	s.conditionIs("orders", "Secrets", "Delivered")
	s.writes.takeAll()
	for i := range 3 {
		round := fmt.Sprint("round ", i)
		s.edit("orders", func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"round": fmt.Sprint(i)}) })
		s.committed("orders")
		s.answer("orders", contract.Status{
			Result: contract.Applied, UID: string(s.get("orders").GetUID()), Secrets: s.lists["orders"],
			Status: map[string]any{"managed": map[string]any{"is": round}},
		})
		s.eventually(round, func() error {
			status, _ := s.get("orders").Object["status"].(map[string]any)
			return field(round, "managed", "is")(status)
		})
	}
	for _, write := range s.writes.takeAll() {
		if strings.Contains(write, "/secrets") {
			t.Error(write)
		}
	}
	if s.find("orders-creds") == nil {
		t.Error("the Secret is gone")
	}
}

// Somebody's Secret stays, and the API server does not let the konnector have it. It may
// be handed over.
func TestF8_AForeignSecretStaysUntilItIsHandedOver(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.must(s.alice.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "orders-creds"}, StringData: map[string]string{"password": "mine"},
	}))
	s.tell("orders", 5, map[string]string{"orders-creds": "first", "orders-tls": "cert"})
	message := s.conditionIs("orders", "Secrets", "SecretExists")
	s.passwordIs("orders-tls", "cert")
	s.passwordIs("orders-creds", "mine")
	if want := "kubectl annotate secret -n " + s.namespace + " orders-creds gitbind.dev/adopt=orders"; !strings.Contains(message, want) {
		t.Errorf("%q is not in %s", want, message)
	}
	if got, _, _ := unstructured.NestedString(s.get("orders").Object, "status", "gitbind", "message"); got != message {
		t.Errorf("the claim's message is %q", got)
	}

	theirs := s.find("orders-creds")
	theirs.Annotations = map[string]string{"gitbind.dev/adopt": "orders"}
	s.must(s.alice.Update(t.Context(), theirs))
	s.rotate("orders", "orders-creds", "second", 6)
	s.passwordIs("orders-creds", "second")
	s.conditionIs("orders", "Secrets", "Delivered")
}

// Nobody but the bridge makes a Secret here, also not of a real one.
func TestF7_SwappedInventedAndForeignSecretsAreNotDelivered(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.apply("billing", spec("small"))
	s.committed("billing")
	s.tell("billing", 5, map[string]string{"billing-creds": "theirs"})
	s.passwordIs("billing-creds", "theirs")
	s.tell("orders", 5, map[string]string{"orders-creds": "first"})
	s.passwordIs("orders-creds", "first")

	path := func(name string) string {
		return contract.SecretKey{Binding: s.binding, Namespace: s.namespace, Name: name}.Path()
	}
	for _, c := range []struct {
		reason string
		file   []byte
	}{
		{"Refused", s.seal("billing", "billing-creds", "swapped", 6)},
		{"NotForThisClaim", s.seal("billing", "orders-creds", "swapped", 6)},
		{"NotSigned", []byte("kind: EncryptedSecret\n")},
	} {
		s.put(s.bridge, c.reason, path("orders-creds"), c.file)
		s.conditionIs("orders", "Secrets", c.reason)
		s.passwordIs("orders-creds", "first")
	}
	ours := s.signer
	var err error
	s.signer, err = encryption.NewSigner(encryption.GenerateSeed())
	s.must(err)
	s.rotate("orders", "orders-creds", "invented", 7)
	s.conditionIs("orders", "Secrets", "UnknownSigner")
	s.passwordIs("orders-creds", "first")
	s.signer = ours
	s.rotate("orders", "orders-creds", "second", 8)
	s.passwordIs("orders-creds", "second")
	s.passwordIs("billing-creds", "theirs")
	s.conditionIs("orders", "Secrets", "Delivered")
}

// With its claim the Secret goes, and not before.
func TestC6_DeletingTheClaimRemovesItsSecrets(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.tell("orders", 5, map[string]string{"orders-creds": "first"})
	s.conditionIs("orders", "Secrets", "Delivered")
	// The garbage collector has to know of the claims' API.
	s.must(s.env.Cluster(env.App).Rediscover(t.Context()))
	uid := string(s.get("orders").GetUID())
	later := s.list("orders", map[string]int64{"orders-creds": 5, "late": 6})
	s.deleteObject("orders")
	s.fileGone("orders")
	s.answer("orders", contract.Status{Result: contract.Deleting, UID: uid, Secrets: later})
	s.conditionIs("orders", "Applied", "Deleting")
	if s.find("orders-creds") == nil {
		t.Error("the Secret went before its claim")
	}
	s.answer("orders", contract.Status{Result: contract.Gone, UID: uid})
	s.objectGone("orders")
	s.await(patienceAtStart, "the Secret is collected", func() error {
		if secret := s.find("orders-creds"); secret != nil {
			return fmt.Errorf("it is %v", secret.ObjectMeta)
		}
		return nil
	})
	if s.find("late") != nil {
		t.Error("a Secret was delivered to a claim that is being deleted")
	}
}

// While a person is to decide, and while the branch status is not trusted, what was
// delivered last stays.
func TestSecretsOfAClaimThatIsHeldStay(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.tell("orders", 5, map[string]string{"orders-creds": "first"})
	s.conditionIs("orders", "Secrets", "Delivered")
	s.edit("orders", func(u *unstructured.Unstructured) {
		u.SetAnnotations(with(u.GetAnnotations(), "gitbind.dev/pause", "true"))
	})
	s.conditionIs("orders", "Held", "Paused")
	s.rotate("orders", "orders-creds", "second", 6)
	s.stop()
	s.start()
	s.answer("orders", contract.Status{Result: contract.Held, Message: "wait", Secrets: s.lists["orders"]})
	s.conditionIs("orders", "Applied", "Held")
	s.conditionIs("orders", "Secrets", "Delivered")
	s.passwordIs("orders-creds", "first")
	s.tell("orders", 6, map[string]string{"orders-creds": "second"})
	s.edit("orders", func(u *unstructured.Unstructured) {
		u.SetAnnotations(with(u.GetAnnotations(), "gitbind.dev/pause", ""))
	})
	s.passwordIs("orders-creds", "second")
}

func with(annotations map[string]string, key, value string) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// Without the right to write Secrets all else works, and it is said how to give it.
func TestWithoutTheRightToWriteSecretsTheClaimSaysSo(t *testing.T) {
	t.Parallel()
	s := newSealing(t)
	s.must(s.client.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "gitbind-konnector-secrets"}}))
	s.konnectorMay(authorizationv1.ResourceAttributes{Verb: "create", Resource: "secrets", Namespace: s.namespace}, false)
	s.tell("orders", 5, map[string]string{"orders-creds": "first"})
	message := s.conditionIs("orders", "Secrets", "Forbidden")
	if !strings.Contains(message, "kubectl gitbind connect") {
		t.Error(message)
	}
	if status, _, _ := condition(s.get("orders"), "Applied"); status != "True" || s.find("orders-creds") != nil {
		t.Errorf("applied is %s", status)
	}
}
