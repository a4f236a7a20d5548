package encryption

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
)

var inputs = []Input{
	{Kind: "ConfigMap", Name: "orders", Labels: map[string]string{"app": "orders"}, Text: map[string]string{"mode": "fast"}, Data: map[string][]byte{"bin": {0, 255}}},
	{Kind: "Secret", Name: "orders", Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("geheim-4711")}},
}

func sealInputs(t testing.TB, s *Signer, b Binding, in []Input, to ...string) []byte {
	t.Helper()
	file, err := s.SealInputs(b, in, to, 7)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestInputsThatAreSealedOpen(t *testing.T) {
	t.Parallel()
	s, first, second := newSigner(t), newIdentity(t), newIdentity(t)
	reversed := slices.Clone(inputs)
	slices.Reverse(reversed)
	file := sealInputs(t, s, binding, reversed, second.Recipients()[0], first.Recipients()[0])
	for _, ids := range []Identities{first, second} {
		e, got, err := (&Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: ids}).OpenInputs(claim, file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(inputs, got); diff != "" {
			t.Errorf("(-sealed +opened): %s", diff)
		}
		want := []contract.InputObject{{Kind: "ConfigMap", Name: "orders", Keys: []string{"bin", "mode"}}, {Kind: "Secret", Name: "orders", Keys: []string{"password"}}}
		if e.Sequence != 7 || e.UID != binding.UID || !cmp.Equal(e.Objects, want) {
			t.Errorf("the file says %+v", e)
		}
	}
	for _, value := range []string{"geheim-4711", base64.StdEncoding.EncodeToString([]byte("geheim-4711")), "fast"} {
		if bytes.Contains(file, []byte(value)) {
			t.Errorf("the value is in the file: %s", value)
		}
	}
}

func TestF7_InputsThatAreNotForHereAreRefused(t *testing.T) {
	t.Parallel()
	s, ids := newSigner(t), newIdentity(t)
	to := ids.Recipients()[0]
	file := sealInputs(t, s, binding, inputs, to)
	elsewhere, another := binding, binding
	elsewhere.Cluster, another.Claim.Name = "a7c2", "billing"
	e, err := contract.DecodeEncryptedInputs(bodyOf(t, file))
	if err != nil {
		t.Fatal(err)
	}
	// Signed, but with what it holds taken from another file.
	e.Encrypted, _ = encrypt([]byte("apiVersion: v1\nkind: List\nitems: []\n"), []string{to})
	swapped, err := contract.EncodeEncryptedInputs(e)
	if err != nil {
		t.Fatal(err)
	}
	_, signature, _ := contract.CutSignature(file)
	for name, c := range map[string]struct {
		file []byte
		ids  Identities
		want error
		says string
	}{
		"another cluster":      {sealInputs(t, s, elsewhere, inputs, to), ids, nil, "another app cluster"},
		"another claim":        {sealInputs(t, s, another, inputs, to), ids, nil, "another claim"},
		"another konnector":    {sealInputs(t, newSigner(t), binding, inputs, to), ids, ErrUnknownSigner, ""},
		"another bridge":       {file, newIdentity(t), age.ErrIncorrectIdentity, ""},
		"an object left off":   {contract.AppendSignature(swapped, s.Sign(contract.EncryptedInputsKind, swapped)), ids, nil, "other objects than it says"},
		"altered":              {contract.AppendSignature(swapped, signature), ids, ErrSignature, ""},
		"an EncryptedSecret":   {seal(t, s, binding, creds, to), ids, ErrSignature, ""},
		"not signed":           {bodyOf(t, file), ids, nil, "not signed"},
		"larger than any file": {make([]byte, contract.MaxFileSize+1), ids, ErrTooLarge, ""},
	} {
		_, got, err := (&Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: c.ids}).OpenInputs(claim, c.file)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v, want %v %q", name, err, c.want, c.says)
		}
		if got != nil {
			t.Errorf("%s: something was opened", name)
		}
	}
}

func TestF6_UnchangedInputsAreToldFromChanged(t *testing.T) {
	t.Parallel()
	s, to := newSigner(t), newIdentity(t).Recipients()
	file := sealInputs(t, s, binding, inputs, to...)
	with := func(change func(*Input)) []Input {
		in := slices.Clone(inputs)
		change(&in[0])
		return in
	}
	reborn := binding
	reborn.UID = "7b2d"
	for name, c := range map[string]struct {
		signer *Signer
		b      Binding
		inputs []Input
		to     []string
		same   bool
	}{
		"the same":            {s, binding, []Input{inputs[1], inputs[0]}, to, true},
		"another value":       {s, binding, with(func(i *Input) { i.Text = map[string]string{"mode": "slow"} }), to, false},
		"another label":       {s, binding, with(func(i *Input) { i.Labels = nil }), to, false},
		"one less":            {s, binding, inputs[:1], to, false},
		"none":                {s, binding, nil, to, false},
		"another UID":         {s, reborn, inputs, to, false},
		"another recipient":   {s, binding, inputs, newIdentity(t).Recipients(), false},
		"another signing key": {newSigner(t), binding, inputs, to, false},
	} {
		if _, same := c.signer.CompareInputs(file, c.b, c.inputs, c.to); same != c.same {
			t.Errorf("%s: same is %v", name, same)
		}
	}
	none := sealInputs(t, s, binding, nil, to...)
	if _, same := s.CompareInputs(none, reborn, nil, to); same {
		t.Error("a file without objects counts for another claim")
	}
}

func TestSealedInputsProperties(t *testing.T) {
	t.Parallel()
	s, ids := newSigner(t), newIdentity(t)
	o := &Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: ids}
	rapid.Check(t, func(t *rapid.T) {
		in := []Input{{
			Kind: rapid.SampledFrom([]string{"Secret", "ConfigMap"}).Draw(t, "kind"), Name: "x",
			Data: rapid.MapOfN(rapid.StringMatching(`[-._a-zA-Z0-9]{1,20}`), rapid.SliceOfN(rapid.Byte(), 1, -1), 1, 3).Draw(t, "data"),
		}}
		if in[0].Kind == "ConfigMap" {
			in[0].Text = rapid.MapOfN(rapid.StringMatching(`[a-z]{21}`), rapid.String(), 1, 3).Draw(t, "text")
		}
		file, err := s.SealInputs(binding, in, ids.Recipients(), rapid.Int64Min(0).Draw(t, "sequence"))
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := o.OpenInputs(claim, file)
		if diff := cmp.Diff(in, got); err != nil || diff != "" {
			t.Fatalf("%v (-sealed +opened): %s", err, diff)
		}
		altered := bytes.Clone(file)
		altered[rapid.IntRange(0, len(file)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, _, err := o.OpenInputs(claim, altered); err == nil {
			t.Fatal("an altered file was taken")
		}
	})
}

func FuzzOpenInputs(f *testing.F) {
	signer, ids := newSigner(f), newIdentity(f)
	file := sealInputs(f, signer, binding, inputs, ids.Recipients()[0])
	f.Add(file)
	f.Add(bodyOf(f, file))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {kind: Secret, data: 1}\n"))
	konnector := newSigner(f)
	o := &Opener{Cluster: "k3x9", Keys: []string{konnector.Public()}, Identities: ids}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := o.OpenInputs(claim, data); err == nil {
			t.Errorf("something that nobody signed was taken: %q", data)
		}
		// What the konnector signs is read, whatever it is, in clear or encrypted.
		_, _, _ = o.OpenInputs(claim, contract.AppendSignature(data, konnector.Sign(contract.EncryptedInputsKind, data)))
		e := contract.EncryptedInputs{Metadata: contract.StatusMeta{Name: claim.Name, Namespace: claim.Namespace}, Cluster: "k3x9", Binding: claim.Binding}
		e.Encrypted, _ = encrypt(data, ids.Recipients())
		if body, err := contract.EncodeEncryptedInputs(&e); err == nil {
			_, _, _ = o.OpenInputs(claim, contract.AppendSignature(body, konnector.Sign(contract.EncryptedInputsKind, body)))
		}
	})
}

func TestAnIdentityIsRotated(t *testing.T) {
	t.Parallel()
	file, err := RotateIdentities(nil)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 3 {
		ids, err := ParseIdentities(file)
		if err != nil {
			t.Fatal(err)
		}
		now := ids.Recipients()
		if len(now) != min(len(seen)+1, keptIdentities) || slices.Contains(seen, now[0]) || len(seen) > 0 && now[1] != seen[len(seen)-1] {
			t.Errorf("after %q the recipients are %q", seen, now)
		}
		seen = append(seen, now[0])
		// As a person may have indented it.
		if file, err = RotateIdentities(bytes.ReplaceAll(file, []byte("AGE-"), []byte("  AGE-"))); err != nil {
			t.Fatal(err)
		}
	}
}
