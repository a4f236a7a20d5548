package app_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

func TestGitHostDownAndUp(t *testing.T) {
	t.Parallel()
	w := newAttributedLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.host.setDown(true)
	w.setSpec("orders", "medium", "plan")
	m := w.conditionIs("orders", "Committed", "RepositoryUnreachable")
	if strings.Contains(m, "127.0.0.1") {
		t.Errorf("the message holds what changes from try to try: %s", m)
	}
	w.connectionIs("RepositoryUnreachable")
	// Meanwhile others edit, too.
	w.eventually("another user edits it", func() error {
		u := w.get("orders")
		w.must(unstructured.SetNestedField(u.Object, "big", "spec", "plan"))
		return w.client.Update(t.Context(), u)
	})
	// What that changes is said once.
	w.eventually("it says that this edit is not committed either", func() error {
		u := w.get("orders")
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
		if status, reason, _ := condition(u, "Committed"); status != "False" || reason != "RepositoryUnreachable" || list[0].(map[string]any)["observedGeneration"] != u.GetGeneration() {
			return errorf("%+v", list)
		}
		return nil
	})
	w.writes.takeAll()
	// Who follows main, who follows status and who pushes try again.
	asked := w.host.Requests.Load()
	w.eventually("the host is asked again", func() error {
		if n := w.host.Requests.Load() - asked; n < 6 {
			return errorf("%d times", n)
		}
		return nil
	})
	if got := w.writes.take(w.group); len(got) > 0 {
		t.Errorf("it wrote while it is down: %v", got)
	}
	w.host.setDown(false)
	w.committed("orders")
	w.connectionIs("Connected")
	w.fileIs("orders", plan("big"))
	// In one commit or in two: what was under way when the host went may arrive
	// by itself.
	message := w.host.run("-C", w.host.dir, "log", "-2", "--format=%an <%ae>%n%B", "main")
	for _, user := range []string{"alice", "admin"} {
		if !strings.Contains(message, user+" <") {
			t.Errorf("not by %s: %s", user, message)
		}
	}
}

func TestSecretDeletedAndBack(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.must(w.client.Delete(t.Context(), w.secret()))
	w.connectionIs("SecretMissing")
	w.setSpec("orders", "big", "plan")
	w.conditionIs("orders", "Committed", "SecretMissing")
	w.must(w.client.Create(t.Context(), w.secret()))
	w.connectionIs("Connected")
	w.committed("orders")
	w.fileIs("orders", plan("big"))
}

func TestCredentialRefusedAndReplaced(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.host.setPassword("another")
	w.apply("orders", spec("small"))
	w.conditionIs("orders", "Committed", "CredentialRefused")
	w.connectionIs("CredentialRefused")
	s := w.secret()
	s.StringData["password"] = "another"
	w.must(w.client.Update(t.Context(), s))
	w.connectionIs("Connected")
	w.committed("orders")
	w.host.setPassword(password)
}

func TestFileThatIsNoClaimChangesNothing(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.put(w.person, "Break it", w.key("orders").Path(), []byte("apiVersion: "+w.group+"/v1\nkind: PostgresqlInstance\nmetadata: [\n"))
	if m := w.conditionIs("orders", "Held", "FileInvalid"); !strings.Contains(m, w.key("orders").Path()+":") {
		t.Errorf("it does not say where: %s", m)
	}
	w.setSpec("orders", "big", "plan")
	w.conditionIs("orders", "Committed", "Held")
	w.objectIs("orders", plan("big"))
	// Others go on.
	w.apply("other", spec("small"))
	w.committed("other")
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.conditionIs("orders", "Held", "None")
	w.committed("orders")
}

func TestFileThatTheAPIServerRefusesChangesNothing(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.writes.takeAll()
	w.commit("orders", "service: a9s-postgresql13", "plan: enormous"+strings.Repeat("-very", 300))
	m := w.conditionIs("orders", "Held", "FileRefused")
	if !strings.Contains(m, "line 7") || !strings.Contains(m, "enormous") {
		t.Errorf("it does not say what and where: %s", m)
	}
	w.eventually("an Event tells of it, as far as one may", func() error { return w.eventSays("orders", "FileRefused", "enormous-very") })
	w.objectIs("orders", plan("small"))
	if s, _, _ := condition(w.get("orders"), "Committed"); s != "True" {
		t.Error("the object is not what was committed?")
	}
	w.never("it keeps writing", func() bool { return len(w.writes.takeAll()) > 6 })
	w.commit("orders", "service: a9s-postgresql13", "plan: medium")
	w.objectIs("orders", plan("medium"))
	w.conditionIs("orders", "Held", "None")

	// And where there is no object to say it on.
	w.commit("new", "service: a9s-postgresql13", "plan: enormous")
	w.heldFile("FileRefused", "enormous")
	w.commit("new", "service: a9s-postgresql13", "plan: small")
	w.committed("new")
	w.heldFile("", "")
}

// heldFile waits for the one file that the binding lists; "" for none.
func (w *world) heldFile(reason, words string) {
	w.Helper()
	w.eventually("held file "+reason, func() error {
		b := &v1alpha1.APIServiceBinding{}
		w.must(w.client.Get(w.Context(), client.ObjectKey{Name: w.binding}, b))
		if reason == "" {
			return cmpError(0, b.Status.HeldFiles)
		}
		if b.Status.HeldFiles != 1 || b.Status.Held[0].Reason != reason || !strings.Contains(b.Status.Held[0].Message, words) {
			return errorf("%+v", b.Status)
		}
		return nil
	})
}

func TestMissingNamespaceIsShownAndMadeGood(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	key := contract.Key{Binding: w.binding, Namespace: w.namespace + "-later", Name: "orders"}
	w.put(w.person, "Order", key.Path(), []byte(strings.ReplaceAll(string(w.file("orders", "service: a9s-postgresql13")), w.namespace, key.Namespace)))
	w.heldFile("NamespaceMissing", key.Namespace)
	w.must(w.client.Create(t.Context(), namespace(key.Namespace)))
	w.namespace = key.Namespace
	w.committed("orders")
	w.heldFile("", "")
}

func TestMainThatWentBackDeletesNothing(t *testing.T) {
	w := newLoop(t)
	w.apply("first", spec("small"))
	w.committed("first")
	backup := string(w.main().Head())
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.setSpec("first", "big", "plan")
	w.committed("first")
	last := string(w.main().Head())

	restore := func(commit string) {
		w.host.run("-C", w.host.dir, "update-ref", "refs/heads/main", commit)
		w.host.tell()
	}
	restore(backup)
	w.connectionIs("HistoryReplaced")
	w.conditionIs("orders", "Held", "HistoryReplaced")
	w.objectIs("first", plan("big"))
	w.setSpec("orders", "medium", "plan")
	w.conditionIs("orders", "Committed", "Held")
	if got := string(w.main().Head()); got != backup {
		t.Errorf("something was committed: %s", got)
	}
	// A restart does not forget what was accepted.
	w.stop()
	w.start()
	w.connectionIs("HistoryReplaced")
	w.never("something goes", func() bool { return w.get("orders").GetDeletionTimestamp() != nil || w.get("first") == nil })

	restore(last)
	w.connectionIs("Connected")
	w.fileIs("orders", plan("medium"))
	w.committed("orders")
	w.fileIs("first", plan("big"))
}

func TestFirstContactRemovesNothing(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	w.stop()
	w.must(w.client.Delete(t.Context(), w.connection))
	w.commit("orders")
	w.connection.ResourceVersion, w.connection.UID = "", ""
	w.must(w.client.Create(t.Context(), w.connection))
	w.start()
	w.conditionIs("orders", "Held", "FileMissing")
	w.never("it is deleted", func() bool { return w.get("orders").GetDeletionTimestamp() != nil })
}

// What somebody saves with its annotations and creates again is another object.
func TestRestartWritesNothing(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	const n = 10
	for i := range n {
		w.apply(fmt.Sprint("c", i), spec("small"))
		w.commit(fmt.Sprint("f", i), "service: a9s-postgresql13", "plan: small")
	}
	for i := range n {
		for _, name := range []string{fmt.Sprint("c", i), fmt.Sprint("f", i)} {
			w.committed(name)
			w.answer(name, contract.Status{Result: contract.Applied, Status: map[string]any{"managed": map[string]any{"n": 1.0, "x": map[string]any{}}, "unknown": true}})
			w.conditionIs(name, "Applied", "Applied")
		}
	}
	head := w.main().Head()
	w.stop()
	w.writes.takeAll()
	w.start()
	// Something new, which is done after or beside all that is there.
	w.eventually("a claim can be made", func() error { return w.alice.Create(t.Context(), w.object("new", spec("small"))) })
	w.committed("new")
	time.Sleep(time.Second)
	for _, got := range w.writes.takeAll() {
		if !strings.Contains(got, "postgresqlinstances/new") {
			t.Errorf("it wrote: %s", got)
		}
	}
	if parents := w.host.run("-C", w.host.dir, "log", "--format=%P", "-1", "main"); parents != string(head) {
		t.Errorf("it committed more: %s", parents)
	}
}

// The process ends at any moment, with work under way on both sides.
func TestRestartedAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const claims = 8
	name := func(i int) string { return fmt.Sprint("c", i) }
	want := map[string]string{}
	for i := range claims {
		w.apply(name(i), spec("small"))
		want[name(i)] = "small"
	}
	plans := []string{"small", "medium", "big"}
	for range 12 {
		edits := 1 + random.IntN(4)
		for range edits {
			n := name(random.IntN(claims))
			want[n] = plans[random.IntN(3)]
			w.setSpec(n, want[n], "plan")
		}
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		w.stop()
		w.start()
	}
	defer func() {
		for n := range want {
			if t.Failed() {
				u := w.get(n)
				t.Logf("%s: generation %d, annotations %v, spec %v, status %v", n, u.GetGeneration(), u.GetAnnotations(), u.Object["spec"], u.Object["status"])
			}
		}
	}()
	for n, p := range want {
		w.fileIs(n, plan(p))
		w.committed(n)
		w.objectIs(n, plan(p))
	}
	w.host.check()
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

// A mutating policy or webhook makes of what a file says something else. That is
// no user's edit.
func TestD29_MutatingPolicyCausesNoCommit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{w.group}, APIVersions: []string{"*"}, Resources: []string{w.plural}},
				},
			}}},
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "add", path: "/spec/parameters", value: {"logStatement": "all"}}]`},
			}},
		},
	}
	w.must(w.client.Create(t.Context(), policy))
	t.Cleanup(func() { w.must(w.client.Delete(context.Background(), policy)) })
	on := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: w.name}}
	w.must(w.client.Create(t.Context(), on))
	t.Cleanup(func() { w.must(w.client.Delete(context.Background(), on)) })
	w.eventually("the policy is in force", func() error {
		u := w.object("attempt", spec("small"))
		if err := w.alice.Create(t.Context(), u, client.DryRunAll); err != nil {
			return err
		}
		return field("all", "parameters", "logStatement")(u.Object["spec"].(map[string]any))
	})
	w.commit("orders", "service: a9s-postgresql13", "plan: small")
	w.objectIs("orders", field("all", "parameters", "logStatement"))
	w.committed("orders")
	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.objectIs("orders", plan("big"))
	w.committed("orders")
	w.never("a commit", func() bool { return len(w.log("%h")) > 2 })
	// An edit is one, with all that is there.
	w.setSpec("orders", "medium", "plan")
	w.fileIs("orders", plan("medium"))
	w.fileIs("orders", field("all", "parameters", "logStatement"))
}
