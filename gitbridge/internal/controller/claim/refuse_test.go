package claim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/failure"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/test/fakeapi"
)

func TestJudge(t *testing.T) {
	kind := schema.GroupKind{Group: "anynines.com", Kind: "PostgresqlInstance"}
	resource := schema.GroupResource{Group: "anynines.com", Resource: "postgresqlinstances"}
	key := contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}
	tests := []struct {
		name   string
		err    error
		result contract.Result
		line   int
	}{
		{"a value that a rule refuses", apierrors.NewInvalid(kind, "orders", field.ErrorList{field.Invalid(field.NewPath("spec", "plan"), "x", "plan cannot become smaller")}), contract.Invalid, 3},
		{"a field that the file has not", apierrors.NewInvalid(kind, "orders", field.ErrorList{field.Required(field.NewPath("spec", "service"), "")}), contract.Invalid, 2},
		{"a policy", fakeapi.PolicyDenies(resource, "orders", "p", "no"), contract.Denied, 0},
		{"a webhook or quota", apierrors.NewForbidden(resource, "orders", errors.New("exceeded quota")), contract.Denied, 0},
		{"a webhook with a code of its own", webhookerrors.ToStatusErr("x", &metav1.Status{Message: "no", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict}), contract.Denied, 0},
		{"a webhook that says nothing else", webhookerrors.ToStatusErr("x", &metav1.Status{Message: "no"}), contract.Denied, 0},
		{"a field that the definition has no more", fakeapi.UndeclaredField(kind.WithVersion("v1"), "gb-x-team-a", "orders", ".spec.plan"), contract.Failed, 0},
		{"no rights", errNoRights, contract.Failed, 0},
		{"a foreign namespace", fmt.Errorf("use: %w", errForeignNamespace), contract.Failed, 0},
		{"a namespace that the API server is deleting", fakeapi.NamespaceEnds(resource, "orders", "gb-x-team-a"), contract.Failed, 0},
		{"a namespace that goes", fmt.Errorf("use: %w", errTerminatingNamespace), contract.Failed, 0},
		{"a namespace that has gone", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "gb-x-team-a"), contract.Failed, 0},
		{"too many requests", apierrors.NewTooManyRequests("slow down", 1), contract.Failed, 0},
		{"an API server in trouble", apierrors.NewInternalError(errors.New("etcdserver: leader changed")), contract.Failed, 0},
		{"no API server", errors.New("dial tcp 127.0.0.1:6443: connection refused"), contract.Failed, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &step{Facts: decision.Facts{Path: key.Path(), Key: key}, data: []byte("kind: x\nspec:\n  plan: x\n")}
			got := verdictOn(s, test.err)
			if got.result != test.result {
				t.Errorf("%s, want %s", got.result, test.result)
			}
			if (got.problem != nil) != (test.result != contract.Failed) {
				t.Fatalf("problem %v", got.problem)
			}
			if isStale(test.err) {
				t.Error("it is taken for another version of the object")
			}
			if got.problem == nil && got.message == "" {
				t.Error("nothing is said")
			}
			if got.problem != nil && (got.problem.Line != test.line || got.problem.File != s.Path || got.problem.Reason == "") {
				t.Errorf("problem %+v, want it in line %d", got.problem, test.line)
			}
		})
	}
}

// Claims come and go for as long as the process lives.
func TestNothingIsRememberedOfClaimsThatWent(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"refused": forbids, "failing": errors.New("connection refused")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.patch = func() error { return err }
			f.step()
			f.fights.Applied(f.path, "odd")
			if f.now = f.now.Add(time.Second); len(f.cache.refused) == 0 && f.failing.Failed(f.path, f.now) == 0 {
				t.Fatal("nothing is remembered of a claim that is there")
			}
			f.removeAsKonnector("u1")
			f.follow()
			if answer, _, _ := f.step(); answer == nil || answer.Result != contract.Gone {
				t.Fatalf("answer %+v", answer)
			}
			if len(f.cache.refused) > 0 || f.failing.Failed(f.path, f.now) > 0 || !f.fights.IsDrift(f.path, "odd") {
				t.Errorf("refused: %v", f.cache.refused)
			}
		})
	}
}

// An apply lands, and its reply is lost: what the next look finds needs no other one.
func TestAFailureEndsWhenThereIsNothingLeftToDo(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.TenantObjects.(*dynamicfake.FakeDynamicClient).PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if _, _, err := f.reactToPatch(action); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewTimeoutError("no reply", 1)
	})
	if answer, _, wait := f.step(); answer != nil || wait == 0 || f.live == nil {
		t.Fatalf("answer %+v, again after %s", answer, wait)
	}
	if answer, calls, _ := f.step(); answer == nil || answer.Result != contract.Applied || len(calls) > 0 {
		t.Fatalf("answer %+v, calls %v", answer, calls)
	}
	f.now = f.now.Add(time.Hour)
	f.push(strings.Replace(good, "single-nano", "single-small", 1))
	f.follow()
	if answer, _, wait := f.step(); answer.Result != contract.Applied || wait == 0 || wait > failure.TellAfter {
		t.Errorf("after one failure: answer %+v, again after %s", answer, wait)
	}
}

// Its author is told, and no app cluster waits for the answer to a head of main.
func TestL15_ARefusalThatRepeatsALargeValueIsAnswered(t *testing.T) {
	t.Parallel()
	large := strings.Repeat(`"`, 700_000)
	for name, file := range map[string]string{
		"the kind":        strings.Replace(good, "kind: PostgresqlInstance", "kind: '"+large+"'", 1),
		"a field's value": strings.Replace(good, "plan: postgresql-single-nano", "plan: '"+large+"'", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.step()
			f.push(file)
			f.follow()
			answer, _, _ := f.step()
			view := f.Session.View()
			if entry, _ := view.Main.Entry(f.path); answer.Result != contract.Invalid || answer.Answers.Blob != string(entry.Hash) || answer.Problem.Reason == "" {
				t.Errorf("%s is answered %.300s", entry.Hash, fmt.Sprintf("%+v", answer))
			}
			if !f.Session.Status.IsAnswered(view.Generation) {
				t.Error("the head is not answered")
			}
			pushes := f.remote.Pushes()
			if _, _, wait := f.step(); wait > 0 || f.remote.Pushes() > pushes {
				t.Errorf("it is answered again: in %s, %d pushes", wait, f.remote.Pushes()-pushes)
			}
		})
	}
}

// What a template makes of a claim may be as large as the claim.
func TestAnAnswerIsNoLargerThanAFileMayBe(t *testing.T) {
	t.Parallel()
	large := map[string]any{"x": strings.Repeat("x", store.MaxFile)}
	for name, c := range map[string]struct {
		answer            contract.Status
		effective, status bool
	}{
		"a large status":              {contract.Status{Effective: map[string]any{"x": "y"}, Status: large}, true, false},
		"a large change by the offer": {contract.Status{Effective: large, Status: map[string]any{"x": "y"}}, false, true},
		"both are large":              {contract.Status{Effective: large, Status: large}, false, false},
		"neither is":                  {contract.Status{Effective: map[string]any{"x": "y"}, Status: map[string]any{"x": "y"}}, true, true},
	} {
		c.answer.Answers, c.answer.Result = contract.Answers{Blob: "b", Commit: "c"}, contract.Applied
		data, err := encode(&c.answer)
		if err != nil || len(data) > store.MaxFile {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
			continue
		}
		got, err := contract.DecodeStatus(data)
		if err != nil {
			t.Fatal(err)
		}
		if (got.Effective != nil) != c.effective || (got.Status != nil) != c.status || (got.Message == "") != (c.effective && c.status) {
			t.Errorf("%s: effective %t, status %t, message %q", name, got.Effective != nil, got.Status != nil, got.Message)
		}
	}
}

// A host takes no commit with a message of more than 1 MiB.
func TestL15_AFileWithALongNameIsAnsweredInAShortCommitMessage(t *testing.T) {
	t.Parallel()
	s := &step{Facts: decision.Facts{Path: contract.Root + "/" + strings.Repeat("x", store.MaxFile)}}
	for name, answer := range map[string]*contract.Status{"refused": {Result: contract.Invalid}, "removed": nil} {
		if got := subject(s, answer); len(got) > 1000 || !strings.Contains(got, contract.Root+"/xxx") {
			t.Errorf("%s: %d bytes, %.100s", name, len(got), got)
		}
	}
}
