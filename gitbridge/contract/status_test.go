package contract

import (
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
	want := ObjectTrailer{Key: ordersKey, UID: "1-2", Generation: 3, Blob: "8b9f02e82460d92bd9488a67c93bb913b378e2e6"}
	removal := ObjectTrailer{Key: ordersKey, UID: "1-2", Generation: 3}
	merge := want
	merge.Merged, merge.Live = true, "ce013625030ba8dba906f756967f9e9ca394464a"
	message := "claim: update\n\nGitbind-Object: nonsense\nGitbind-Object: a/b/c uid=x generation=y\n" +
		TrailerObject + ": " + want.String() + "\n" + TrailerObject + ": " + removal.String() + "\n" + TrailerObject + ": " + merge.String() + "\n" +
		TrailerObject + ": " + merge.String() + " more=1\n" + TrailerObject + ": " + removal.String() + " live=1\nSigned-off-by: x\n"
	if diff := cmp.Diff([]ObjectTrailer{want, removal, merge}, ParseObjectTrailers(message)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestIdentityCannotForgeALine(t *testing.T) {
	for user, want := range map[string][2]string{
		"alice@example.com":      {"alice@example.com", "alice%40example.com@k3.clusters.gitbind.dev"},
		"x>\nauthor Bob <b@c.d>": {"xauthor Bob b@c.d", "xauthor+Bob+b%40c.d@k3.clusters.gitbind.dev"},
		" ":                      {"unknown", "unknown@k3.clusters.gitbind.dev"},
	} {
		if name, email := Identity(user, "k3"); name != want[0] || email != want[1] {
			t.Errorf("Identity(%q) = %q, %q", user, name, email)
		}
	}
}

func TestApprovedTrailersAreFoundAmongOtherWords(t *testing.T) {
	path := Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}.Path()
	message := "claim: delete\n\n" + TrailerApproved + ": everything\nI say Gitbind-Approved: " + path + "\n" +
		TrailerApproved + ": " + path + "\n" + TrailerApproved + ": bindings/../../x\n"
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
