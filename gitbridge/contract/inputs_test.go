package contract

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDecodeEncryptedInputsIsTheInverseOfEncode(t *testing.T) {
	t.Parallel()
	inputs := rapid.Custom(func(t *rapid.T) InputObject {
		return InputObject{
			Kind: rapid.SampledFrom([]string{"Secret", "ConfigMap"}).Draw(t, "kind"), Name: nasty().Draw(t, "name"), Keys: texts(0).Draw(t, "keys"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		e := &EncryptedInputs{
			APIVersion: APIVersion, Kind: EncryptedInputsKind, Metadata: StatusMeta{Name: nasty().Draw(t, "name"), Namespace: nasty().Draw(t, "namespace")},
			Cluster: nasty().Draw(t, "cluster"), Binding: nasty().Draw(t, "binding"), UID: nasty().Draw(t, "uid"),
			Sequence: rapid.Int64().Draw(t, "sequence"), Digest: nasty().Draw(t, "digest"), Encrypted: nasty().Draw(t, "encrypted"),
			Objects: rapid.SliceOfNDistinct(inputs, 0, 3, InputObject.String).Draw(t, "objects"), Recipients: texts(1).Draw(t, "recipients"),
		}
		data, err := EncodeEncryptedInputs(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeEncryptedInputs(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if len(e.Objects) == 0 {
			e.Objects = nil
		}
		slices.SortFunc(e.Objects, InputObject.Compare)
		slices.Sort(e.Recipients)
		for _, in := range e.Objects {
			slices.Sort(in.Keys)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("-want +got:\n%s\n%s", diff, data)
		}
		if want := (Key{Binding: e.Binding, Namespace: e.Metadata.Namespace, Name: e.Metadata.Name}); got.Claim() != want {
			t.Fatalf("it is of %v, want %v", got.Claim(), want)
		}
	})
}

func TestEncryptedInputsLeaveOutWhatTheyDoNotSay(t *testing.T) {
	t.Parallel()
	const (
		head = "apiVersion: gitbind.dev/v1alpha1\nkind: EncryptedInputs\nmetadata:\n  name: orders\n  namespace: team-a\ncluster: k3\nbinding: a.b\nsequence: 0\n"
		tail = "recipients:\n  - r\ndigest: d\nencrypted: e\n"
	)
	for want, objects := range map[string][]InputObject{
		"": {},
		"objects:\n  - kind: ConfigMap\n    name: b\n    keys:\n      - x\n      - z\n  - kind: Secret\n    name: a\n": {
			{Kind: "Secret", Name: "a", Keys: []string{}}, {Kind: "ConfigMap", Name: "b", Keys: []string{"z", "x"}},
		},
	} {
		got, err := EncodeEncryptedInputs(&EncryptedInputs{
			Metadata: StatusMeta{Name: "orders", Namespace: "team-a"}, Cluster: "k3", Binding: "a.b", Objects: objects, Recipients: []string{"r"}, Digest: "d", Encrypted: "e",
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(head+want+tail, string(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
