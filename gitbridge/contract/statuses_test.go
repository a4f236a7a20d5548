package contract

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func someStatus(i int) *Status {
	return &Status{
		APIVersion: APIVersion, Kind: "ClaimStatus", Metadata: StatusMeta{Name: fmt.Sprint("orders-", i), Namespace: "team-a"},
		Answers: Answers{Blob: "b7c1", Commit: "c0ffee"}, Result: Denied, Problem: &Problem{File: "f", Line: 3, Reason: "no"},
		Effective: map[string]any{"plan": nil},
		Status: map[string]any{
			"managed":    map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2026-11-21T12:00:00Z", "message": ""}},
		},
	}
}

func TestStatusesDecodeOnceAndShareNothing(t *testing.T) {
	var s Statuses
	want := someStatus(1)
	data, err := EncodeStatus(want)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	read := func() ([]byte, error) { reads++; return data, nil }
	for range 3 {
		got, err := s.Decode("1", read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		got.Problem.Reason, got.Result = "mine", Applied
		got.Effective["plan"] = "mine"
		got.Status["conditions"].([]any)[0].(map[string]any)["status"] = "mine"
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
	fill := func(name string) {
		for i := range maxStatuses - 1 {
			if _, err := s.Decode(fmt.Sprint(name, i), read); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := func() ([]byte, error) { return nil, errors.New("gone") }
	for _, name := range []string{"x", "y"} {
		fill(name)
		if _, err := s.Decode("1", gone); err != nil {
			t.Error("it was in use, and is dropped")
		}
	}
	fill("z")
	fill("w")
	if n := s.decoded.Len(); n != maxStatuses {
		t.Errorf("%d are kept, want %d", n, maxStatuses)
	}
	if _, err := s.Decode("1", gone); err == nil {
		t.Error("it is kept for ever")
	}
	for range 2 {
		if _, err := s.Decode("bad", func() ([]byte, error) { return []byte("kind: Other"), nil }); err == nil {
			t.Error("what is no ClaimStatus is one")
		}
	}
}

func BenchmarkDecodeStatus(b *testing.B) {
	data, err := EncodeStatus(someStatus(1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := DecodeStatus(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatuses(b *testing.B) {
	data, err := EncodeStatus(someStatus(1))
	if err != nil {
		b.Fatal(err)
	}
	var s Statuses
	for b.Loop() {
		if _, err := s.Decode("1", func() ([]byte, error) { return data, nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAnObservedIsWrittenTheSameWithAndWithoutYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9a-f]{7,40}`), rapid.StringMatching(`[0-9]{1,3}e[0-9]{1,30}`), rapid.StringMatching(`0[box][0-9a-f]{1,20}`),
			rapid.StringMatching(`[A-Z2-7]{10}`), rapid.SampledFrom([]string{"", "false", "False", "null", "Infinity", "2026-11-21", "yes", "0o777777", "1_000_000", "a: b", "#abcdef"}), rapid.String(),
		)
		o := Observed{Commit: text.Draw(t, "commit"), Epoch: text.Draw(t, "epoch"), Writer: text.Draw(t, "writer"), Sequence: rapid.Int64Min(1).Draw(t, "sequence"), Cut: rapid.Int64Min(0).Draw(t, "cut")}
		plain := o.plain()
		if plain == nil {
			return
		}
		all, err := marshal(object{{"apiVersion", APIVersion}, {"kind", "Observed"}, {"commit", o.Commit}, {"sequence", o.Sequence}, {"epoch", o.Epoch}})
		if err != nil {
			t.Fatal(err)
		}
		if o.Cut > 0 {
			all = fmt.Appendf(all, "cut: %d\n", o.Cut)
		}
		if o.Writer != "" {
			last, err := marshal(object{{"writer", o.Writer}})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, last...)
		}
		if diff := cmp.Diff(string(all), string(plain)); diff != "" {
			t.Fatal(diff)
		}
		o.APIVersion, o.Kind = APIVersion, "Observed"
		if diff := cmp.Diff(o, readPlain(plain)); diff != "" {
			t.Fatal(diff)
		}
		var read Observed
		if err := yaml.Unmarshal(plain, &read); err != nil || read != o {
			t.Fatal(read, err)
		}
	})
	for _, writer := range []string{"NILRX3U5IY", "AZ", "az", "09", ""} {
		if (Observed{Commit: "d0be2dc421be4fcd0172e5afceea3970e2f3d940", Epoch: "5JRFXUAALF", Writer: writer}).plain() == nil {
			t.Errorf("an ordinary one, of writer %q, goes through YAML", writer)
		}
	}
}

func TestAnObservedOfAnyTextSurvivesItsFile(t *testing.T) {
	const head = "apiVersion: gitbind.dev/v1alpha1\nkind: Observed\n"
	for want, o := range map[string]Observed{
		"commit: c\nsequence: 4\nepoch: e\n":                                   {Commit: "c", Sequence: 4, Epoch: "e"},
		"commit: c\nsequence: 4\nepoch: e\ncut: 1\nwriter: w\n":                {Commit: "c", Sequence: 4, Epoch: "e", Cut: 1, Writer: "w"},
		"commit: \"12\"\nsequence: 0\nepoch: \"null\"\nwriter: \"Yes\"\n":      {Commit: "12", Epoch: "null", Writer: "Yes"},
		"commit: c\nsequence: 4\nepoch: a b\n":                                 {Commit: "c", Sequence: 4, Epoch: "a b"},
		"commit: c\nsequence: 4\nepoch: e\nwriter: konnector-0\n":              {Commit: "c", Sequence: 4, Epoch: "e", Writer: "konnector-0"},
		"commit: c\nsequence: 4\nepoch: e\ncut: 1\nwriter: \"a: \\\"b\\\"\"\n": {Commit: "c", Sequence: 4, Epoch: "e", Cut: 1, Writer: `a: "b"`},
		"commit: \"\"\nsequence: 4\nepoch: e\n":                                {Sequence: 4, Epoch: "e"},
	} {
		data, err := EncodeObserved(o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(head+want, string(data)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		o.APIVersion, o.Kind = APIVersion, "Observed"
		if got, err := DecodeObserved(data); err != nil || got != o {
			t.Errorf("%q: got %v, %v", want, got, err)
		}
	}
}

func BenchmarkEncodeObserved(b *testing.B) {
	for b.Loop() {
		if _, err := EncodeObserved(Observed{Commit: "d0be2dc421be4fcd0172e5afceea3970e2f3d940", Epoch: "5JRFXUAALF", Writer: "NILRX3U5IY", Sequence: 12}); err != nil {
			b.Fatal(err)
		}
	}
}
