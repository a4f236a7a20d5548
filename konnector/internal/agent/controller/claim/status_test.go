package claim

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/konnector/internal/choice"
)

const binding = "postgresqlinstances.anynines.com"

var key = contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}

func testAPI(t *testing.T) API {
	t.Helper()
	api, err := NewAPI(postgresql(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func postgresql() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: binding},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "anynines.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "postgresqlinstances", Kind: "PostgresqlInstance"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"plan": text, "service": text, "expose": text, "acceptsIncomplete": {Type: "boolean"},
							"parameters": {Type: "object", XPreserveUnknownFields: new(true)},
						}},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"known":      text,
							"conditions": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}}},
							"gitbind":    {Type: "object", XPreserveUnknownFields: new(true)},
						}},
					},
				}},
			}},
		},
	}
}

func version(plan string) *contract.Claim {
	return &contract.Claim{APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: "orders", Spec: map[string]any{"plan": plan}}
}

// inStep is a claim of which cluster, Git and control plane say the same.
func inStep() *look {
	u := version("small").Object()
	u.SetUID("u1")
	u.SetGeneration(3)
	return &look{
		key: key, object: u, file: &store.Entry{Path: key.Path(), Hash: "b1"}, base: &base.Base{Commit: "c1"},
		facts:    decision.Facts{Key: key, Live: version("small"), File: version("small"), Base: version("small"), BaseCommit: "c1", Finalizer: true},
		decision: decision.Decision{Action: decision.Nothing},
		answer: &contract.Status{Result: contract.Applied, Answers: contract.Answers{Blob: "b1"}, Status: map[string]any{
			"known": "x", "unknown": "y",
			"conditions": []any{map[string]any{"type": "Synced", "status": "True"}, map[string]any{"type": "Ready", "status": "True", "reason": "Available"}},
		}},
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(l *look)
		trouble error
		// want are Committed, Applied, Ready, Held, Conflict, each status and
		// reason, and the message.
		want [6]string
	}{
		{
			name: "in step",
			want: [6]string{"True Committed", "True Applied", "True Available", "False None", "False None", ""},
		}, {
			name:   "no answer yet",
			change: func(l *look) { l.answer = nil },
			want:   [6]string{"True Committed", "Unknown Waiting", "Unknown NotReported", "False None", "False None", "The control plane has not answered yet."},
		}, {
			name:   "answer to an older version",
			change: func(l *look) { l.answer.Answers.Blob = "b0" },
			want:   [6]string{"True Committed", "Unknown Waiting", "True Available", "False None", "False None", "The control plane has not answered this version yet."},
		}, {
			name: "denied",
			change: func(l *look) {
				l.answer.Result, l.answer.Problem = contract.Denied, &contract.Problem{File: key.Path(), Line: 7, Reason: "plan is not allowed"}
			},
			want: [6]string{"True Committed", "False Denied", "True Available", "False None", "False None", key.Path() + ":7: plan is not allowed"},
		}, {
			name: "not ready",
			change: func(l *look) {
				l.answer.Status["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "Creating", "message": "wait"}}
			},
			want: [6]string{"True Committed", "True Applied", "False Creating", "False None", "False None", "wait"},
		}, {
			name: "a provider's odd condition",
			change: func(l *look) {
				l.answer.Status["conditions"] = []any{"odd", map[string]any{"type": "Ready", "status": "yes"}}
			},
			want: [6]string{"True Committed", "True Applied", "Unknown ", "False None", "False None", ""},
		}, {
			name:    "push failed",
			trouble: store.ErrUnauthorized,
			change:  func(l *look) { l.decision.Action = decision.Commit },
			want:    [6]string{"False CredentialRefused", "True Applied", "True Available", "False None", "False None", "The Git host refuses the credential. Connect this cluster again (kubectl gitbind connect) to get a new one."},
		}, {
			name:    "too large",
			trouble: fmt.Errorf("%w: 300000 bytes", base.ErrTooLarge),
			want:    [6]string{"False TooLarge", "True Applied", "True Available", "False None", "False None", "This claim is too large to be kept in step with Git: 300000 bytes."},
		}, {
			name: "held with an edit",
			change: func(l *look) {
				l.facts.Live = version("big")
				l.decision = decision.Decision{Action: decision.Hold, Reason: decision.BothChanged, Message: "both"}
			},
			want: [6]string{"False Held", "Unknown NotOnMain", "True Available", "True BothChanged", "False None", "both"},
		}, {
			name: "held without an edit",
			change: func(l *look) {
				l.decision = decision.Decision{Action: decision.Hold, Reason: decision.FileInvalid, Message: "line 3"}
			},
			want: [6]string{"True Committed", "True Applied", "True Available", "True FileInvalid", "False None", "line 3"},
		}, {
			name: "a conflict was lost",
			change: func(l *look) {
				l.facts.Lost = lostConflict
				l.decision = decision.Decision{Action: decision.Nothing, Reason: decision.BothChanged, Message: "lost", Choices: []choice.Choice{choice.Cluster, choice.File}, Token: "t1"}
			},
			want: [6]string{"True Committed", "True Applied", "True Available", "False None", "True BothChanged", "lost"},
		}, {
			name: "removed, not taken up",
			change: func(l *look) {
				l.file, l.facts.File, l.facts.Terminating = nil, nil, true
				l.decision.Action = decision.Wait
			},
			want: [6]string{"True Removed", "Unknown Waiting", "True Available", "False None", "False None", "The control plane has not taken up the removal yet."},
		}, {
			name: "removed, deleting",
			change: func(l *look) {
				l.file, l.facts.File, l.facts.Terminating = nil, nil, true
				l.decision.Action, l.answer.Result = decision.Wait, contract.Deleting
			},
			want: [6]string{"True Removed", "False Deleting", "True Available", "False None", "False None", "The control plane is deleting the service."},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, api := inStep(), testAPI(t)
			l.api = &api
			if tc.change != nil {
				tc.change(l)
			}
			status := l.status(tc.trouble)
			var got [6]string
			ours := status["gitbind"].(map[string]any)
			for i, e := range ours["conditions"].([]any) {
				c := e.(map[string]any)
				got[i] = fmt.Sprintf("%s %s", c["status"], c["reason"])
				if c["observedGeneration"] != int64(3) {
					t.Errorf("generation %v", c["observedGeneration"])
				}
			}
			got[5] = ours["message"].(string)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if ours["uid"] != "u1" || ours["commit"] != "c1" {
				t.Errorf("got %v", ours)
			}
			if _, ok := status["unknown"]; ok {
				t.Error("it has a field that would never be stored")
			}
			// What was written once is not written again.
			l.object.Object["status"] = status
			if l.statusDiffers(tc.trouble) {
				t.Error("it would be written again")
			}
		})
	}
}

var lostConflict = &decision.Lost{Reason: decision.BothChanged, Branch: "conflicts/b/team-a/orders/1"}

func TestWhatIsToDecideIsShown(t *testing.T) {
	const file = "apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata:\n  name: orders\n  namespace: team-a\nspec:\n  plan: small\n"
	for _, tc := range []struct {
		name     string
		decision decision.Decision
		lost     *decision.Lost
		want     map[string]any
	}{
		{"nothing", decision.Decision{Action: decision.Nothing}, nil, nil},
		{"held, with no choice", decision.Decision{Action: decision.Hold, Reason: decision.FileInvalid, Message: "line 3"}, nil, map[string]any{"reason": "FileInvalid"}},
		{
			"held", decision.Decision{Action: decision.Hold, Reason: decision.DeletedAndChanged, Choices: []choice.Choice{choice.Delete, choice.Release}, Token: "t1"}, nil,
			map[string]any{"reason": "DeletedAndChanged", "token": "t1", "choices": []any{"delete", "release"}, "file": file},
		}, {
			"lost", decision.Decision{Action: decision.Nothing, Reason: decision.BothChanged, Choices: []choice.Choice{choice.File}, Token: "t2"}, lostConflict,
			map[string]any{"reason": "BothChanged", "token": "t2", "choices": []any{"file"}, "kept": lostConflict.Branch, "file": file},
		},
	} {
		l := inStep()
		l.decision, l.facts.Lost = tc.decision, tc.lost
		if diff := cmp.Diff(tc.want, toDecide(l)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestStatusOfAReleasedObjectIsLeftAlone(t *testing.T) {
	l, api := inStep(), testAPI(t)
	l.api = &api
	l.facts.Terminating, l.facts.Finalizer = true, false
	if l.statusDiffers(nil) {
		t.Error("it would be written")
	}
}

func TestChangedBy(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if got := ChangedBy(u); got != nil {
		t.Errorf("got %q", got)
	}
	u.SetAnnotations(map[string]string{"gitbind.dev/changed-by": "alice\nbob\n\nalice\n carol "})
	if diff := cmp.Diff([]string{"alice", "bob", "carol"}, ChangedBy(u)); diff != "" {
		t.Error(diff)
	}
}

func TestUncredited(t *testing.T) {
	api := testAPI(t)
	l := &look{api: &api}
	object := func(plan, by string) *unstructured.Unstructured {
		u := version(plan).Object()
		u.SetAnnotations(map[string]string{"gitbind.dev/changed-by": by})
		return u
	}
	for _, tc := range []struct {
		name     string
		u        *unstructured.Unstructured
		credited []string
		want     *string
	}{
		{"nothing changed since", object("small", "alice"), []string{"alice"}, new("")},
		{"another one did", object("big", "alice\nbob"), []string{"alice"}, new("bob")},
		{"the same one did again", object("big", "alice"), []string{"alice"}, nil},
	} {
		if diff := cmp.Diff(tc.want, l.uncredited(tc.u, version("small"), tc.credited)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

func TestGateClosesWhenAllHaveLeft(t *testing.T) {
	var g shutdownLatch
	if !g.enter() {
		t.Fatal("nobody gets in")
	}
	closed := make(chan struct{})
	go func() {
		g.close()
		close(closed)
	}()
	for g.enter() {
		g.leave()
	}
	select {
	case <-closed:
		t.Error("it closed with somebody inside")
	default:
	}
	g.leave()
	<-closed
}

// An API may call by another name what says that its service can be used.
func TestReadyIsTheConditionThatTheAnswerNames(t *testing.T) {
	t.Parallel()
	status := map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "reason": "Stored"},
		map[string]any{"type": "Issued", "status": "False", "reason": "Waiting", "message": "for approval"},
	}}
	for name, want := range map[string]condition{
		"":         {conditionReady, "True", "Stored", ""},
		"Issued":   {conditionReady, "False", "Waiting", "for approval"},
		"Approved": {conditionReady, "Unknown", "NotReported", "The control plane has not reported yet whether the service is ready."},
	} {
		data, err := contract.EncodeStatus(&contract.Status{Result: contract.Applied, Status: status, ReadyCondition: name})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := contract.DecodeStatus(data)
		if err != nil {
			t.Fatal(err)
		}
		if got := readyCondition(answer.Status, answer.ReadyType()); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}
