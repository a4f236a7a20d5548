package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDecodeEncryptedSecretIsTheInverseOfEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := &EncryptedSecret{
			APIVersion: APIVersion, Kind: EncryptedSecretKind, Metadata: StatusMeta{Name: nasty().Draw(t, "name"), Namespace: nasty().Draw(t, "namespace")},
			Cluster: nasty().Draw(t, "cluster"), Claim: SecretClaim{Binding: nasty().Draw(t, "binding"), Name: nasty().Draw(t, "claim"), UID: nasty().Draw(t, "uid")},
			Sequence: rapid.Int64().Draw(t, "sequence"), Digest: nasty().Draw(t, "digest"), Encrypted: nasty().Draw(t, "encrypted"),
			Keys: texts(0).Draw(t, "keys"), Recipients: texts(1).Draw(t, "recipients"),
		}
		data, err := EncodeEncryptedSecret(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEncryptedSecret(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		slices.Sort(s.Keys)
		slices.Sort(s.Recipients)
		if diff := cmp.Diff(s, got); diff != "" {
			t.Fatalf("-want +got:\n%s\n%s", diff, data)
		}
		if want := (SecretKey{Binding: s.Claim.Binding, Namespace: s.Metadata.Namespace, Name: s.Metadata.Name}); got.SecretKey() != want {
			t.Fatalf("it is of %v, want %v", got.SecretKey(), want)
		}
	})
}

// texts draws lists of texts as YAML gives them back: one that is empty is nil.
func texts(least int) *rapid.Generator[[]string] {
	return rapid.Map(rapid.SliceOfN(nasty(), least, 3), func(list []string) []string {
		if len(list) == 0 {
			return nil
		}
		return list
	})
}

func TestAnEncryptedSecretLeavesOutWhatItDoesNotSay(t *testing.T) {
	t.Parallel()
	const want = "apiVersion: gitbind.dev/v1alpha1\nkind: EncryptedSecret\nmetadata:\n  name: creds\n  namespace: team-a\ncluster: k3\n" +
		"claim:\n  binding: a.b\n  name: orders\nsequence: 0\nrecipients:\n  - r\ndigest: d\nencrypted: e\n"
	got, err := EncodeEncryptedSecret(&EncryptedSecret{
		Metadata: StatusMeta{Name: "creds", Namespace: "team-a"}, Cluster: "k3", Claim: SecretClaim{Binding: "a.b", Name: "orders"},
		Keys: []string{}, Recipients: []string{"r"}, Digest: "d", Encrypted: "e",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestThePathOfASecretNamesIt(t *testing.T) {
	t.Parallel()
	want := SecretKey{Binding: binding, Namespace: "team-a", Name: "orders.eu"}
	if got, err := ParseSecretPath(want.Path()); err != nil || got != want {
		t.Errorf("%s is of %v, %v", want.Path(), got, err)
	}
	for _, path := range []string{
		"", "bindings/a.b/secrets/n", "bindings/a.b/secrets/c.yaml", "bindings/a.b/secrets/n/c.yaml/x", "other/a.b/secrets/n/c.yaml", "bindings/a.b/claims/n/c.yaml",
		"bindings/a.b/secrets/n/c", "bindings/a.b/secrets/n/c.yml", "bindings/nogroup/secrets/n/c.yaml", "bindings/a.b/secrets/N/c.yaml", "bindings/a.b/secrets//c.yaml",
		"bindings/a.b/secrets/n/C.yaml", "bindings/a.b/secrets/n/.yaml",
	} {
		if k, err := ParseSecretPath(path); !errors.Is(err, ErrNotSecretPath) || k != (SecretKey{}) {
			t.Errorf("%q is of %v, %v", path, k, err)
		}
	}
}

func TestASignatureIsTheLastLine(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct {
		body, signature string
		ok              bool
	}{
		"a: b\nsignature: s\n":               {"a: b\n", "s", true},
		"\nsignature: s\n":                   {"\n", "s", true},
		"a: b\nsignature: \n":                {"a: b\n", "", true},
		"a: b\nsignature: s\nsignature: t\n": {"a: b\nsignature: s\n", "t", true},
		"a: b\nsignature: s":                 {},
		"a: b\nsignature: s\nc: d\n":         {},
		"a: b\n signature: s\n":              {},
		"a: b\n":                             {},
		"signature: s\n":                     {}, // It signs nothing.
		"\n":                                 {},
		"":                                   {},
	} {
		body, signature, ok := CutSignature([]byte(file))
		if ok != want.ok || ok && (string(body) != want.body || signature != want.signature) {
			t.Errorf("%q: got %q, %q, %v", file, body, signature, ok)
		}
		if ok && string(AppendSignature(body, signature)) != file {
			t.Errorf("%q is put together as %q", file, AppendSignature(body, signature))
		}
	}
	body := append(make([]byte, 0, 100), "a: b\n"...)
	if first := AppendSignature(body, "s"); string(AppendSignature(body, "t")) == string(first) {
		t.Error("two files share what they sign")
	}
}

func TestSecretListsAreTheSameWhenAllOfThemIs(t *testing.T) {
	t.Parallel()
	list := func(change func(l *SecretList)) *SecretList {
		l := &SecretList{UID: "u", Sequence: 1, Versions: map[string]int64{"b": 1, "a": 2}, Signature: "s"}
		change(l)
		return l
	}
	same := list(func(*SecretList) {})
	for name, tc := range map[string]struct {
		a, b *SecretList
		want bool
	}{
		"the same":               {same, list(func(*SecretList) {}), true},
		"another UID":            {same, list(func(l *SecretList) { l.UID = "v" }), false},
		"another sequence":       {same, list(func(l *SecretList) { l.Sequence = 2 }), false},
		"another version":        {same, list(func(l *SecretList) { l.Versions["a"] = 3 }), false},
		"another Secret":         {same, list(func(l *SecretList) { l.Versions["c"] = 1 }), false},
		"another signature":      {same, list(func(l *SecretList) { l.Signature = "t" }), false},
		"none on either side":    {nil, nil, true},
		"none on one side":       {same, nil, false},
		"none and an empty one":  {nil, &SecretList{}, false},
		"no Secrets, both times": {list(func(l *SecretList) { l.Versions = nil }), list(func(l *SecretList) { clear(l.Versions) }), true},
	} {
		if tc.a.Same(tc.b) != tc.want || tc.b.Same(tc.a) != tc.want {
			t.Errorf("%s: %v, and %v the other way round", name, tc.a.Same(tc.b), tc.b.Same(tc.a))
		}
	}
	if got := strings.Join(same.Names(), " "); got != "a b" {
		t.Errorf("names: %s", got)
	}
	if got := (*SecretList)(nil).Names(); got != nil {
		t.Errorf("names of none: %v", got)
	}
}
