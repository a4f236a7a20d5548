package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatusAndObservedSurviveTheirFiles(t *testing.T) {
	want := &Status{
		APIVersion: APIVersion, Kind: "ClaimStatus", Metadata: StatusMeta{Name: "orders", Namespace: "team-a"},
		Answers: Answers{Blob: "b", Commit: "c"}, Result: Invalid, Message: "no",
		Problem: &Problem{File: "f", Line: 3, Reason: "r"}, UID: "u",
		Status: map[string]any{"ready": true, "n": int64(7), "f": 1.5, "list": []any{map[string]any{"n": int64(1) << 60}}},
	}
	data, err := EncodeStatus(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeStatus(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	o := Observed{APIVersion: APIVersion, Kind: "Observed", Commit: "c", Sequence: 4, Epoch: "e", Cut: 2, Writer: "w"}
	data, _ = EncodeObserved(o)
	if got, err := DecodeObserved(data); err != nil || got != o {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "kind: Observed", "[]", "apiVersion: gitbind.dev/v1alpha1\nkind: Observed\ncommit: c\n"} {
		if _, err := DecodeObserved([]byte(bad)); err == nil {
			t.Errorf("DecodeObserved(%q): no error", bad)
		}
		if _, err := DecodeStatus([]byte(bad)); err == nil {
			t.Errorf("DecodeStatus(%q): no error", bad)
		}
	}
}

func FuzzDecodeStatus(f *testing.F) {
	data, _ := EncodeStatus(&Status{Result: Applied, Status: map[string]any{"a": []any{int64(1)}}})
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeStatus(data)
		if err != nil {
			return
		}
		out, err := EncodeStatus(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeStatus(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}

func TestObjectTrailersAreFoundAmongOtherWords(t *testing.T) {
	want := ObjectTrailer{Key: ordersKey, UID: "1-2", Generation: 3, Version: "17", Blob: "8b9f02e82460d92bd9488a67c93bb913b378e2e6"}
	removal := ObjectTrailer{Key: ordersKey, UID: "1-2", Generation: 3}
	merge := want
	merge.Version, merge.Merged, merge.Live = "", true, "ce013625030ba8dba906f756967f9e9ca394464a"
	message := "claim: update\n\nGitbind-Object: nonsense\nGitbind-Object: a/b/c uid=x generation=y\n" +
		TrailerObject + ": " + want.String() + "\n" + TrailerObject + ": " + removal.String() + "\n" + TrailerObject + ": " + merge.String() + "\n" +
		TrailerObject + ": " + merge.String() + " more\n" + TrailerObject + ": " + removal.String() + " live=1\nSigned-off-by: x\n"
	if diff := cmp.Diff([]ObjectTrailer{want, removal, merge}, ParseObjectTrailers(message)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIdentityCannotForgeALine(t *testing.T) {
	for user, want := range map[string][2]string{
		"alice@example.com":      {"alice@example.com", "alice%40example.com@k3.clusters.gitbind.dev"},
		"x>\nauthor Bob <b@c.d>": {"xauthor Bob b@c.d", "x%3E%0Aauthor+Bob+%3Cb%40c.d%3E@k3.clusters.gitbind.dev"},
		" ":                      {"unknown", "unknown@k3.clusters.gitbind.dev"},
	} {
		if name, email := Identity(user, "k3"); name != want[0] || email != want[1] {
			t.Errorf("Identity(%q) = %q, %q", user, name, email)
		}
	}
}

func TestAPersonIsNamedAsTheControlPlaneDoes(t *testing.T) {
	t.Parallel()
	for user, want := range map[string][2]string{
		"alice@example.com": {"alice@example.com", "alice%40example.com@people.gitbind.dev"},
		"<alice>":           {"alice", "%3Calice%3E@people.gitbind.dev"},
		" ":                 {"unknown", "+@people.gitbind.dev"},
	} {
		if name, email := PersonIdentity(user); name != want[0] || email != want[1] {
			t.Errorf("PersonIdentity(%q) = %q, %q", user, name, email)
		}
	}
}

func TestH10_NoUserPassesAsAComponentOrAsAnotherUser(t *testing.T) {
	components := map[string]string{}
	for _, component := range []string{Konnector, UnknownUser} {
		name, email := ComponentIdentity(component, "k3")
		components[name] = email
	}
	seen := map[string]string{}
	for _, user := range []string{
		"konnector", "unknown", "Konnector", "UNKNOWN", " konnector ", "konnector\n", "konn\x01ector", "<konnector>", "konn\u200bector", "konnector\u00ad",
		"user:konnector", "user:user:konnector", "user:unknown", "konnector@k3.clusters.gitbind.dev", "konn%65ctor",
		"alice", "alice\u200b", "ali\x01ce", "<alice>", "alice ", "user:alice",
	} {
		name, email := Identity(user, "k3")
		for component, address := range components {
			if strings.EqualFold(name, component) || strings.EqualFold(email, address) {
				t.Errorf("%q is the component: %s <%s>", user, name, email)
			}
		}
		if other, ok := seen[email]; ok {
			t.Errorf("%q and %q are both <%s>", user, other, email)
		}
		seen[email] = user
		person, address := PersonIdentity(user)
		if strings.ContainsAny(person+address, "<>\n") || seen[address] != "" {
			t.Errorf("PersonIdentity(%q) is %s <%s>", user, person, address)
		}
		seen[address] = user
	}
	if name, email := Identity("", "k3"); name != UnknownUser || email != components[UnknownUser] {
		t.Errorf("nobody is %s <%s>", name, email)
	}
}

func TestApprovedTrailersAreFoundAmongOtherWords(t *testing.T) {
	path := Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}.Path()
	message := "claim: delete\n\n" + TrailerApproved + ": everything\nI say Gitbind-Approved: " + path + "\n" +
		TrailerApproved + ": " + path + "\n" + TrailerApproved + ": bindings/../../x\n" +
		Key{Binding: binding, Namespace: "team-a", Name: "named"}.Path() + "\n"
	if diff := cmp.Diff([]string{path}, ParseApproved(message)); diff != "" {
		t.Error(diff)
	}
}

func TestWholeNumbersOfAStatusAreInt64HoweverTheyAreWritten(t *testing.T) {
	s, err := DecodeStatus([]byte("apiVersion: gitbind.dev/v1alpha1\nkind: ClaimStatus\nstatus: {a: 1, b: 1.0, c: 1e3, d: 0.5, e: [9007199254740993, {f: 2.0}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": int64(1), "b": int64(1), "c": int64(1000), "d": 0.5, "e": []any{int64(9007199254740993), map[string]any{"f": int64(2)}}}
	if diff := cmp.Diff(want, s.Status); diff != "" {
		t.Error(diff)
	}
}

func TestWholeNumbersOfEffectiveAreInt64(t *testing.T) {
	s, err := DecodeStatus([]byte("apiVersion: gitbind.dev/v1alpha1\nkind: ClaimStatus\neffective: {a: 1.0, b: null, c: [2]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": int64(1), "b": nil, "c": []any{int64(2)}}, s.Effective); diff != "" {
		t.Error(diff)
	}
}

func TestAStatusLeavesOutWhatItDoesNotSay(t *testing.T) {
	const head = "apiVersion: gitbind.dev/v1alpha1\nkind: ClaimStatus\n"
	for name, tc := range map[string]struct {
		status Status
		want   string
	}{
		"a tombstone": {
			Status{Metadata: StatusMeta{Name: "orders", Namespace: "team-a"}, Answers: Answers{Commit: "c"}, Result: Gone, Since: "2026-11-20T10:00:00Z"},
			"metadata:\n  name: orders\n  namespace: team-a\nanswers:\n  commit: c\nresult: Gone\nsince: \"2026-11-20T10:00:00Z\"\n",
		},
		"empty objects": {
			Status{Metadata: StatusMeta{Name: "x"}, Answers: Answers{Blob: "b", Commit: "c"}, Result: Applied, Effective: map[string]any{}, Status: map[string]any{}},
			"metadata:\n  name: x\nanswers:\n  blob: b\n  commit: c\nresult: Applied\n",
		},
		"a problem of a whole file that is no claim's": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Invalid, Problem: &Problem{File: "README", Reason: "no"}},
			"answers:\n  blob: b\n  commit: c\nresult: Invalid\nproblem:\n  file: README\n  reason: \"no\"\n",
		},
		"a problem in the first line": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Invalid, Problem: &Problem{File: "README", Line: 1, Reason: "bad"}},
			"answers:\n  blob: b\n  commit: c\nresult: Invalid\nproblem:\n  file: README\n  line: 1\n  reason: bad\n",
		},
		"inputs": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Applied, Inputs: &Inputs{Sequence: 7, Objects: []string{"Secret b", "ConfigMap a"}, Refused: map[string]string{"Secret c": "no"}}},
			"answers:\n  blob: b\n  commit: c\nresult: Applied\ninputs:\n  sequence: 7\n  objects:\n    - ConfigMap a\n    - Secret b\n  refused:\n    Secret c: \"no\"\n",
		},
		"inputs that were never taken": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Applied, Inputs: &Inputs{Objects: []string{}, Refused: map[string]string{}}},
			"answers:\n  blob: b\n  commit: c\nresult: Applied\ninputs: {}\n",
		},
		"Secrets of which none travels any more": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Applied, Secrets: &SecretList{Versions: map[string]int64{}, Signature: "s"}, Withheld: map[string]string{}},
			"answers:\n  blob: b\n  commit: c\nresult: Applied\nsecrets:\n  sequence: 0\n  signature: s\n",
		},
		"a field that the template took away": {
			Status{Answers: Answers{Blob: "b", Commit: "c"}, Result: Applied, Effective: map[string]any{"expose": nil}, Status: map[string]any{"ready": true}},
			"answers:\n  blob: b\n  commit: c\nresult: Applied\neffective:\n  expose: null\nstatus:\n  ready: true\n",
		},
	} {
		got, err := EncodeStatus(&tc.status)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(head+tc.want, string(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestDecodeTakesItsOwnKindAndVersionOnly(t *testing.T) {
	decode := map[string]func(string) error{
		"ClaimStatus":     func(data string) error { _, err := DecodeStatus([]byte(data)); return err },
		"Observed":        func(data string) error { _, err := DecodeObserved([]byte(data + "epoch: e\n")); return err },
		"EncryptedSecret": func(data string) error { _, err := DecodeEncryptedSecret([]byte(data)); return err },
		"EncryptedInputs": func(data string) error { _, err := DecodeEncryptedInputs([]byte(data)); return err },
	}
	for kind, decode := range decode {
		for data, want := range map[string]string{
			"apiVersion: gitbind.dev/v1alpha1\nkind: " + kind + "\n": "",
			"apiVersion: gitbind.dev/v2\nkind: " + kind + "\n":       "is a gitbind.dev/v2 " + kind,
			"apiVersion: gitbind.dev/v1alpha1\nkind: Other\n":        "is a gitbind.dev/v1alpha1 Other",
			"apiVersion: gitbind.dev/v2\nkind: Other\n":              "is a gitbind.dev/v2 Other",
			"apiVersion: [\n": "error converting YAML to JSON",
		} {
			err := decode(data)
			if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), "decode "+kind+": "+want) {
				t.Errorf("%s: %q: %v, want %q", kind, data, err, want)
			}
		}
	}
}

// The control plane is upgraded before app clusters are.
func TestAFieldOfANewerVersionIsLeftOut(t *testing.T) {
	t.Parallel()
	const more = "apiVersion: gitbind.dev/v1alpha1\nmore: 1\nkind: "
	_, secret := DecodeEncryptedSecret([]byte(more + EncryptedSecretKind))
	_, inputs := DecodeEncryptedInputs([]byte(more + EncryptedInputsKind))
	_, status := DecodeStatus([]byte(more + "ClaimStatus\nresult: Applied\n"))
	_, observed := DecodeObserved([]byte(more + "Observed\nepoch: e\n"))
	if err := errors.Join(secret, inputs, status, observed); err != nil {
		t.Error(err)
	}
}

func TestAServiceIsReadyByTheConditionOfItsOffer(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]*Status{"Ready": {nil, {}}, "Issued": {{ReadyCondition: "Issued"}}} {
		for _, s := range all {
			if got := s.ReadyType(); got != want {
				t.Errorf("%v: %q, want %q", s, got, want)
			}
		}
	}
}

func TestAnAnswerKeepsTheCommitOfTheSameVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		before *Status
		blob   string
		want   Answers
	}{
		"the first answer":            {nil, "b", Answers{Blob: "b", Commit: "head"}},
		"the same version":            {&Status{Answers: Answers{Blob: "b", Commit: "c"}}, "b", Answers{Blob: "b", Commit: "c"}},
		"another version":             {&Status{Answers: Answers{Blob: "a", Commit: "c"}}, "b", Answers{Blob: "b", Commit: "head"}},
		"still removed":               {&Status{Answers: Answers{Commit: "c"}}, "", Answers{Commit: "c"}},
		"removed":                     {&Status{Answers: Answers{Blob: "b", Commit: "c"}}, "", Answers{Commit: "head"}},
		"an answer without a commit":  {&Status{Answers: Answers{Blob: "b"}}, "b", Answers{Blob: "b", Commit: "head"}},
		"an answer that says nothing": {&Status{}, "", Answers{Commit: "head"}},
	} {
		if got := tc.before.Answering(tc.blob, "head"); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestLinesThatAreNoTrailersNameNoObject(t *testing.T) {
	const key = binding + "/team-a/orders"
	long := strings.Repeat("1", 129)
	for value, ok := range map[string]bool{
		key + " uid=" + long + " generation=2":                  false,
		key + " uid=" + long[1:] + " generation=2":              true,
		key + " uid=1 generation=2 version=" + long:             false,
		key + " uid=1 generation=2 blob=" + long:                false,
		key + " uid=1 generation=2 merged=" + long + " live=4":  false,
		key + " uid=1 generation=2 merged=3 live=" + long:       false,
		key + " uid=1 generation=2":                             true,
		key + " uid=1 generation=2 blob=3":                      true,
		key + " uid=1 generation=2 merged=3 live=4":             true,
		key + " uid=1 generation=2 merged=3":                    false,
		key + " uid=1 generation=2 live=3":                      false,
		key + " uid=1 generation=2 3":                           false,
		key + " uid=1 generation=2 blob=3 live=4":               false,
		key + " uid=1 generation=2 merged=3 more=4":             false,
		key + " uid=1 generation=2 blob=3 more=4":               true,
		key + " uid=1 generation=2 more=" + long + " version=3": true,
		key + " uid=1 generation=2 blob=3 blob=3":               false,
		key + " uid=1 generation=2 blob=3 merged=3 live=4":      false,
		key + " uid=1 generation=2 merged=3 live=4 5":           false,
		key + "/more uid=1 generation=2":                        false,
		binding + "/orders uid=1 generation=2":                  false,
		"orders uid=1 generation=2":                             false,
		"nogroup/team-a/orders uid=1 generation=2":              false,
		key + " 1 generation=2":                                 false,
		key + " uid=1 2":                                        false,
		key + " uid=1 generation=":                              false,
		key + " uid=1 generation=x":                             false,
		key + " uid=1":                                          false,
		key:                                                     false,
		"":                                                      false,
	} {
		if got := ParseObjectTrailers("claim: update\n\n" + TrailerObject + ": " + value + "\n"); len(got) != 0 != ok {
			t.Errorf("%q: got %v", value, got)
		}
		for _, other := range []string{value, "X-" + TrailerObject + ": " + value, TrailerObject + "=" + value} {
			if got := ParseObjectTrailers("claim: update\n\n" + other + "\n"); len(got) != 0 {
				t.Errorf("%q is no trailer: got %v", other, got)
			}
		}
	}
}
