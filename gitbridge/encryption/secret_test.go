package encryption

import (
	"bytes"
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
)

var (
	claim   = contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}
	binding = Binding{Cluster: "k3x9", Claim: claim, UID: "6a1c"}
	creds   = Secret{Name: "orders-creds", Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"username": []byte("u"), "password": []byte("geheim-4711")}}
	path    = contract.SecretKey{Binding: claim.Binding, Namespace: claim.Namespace, Name: "orders-creds"}
)

func newSigner(t testing.TB) *Signer {
	t.Helper()
	s, err := NewSigner(GenerateSeed())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newIdentity(t testing.TB) Identities {
	t.Helper()
	text, recipient, err := GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	ids, err := ParseIdentities([]byte("# made for a test\n\n" + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := ids.Recipients(); len(got) != 1 || got[0] != recipient {
		t.Fatalf("recipients are %q: want %q", got, recipient)
	}
	return ids
}

func seal(t testing.TB, s *Signer, b Binding, secret Secret, to ...string) []byte {
	t.Helper()
	file, err := s.Seal(b, secret, to, 7)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWhatIsSealedOpens(t *testing.T) {
	t.Parallel()
	s, first, second := newSigner(t), newIdentity(t), newIdentity(t)
	file := seal(t, s, binding, creds, second.Recipients()[0], first.Recipients()[0])
	for _, ids := range []Identities{first, second} {
		e, got, err := (&Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: ids}).Open(path, file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(creds, got); diff != "" {
			t.Errorf("(-sealed +opened): %s", diff)
		}
		if e.Sequence != 7 || e.Claim.UID != binding.UID || e.Claim.Name != claim.Name || !cmp.Equal(e.Keys, []string{"password", "username"}) {
			t.Errorf("the file says %+v", e)
		}
	}
	for _, value := range []string{"geheim-4711", base64.StdEncoding.EncodeToString([]byte("geheim-4711"))} {
		if bytes.Contains(file, []byte(value)) {
			t.Errorf("the value is in the file: %s", value)
		}
	}
}

// The letters of F7: swapped, replayed to another place, invented, foreign.
func TestF7_WhatIsNotForHereIsRefused(t *testing.T) {
	t.Parallel()
	s, ids := newSigner(t), newIdentity(t)
	to := ids.Recipients()[0]
	file := seal(t, s, binding, creds, to)
	other := creds
	other.Name = "billing-creds"
	swapped := bytes.ReplaceAll(seal(t, s, binding, other, to), []byte("billing-creds"), []byte("orders-creds"))
	forged, err := contract.DecodeEncryptedSecret(bodyOf(t, file))
	if err != nil {
		t.Fatal(err)
	}
	forged.Claim.UID = "another"
	body, err := contract.EncodeEncryptedSecret(forged)
	if err != nil {
		t.Fatal(err)
	}
	_, signature, _ := contract.CutSignature(file)
	foreign := newSigner(t)
	elsewhere := binding
	elsewhere.Cluster = "a7c2"
	moved := path
	moved.Namespace = "team-b"
	for name, c := range map[string]struct {
		at   contract.SecretKey
		file []byte
		ids  Identities
		want error
		says string
	}{
		"another's name":     {path, swapped, ids, ErrSignature, ""},
		"another place":      {moved, file, ids, nil, "another place"},
		"another claim":      {path, contract.AppendSignature(body, signature), ids, ErrSignature, ""},
		"another cluster":    {path, seal(t, s, elsewhere, creds, to), ids, nil, "another app cluster"},
		"another bridge":     {path, seal(t, foreign, binding, creds, to), ids, ErrUnknownSigner, ""},
		"another purpose":    {path, contract.AppendSignature(bodyOf(t, file), s.Sign("Registration", bodyOf(t, file))), ids, ErrSignature, ""},
		"another recipient":  {path, file, newIdentity(t), age.ErrIncorrectIdentity, ""},
		"no signature":       {path, bodyOf(t, file), ids, nil, "not signed"},
		"half a file":        {path, file[:len(file)/2], ids, nil, "not signed"},
		"a line after it":    {path, append(bytes.Clone(file), "keys: [x]\n"...), ids, nil, "not signed"},
		"two signatures":     {path, contract.AppendSignature(file, signature), ids, ErrSignature, ""},
		"nothing":            {path, nil, ids, nil, "not signed"},
		"larger than a file": {path, make([]byte, contract.MaxFileSize+1), ids, ErrTooLarge, ""},
	} {
		_, got, err := (&Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: c.ids}).Open(c.at, c.file)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v, want %v %q", name, err, c.want, c.says)
		}
		if got.Data != nil {
			t.Errorf("%s: something was opened", name)
		}
	}
}

func bodyOf(t testing.TB, file []byte) []byte {
	t.Helper()
	body, _, ok := contract.CutSignature(file)
	if !ok {
		t.Fatal("the file has no signature")
	}
	return body
}

func TestF6_UnchangedIsToldFromChanged(t *testing.T) {
	t.Parallel()
	s, ids, escrow := newSigner(t), newIdentity(t), newIdentity(t)
	to := []string{ids.Recipients()[0], escrow.Recipients()[0]}
	file := seal(t, s, binding, creds, to...)
	if bytes.Equal(file, seal(t, s, binding, creds, to...)) {
		t.Error("encrypted twice, the same bytes came out")
	}
	same := func(s *Signer, file []byte, b Binding, secret Secret, to []string) bool {
		_, same := s.Compare(file, b, secret, to)
		return same
	}
	if !same(s, file, binding, creds, []string{to[1], to[0]}) {
		t.Error("the same Secret is taken for another")
	}
	rotated := creds
	rotated.Data = maps.Clone(creds.Data)
	rotated.Data["password"] = []byte("another")
	less := creds
	less.Data = map[string][]byte{"password": creds.Data["password"]}
	typed := creds
	typed.Type = corev1.SecretTypeBasicAuth
	reborn := binding
	reborn.UID = "7b2d"
	for name, same := range map[string]bool{
		"a rotated value":   same(s, file, binding, rotated, to),
		"a key less":        same(s, file, binding, less, to),
		"another type":      same(s, file, binding, typed, to),
		"another claim":     same(s, file, reborn, creds, to),
		"a recipient less":  same(s, file, binding, creds, to[:1]),
		"another bridge":    same(newSigner(t), file, binding, creds, to),
		"an altered digest": same(s, bytes.Replace(file, []byte("digest: "), []byte("digest: x"), 1), binding, creds, to),
	} {
		if same {
			t.Errorf("%s is taken for unchanged", name)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	t.Parallel()
	s, to := newSigner(t), newIdentity(t).Recipients()
	large := Secret{Name: "large", Data: map[string][]byte{"blob": make([]byte, 800<<10)}}
	for name, c := range map[string]struct {
		secret Secret
		to     []string
		says   string
	}{
		"nobody":       {creds, nil, "nobody"},
		"no recipient": {creds, []string{"age1geheim\n"}, `"age1geheim\n" is no recipient`},
		"too large":    {large, to, "too large"},
	} {
		if _, err := s.Seal(binding, c.secret, c.to, 1); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v, want %q", name, err, c.says)
		}
	}
}

func TestKeysAreRefusedWithoutBeingRepeated(t *testing.T) {
	t.Parallel()
	text, _, err := GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"", "# nothing\n", text[:40], strings.ToLower(text), text + "\n" + text[1:]} {
		_, err := ParseIdentities([]byte(file))
		if err == nil {
			t.Errorf("taken: %q", file)
		} else if len(file) > 20 && strings.Contains(err.Error(), file[5:20]) {
			t.Errorf("the error repeats the key: %s", err)
		}
	}
	if _, err := NewSigner(make([]byte, 31)); err == nil {
		t.Error("a seed of 31 bytes was taken")
	}
}

// Any Secret comes out as it went in, and any changed byte is refused.
func TestSealedProperties(t *testing.T) {
	t.Parallel()
	s, ids := newSigner(t), newIdentity(t)
	o := &Opener{Cluster: "k3x9", Keys: []string{s.Public()}, Identities: ids}
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.MapOfN(rapid.StringMatching(`[-._a-zA-Z0-9]{1,20}`), rapid.SliceOf(rapid.Byte()), 1, 5).Draw(t, "data")
		secret := Secret{Name: creds.Name, Type: corev1.SecretType(rapid.SampledFrom([]string{"", "Opaque", "connection.crossplane.io/v1alpha1"}).Draw(t, "type")), Data: data}
		file, err := s.Seal(binding, secret, ids.Recipients(), rapid.Int64Min(0).Draw(t, "sequence"))
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := o.Open(path, file)
		if err != nil {
			t.Fatal(err)
		}
		_, same := s.Compare(file, binding, got, ids.Recipients())
		if got.Type != secret.Type || !maps.EqualFunc(got.Data, secret.Data, bytes.Equal) || !same {
			t.Fatalf("sealed %v, opened %v", secret, got)
		}
		at := rapid.IntRange(0, len(file)-1).Draw(t, "at")
		altered := bytes.Clone(file)
		altered[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, _, err := o.Open(path, altered); err == nil {
			t.Fatalf("taken with byte %d altered", at)
		}
	})
}

func FuzzOpen(f *testing.F) {
	signer, ids := newSigner(f), newIdentity(f)
	file := seal(f, signer, binding, creds, ids.Recipients()[0])
	f.Add(file)
	f.Add(bodyOf(f, file))
	f.Add([]byte("signature: :\n"))
	f.Add([]byte("x\nsignature: " + signer.Public() + ":\n"))
	// Each process that takes part has a bridge of its own, which signed nothing of
	// what it is given.
	bridge := newSigner(f)
	o := &Opener{Cluster: "k3x9", Keys: []string{bridge.Public()}, Identities: ids}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, _, err := o.Open(path, data); err == nil {
			t.Errorf("something that nobody signed was taken: %q", data)
		}
		// What the bridge signs is read, whatever it is.
		_, _, _ = o.Open(path, contract.AppendSignature(data, bridge.Sign(purpose, data)))
	})
}

// A person with the key reads the file with the stock age program, as
// docs/using.md says.
func TestTheStockProgramReadsTheFile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program")
	}
	dir := t.TempDir()
	// A module of its own: the program needs more than the library.
	build := exec.CommandContext(t.Context(), "go", "install", "filippo.io/age/cmd/age@v1.3.2")
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build age: %v\n%s", err, out)
	}
	text, recipient, err := GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	file := seal(t, newSigner(t), binding, creds, recipient)
	for name, content := range map[string][]byte{"key.txt": []byte(text + "\n"), "orders-creds.yaml": file} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const command = `sed -n '/BEGIN AGE/,/END AGE/s/^ *//p' orders-creds.yaml | ./age --decrypt --identity key.txt`
	read := exec.CommandContext(t.Context(), "sh", "-c", command)
	read.Dir = dir
	out, err := read.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if !bytes.Contains(out, []byte("kind: Secret")) || !bytes.Contains(out, []byte("name: orders-creds")) {
		t.Errorf("it gives %s", out)
	}
}
