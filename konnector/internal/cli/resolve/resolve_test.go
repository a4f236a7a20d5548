package resolve

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/fakeapi"
	"gitbind.dev/test/golden"
)

func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const torn = `
apiVersion: anynines.com/v1
kind: PostgresqlInstance
metadata:
  name: orders
  namespace: team-a
  uid: u1
  generation: 3
  annotations: {gitbind.dev/changed-by: dora}
  managedFields:
  - {manager: gitbind-konnector, operation: Update, time: "2026-11-21T11:00:00Z"}
  - {manager: kubectl-edit, operation: Update, time: "2026-11-21T11:57:00Z"}
  - {manager: provider, operation: Update, subresource: status, time: "2026-11-21T11:59:00Z"}
spec: {plan: big, volumes: 2}
status:
  gitbind:
    commit: 4f1c2b3a9d8e7f60514233445566778899aabbcc
    message: both were changed
    conditions: [{type: Held, status: "True", reason: BothChanged, observedGeneration: 3}]
    hold:
      reason: BothChanged
      token: abcdef0123
      choices: [cluster, file]
      file: |
        apiVersion: anynines.com/v1
        kind: PostgresqlInstance
        metadata:
          name: orders
          namespace: team-a
        spec:
          plan: huge
          volumes: 1
`

var key = contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}

func TestReport(t *testing.T) {
	u := object(t, torn)
	agreed := contract.FromObject(u)
	agreed.Spec = map[string]any{"plan": "small", "volumes": int64(1)}
	b := base.Base{UID: "u1", Commit: "0a1b2c3d4e", Claim: agreed}
	value, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	annotations := u.GetAnnotations()
	annotations[v1alpha1.BaseAnnotation] = value
	u.SetAnnotations(annotations)
	r, err := newReport(key, nil, u, appcluster.StatusOf(u), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.print(&terminal.Terminal{Out: &out})
	golden.Compare(t, "testdata/report.txt", out.Bytes())
}

func TestAConflictThatWasLostShowsTheBranch(t *testing.T) {
	u := object(t, strings.Replace(torn, `{type: Held, status: "True"`, `{type: Held, status: "False"`, 1))
	s := appcluster.StatusOf(u)
	s.Hold.Kept = "conflicts/postgresqlinstances.anynines.com/team-a/orders/0011223344"
	r, err := newReport(key, nil, u, s, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.print(&terminal.Terminal{Out: &out})
	for _, want := range []string{"orders in team-a lost a conflict: BothChanged", "git diff origin/main...origin/" + s.Hold.Kept} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if r.does(choice.Cluster) != lost[choice.Cluster] {
		t.Errorf("cluster does %q", r.does(choice.Cluster))
	}
}

func TestOutcome(t *testing.T) {
	const (
		answered   = `metadata: {uid: u1, annotations: {gitbind.dev/resolve: file.t1}}`
		unanswered = `metadata: {uid: u1}`
		held       = `status: {gitbind: {hold: {reason: BothChanged, token: t1}}}`
		heldAgain  = `status: {gitbind: {hold: {reason: FileRefused, token: t2}}}`
		agreed     = `status: {gitbind: {commit: 4f1c2b3a9d, conditions: [{type: Committed, status: "True"}]}}`
		proposed   = `status: {gitbind: {conditions: [{type: AwaitingReview, status: "True", message: nothing is done until somebody else approves it}]}}`
		unsent     = `status: {gitbind: {conditions: [{type: Committed, status: "False", reason: RepositoryUnreachable}]}}`
	)
	for _, c := range []struct {
		what         string
		choice       choice.Choice
		manifest     string
		said, failed string
	}{
		{"told", "file", answered + "\n" + held, "", ""},
		{"acted, not yet said so", "file", unanswered + "\n" + held, "", ""},
		{"said, the annotation still there", "file", answered + "\n" + agreed, "", ""},
		{"acted", "file", unanswered + "\n" + agreed, "cluster and Git agree, at commit 4f1c2b3a", ""},
		{"not pushed yet", "cluster", unanswered + "\n" + unsent, "", ""},
		{"proposed", "cluster", answered + "\n" + proposed, "until somebody else approves it", ""},
		{"edited meanwhile", "file", answered + "\n" + heldAgain, "", "nothing was done"},
		{"acted, and held again", "file", unanswered + "\n" + heldAgain, "", "held again: FileRefused"},
		{"another person was first", "cluster", answered + "\n" + held, "", "decided otherwise: file.t1"},
		{"the removal goes on", "delete", `metadata: {uid: u1, deletionTimestamp: "2026-11-21T12:00:00Z"}`, "until the service is gone", ""},
		{"the removal goes on, the decision still there", "delete", `metadata: {uid: u1, deletionTimestamp: "2026-11-21T12:00:00Z", annotations: {gitbind.dev/resolve: delete.t1}}`, "until the service is gone", ""},
		{"let go, not created again", "release", unanswered + "\n" + agreed, "", ""},
		{"created again", "release", `metadata: {uid: u2}`, "created again from the file", ""},
		{"gone", "delete", "", "the object is gone", ""},
		{"gone, to be created again", "release", "", "", ""},
	} {
		var u *unstructured.Unstructured
		if c.manifest != "" {
			u = object(t, c.manifest)
		}
		got := decided{choice: c.choice, token: "t1"}.of("u1", u)
		if got.done != (c.said != "") || !strings.Contains(got.said, c.said) || (got.failed != "") != (c.failed != "") || !strings.Contains(got.failed, c.failed) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

func TestChoose(t *testing.T) {
	r := report{Choices: []choice.Choice{choice.Cluster, choice.Delete}}
	for _, c := range []struct {
		what, answer string
		take, want   choice.Choice
		alone, yes   bool
		err          string
	}{
		{what: "by number", answer: "2\n", want: "delete"},
		{what: "by name", answer: "cluster\n", want: "cluster"},
		{what: "nothing", answer: "\n", err: "stays as it is"},
		{what: "a number that is none", answer: "3\n", err: "stays as it is"},
		{what: "a choice of other claims", answer: "keep\n", err: "stays as it is"},
		{what: "nobody there", alone: true, err: "--take cluster|delete"},
		{what: "by flag, confirmed", take: "delete", answer: "y\n", want: "delete"},
		{what: "by flag, not confirmed", take: "delete", answer: "\n", err: "stays as it is"},
		{what: "by flag, nobody there", take: "delete", alone: true, err: "add --yes"},
		{what: "by flag, sure", take: "delete", yes: true, alone: true, want: "delete"},
		{what: "by flag, not possible", take: "file", yes: true, err: "choose from cluster, delete"},
	} {
		var out bytes.Buffer
		in := Input{Take: c.take, Yes: c.yes}
		in.Terminal = &terminal.Terminal{In: strings.NewReader(c.answer), Out: &out, Interactive: !c.alone}
		got, err := in.choose(t.Context(), r)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v", c.what, got, err)
		case c.err != "" && (err == nil || got != "" || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %q, %v, want an error with %q", c.what, got, err, c.err)
		}
	}
}

func TestEachChoiceSaysWhatItDoes(t *testing.T) {
	for _, c := range choice.All() {
		if (report{Held: true}).does(c) == "" {
			t.Errorf("%s does nothing", c)
		}
	}
}

// A person takes time to decide, and the provider writes the status meanwhile.
func TestAnAnswerIsToAnotherVersionOfTheClaim(t *testing.T) {
	t.Parallel()
	read := object(t, torn)
	read.SetManagedFields(nil)
	api := fakeapi.New(fakeapi.Builder().WithScheme(runtime.NewScheme()).WithObjects(read))
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil {
		t.Fatal(err)
	}
	now := read.DeepCopy()
	now.SetLabels(map[string]string{"team": "a"})
	if err := api.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	var in Input
	in.Cluster = &appcluster.Cluster{WithWatch: api}
	if err := in.answer(t.Context(), read, "file"); err != nil {
		t.Error(err)
	}
	now.SetUID("u2")
	if err := in.answer(t.Context(), now, "file"); err == nil {
		t.Error("another object is answered")
	}
}
