package signing

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

// key is one of a letter.
func key(t *testing.T, letter string) *Signer {
	t.Helper()
	s, err := NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte(letter), ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhoSignedACommit(t *testing.T) {
	const commit = "tree x\n\nmessage\n"
	alice, bob := key(t, "a"), key(t, "b")
	signature := alice.Sign([]byte(commit))
	if !strings.HasPrefix(signature, "-----BEGIN SSH SIGNATURE-----\n") {
		t.Errorf("signature:\n%s", signature)
	}
	for what, c := range map[string]struct {
		commit, signature string
		want              Key
	}{
		"as it was signed":     {commit, signature, alice.Key()},
		"somebody else's":      {commit, bob.Sign([]byte(commit)), bob.Key()},
		"another commit":       {commit + " ", signature, ""},
		"no signature":         {commit, "", ""},
		"one of GPG":           {commit, "-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n", ""},
		"one that is too long": {commit, signature + strings.Repeat("\n", maxSignature), ""},
		"cut":                  {commit, signature[:len(signature)/2], ""},
	} {
		if got := SignedBy([]byte(c.commit), c.signature); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	public := base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("a"), ed25519.SeedSize)).Public().(ed25519.PublicKey))
	if got, err := Ed25519Key(public); err != nil || got != alice.Key() {
		t.Errorf("the key of %s: %q, %v, want %q", public, got, err, alice.Key())
	}
	for _, public := range []string{"", "x", public[:8], public + "AAAA"} {
		if got, err := Ed25519Key(public); err == nil {
			t.Errorf("%q is the key %q", public, got)
		}
	}
}

func TestAllowedSigners(t *testing.T) {
	alice, bob, carol := key(t, "a").Key(), key(t, "b").Key(), key(t, "c").Key()
	all, err := ParseAllowedSigners("# the platform\n\n" +
		"alice@example.com " + string(alice) + " her laptop\n" +
		`*@example.com namespaces="file,git",valid-after="20260101",valid-before="202607011200Z" ` + string(bob) + "\n" +
		`carol@example.com namespaces="file" ` + string(carol) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		key  Key
		at   string
		want bool
	}{
		{alice, "2026-11-01T00:00:00Z", true},
		{bob, "2025-12-31T23:59:59Z", false},
		{bob, "2026-01-01T00:00:00Z", true},
		{bob, "2026-07-01T11:59:59Z", true},
		{bob, "2026-07-01T12:00:00Z", false},
		{carol, "2026-11-01T00:00:00Z", false},
		{"", "2026-11-01T00:00:00Z", false},
	} {
		if got := all.Allows(c.key, at(c.at)); got != c.want {
			t.Errorf("%s at %s: %v", c.key, c.at, got)
		}
	}
	for namespaces, want := range map[string]int{"*": 1, "file,gi?": 1, "git,file*": 1, "file@*": 0, "git,!git": 0, "*,!file": 1, "g[i]t": 0, "GIT": 0} {
		keys, err := ParseAllowedSigners(fmt.Sprintf("a namespaces=%q %s", namespaces, alice))
		if err != nil || len(keys) != want {
			t.Errorf("namespaces %s: %d keys, %v", namespaces, len(keys), err)
		}
	}
	for text, words := range map[string]string{
		"alice@example.com":                          "line 1",
		"\nalice@example.com ssh-ed25519 AAAA":       "line 2",
		"a cert-authority " + string(alice):          "cert-authority is not understood",
		`a valid-before="tomorrow" ` + string(alice): "is no time",
		`a valid-before="20261340" ` + string(alice): "is no time",
		string(alice): "want principals",
		"a " + strings.Replace(string(alice), "AAAA", "AAAB", 1): "line 1",
	} {
		if _, err := ParseAllowedSigners(text); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %q", text, err, words)
		}
	}
}

func FuzzParseAllowedSigners(f *testing.F) {
	f.Add(`alice@example.com namespaces="git",valid-before="20260101" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseAllowedSigners(text)
		for _, a := range all {
			if err != nil || !strings.Contains(string(a.Key), " ") {
				t.Errorf("%+v, %v", a, err)
			}
		}
	})
}

// BenchmarkCommit is what a commit costs its writer (Sign), and those who read
// signatures (SignedBy).
func BenchmarkCommit(b *testing.B) {
	signer, err := NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("k"), ed25519.SeedSize)))
	if err != nil {
		b.Fatal(err)
	}
	commit := bytes.Repeat([]byte("x"), 500)
	signature := signer.Sign(commit)
	b.ReportMetric(float64(len(signature)), "bytes")
	b.Run("Sign", func(b *testing.B) {
		for b.Loop() {
			signer.Sign(commit)
		}
	})
	b.Run("SignedBy", func(b *testing.B) {
		for b.Loop() {
			SignedBy(commit, signature)
		}
	})
}
