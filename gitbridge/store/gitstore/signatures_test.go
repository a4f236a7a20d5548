package gitstore_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/storetest"
)

// sshKey makes a key with the stock program.
func (h *host) sshKey(kind string) (file string, key signing.Key) {
	h.t.Helper()
	file = filepath.Join(h.t.TempDir(), kind)
	if out, err := exec.CommandContext(h.t.Context(), "ssh-keygen", "-q", "-N", "", "-C", "", "-t", kind, "-f", file).CombinedOutput(); err != nil {
		h.t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		h.t.Fatal(err)
	}
	return file, signing.Key(strings.TrimSpace(string(public)))
}

// verify is what the stock program says of each commit of a branch that it has a
// signature of: "G" and the principal if it counts.
func (h *host) verify(branch, allowedSigners string) map[store.Hash]string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "allowed_signers")
	h.write(file, allowedSigners, 0o644)
	out := h.git("-c", "gpg.ssh.allowedSignersFile="+file, "log", "--format=%H %G? %GS", branch)
	says := map[store.Hash]string{}
	for line := range strings.Lines(out) {
		hash, verdict, _ := strings.Cut(strings.TrimSpace(line), " ")
		says[store.Hash(hash)] = verdict
	}
	return says
}

func newSigner(t *testing.T) *signing.Signer {
	t.Helper()
	signer, err := signing.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("k"), ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestStockGitVerifiesWhatWeSign(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	signer := newSigner(t)
	signed := h.open(gitstore.Options{URL: h.newURL(), Signer: signer}).Branch("main")
	update(t, signed, storetest.Put("a", "1"))
	e := storetest.Put("a", "2")
	e.Subject = "Ä subject\n\ngpgsig -----BEGIN SSH SIGNATURE-----"
	own := update(t, signed, e)
	if got := own.Commit().SignedBy; got != signer.Key() {
		t.Errorf("what was written is signed by %q", got)
	}
	for hash, verdict := range h.verify("main", signing.AllowedSigner("konnector@example.org", signer.Key())) {
		if verdict != "G konnector@example.org" {
			t.Errorf("commit %s: git says %q", hash, verdict)
		}
	}
	if out := h.git("cat-file", "commit", "main"); !strings.Contains(out, "\ngpgsig -----BEGIN SSH SIGNATURE-----\n ") {
		t.Errorf("commit:\n%s", out)
	}

	reading := h.open(gitstore.Options{URL: h.newURL(), ReadSignatures: true}).Branch("main")
	if got := fetch(t, reading).Commit().SignedBy; got != signer.Key() {
		t.Errorf("the head is signed by %q", got)
	}
	commits, _, err := reading.Log(t.Context(), "", own.Head())
	if err != nil || len(commits) != 2 {
		t.Fatal(commits, err)
	}
	for _, c := range commits {
		if c.SignedBy != signer.Key() {
			t.Errorf("commit %s is signed by %q", c.Hash, c.SignedBy)
		}
	}
	// Somebody changes what it says, and leaves the signature.
	for name, change := range map[string][2]string{"message": {"subject", "object"}, "author": {"\nauthor ", "\nauthor x"}, "signature": {"\ngpgsig ", "\ngpgsig2 "}} {
		forged := h.hashObject("commit", strings.Replace(h.git("cat-file", "commit", "main"), change[0], change[1], 1))
		h.git("update-ref", "refs/heads/"+name, forged)
		if got := fetch(t, h.open(gitstore.Options{URL: h.newURL(), ReadSignatures: true}).Branch(name)); got.Head() != store.Hash(forged) || got.Commit().SignedBy != "" {
			t.Errorf("another %s: %s is signed by %q", name, got.Head(), got.Commit().SignedBy)
		}
		h.git("update-ref", "-d", "refs/heads/"+name)
	}
	h.git("gc", "-q", "--prune=now")

	// Who does not ask is not told.
	if got := fetch(t, h.Branch("main")).Commit().SignedBy; got != "" {
		t.Errorf("the head is signed by %q", got)
	}
}

// A signature says nothing of the branch: on one that proposes or keeps something, it would have that
// ordered by who moves main there.
func TestWhatIsProposedOrKeptIsNotSigned(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	signer := newSigner(t)
	signs := h.open(gitstore.Options{URL: h.newURL(), Signer: signer})
	main := update(t, signs.Branch("main"), storetest.Put("a", "1"))
	for branch, want := range map[string]signing.Key{"main": signer.Key(), "status": signer.Key(), "changes/b/ns/a": "", "conflicts/b/ns/a/1": "", "other": ""} {
		written, err := signs.Branch(branch).UpdateFrom(t.Context(), main, storetest.Put("a", "2"))
		if err != nil {
			t.Fatal(err)
		}
		read := fetch(t, h.open(gitstore.Options{URL: h.newURL(), ReadSignatures: true}).Branch(branch))
		if read.Head() != written.Head() || written.Commit().SignedBy != want || read.Commit().SignedBy != want {
			t.Errorf("%s: written as signed by %q, and read so by %q, want %q", branch, written.Commit().SignedBy, read.Commit().SignedBy, want)
		}
	}
}

// hashObject writes an object as it is.
func (h *host) hashObject(kind, content string) string {
	h.t.Helper()
	cmd := h.gitCommand(h.dir, "hash-object", "-t", kind, "-w", "--stdin")
	cmd.Stdin = strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("git hash-object: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func TestWhatStockGitSignsIsReadAsItReadsIt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	update(t, h.Branch("main"), storetest.Put("a", "1"))
	dir := h.clone()
	allowed, want := "", map[store.Hash]signing.Key{}
	sign := func(file string, key signing.Key, args ...string) {
		t.Helper()
		h.gitIn(dir, append([]string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + file}, args...)...)
		want[store.Hash(strings.TrimSpace(h.gitIn(dir, "rev-parse", "HEAD")))] = key
	}
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		file, key := h.sshKey(kind)
		allowed += kind + " " + string(key) + "\n"
		sign(file, key, "commit", "-q", "-S", "--allow-empty", "-m", "Of "+kind)
		sign(file, key, "commit", "-q", "-S", "--allow-empty", "--allow-empty-message", "-m", "")
		sign(file, key, "-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-S", "--allow-empty", "-m", "Latin \xe4")
		// The commit of a tag that is merged has the tag's signature, too.
		h.gitIn(dir, "checkout", "-q", "-b", kind, "HEAD~")
		h.gitIn(dir, "commit", "-q", "--allow-empty", "-m", "Aside")
		h.gitIn(dir, "-c", "gpg.format=ssh", "-c", "user.signingkey="+file, "tag", "-s", "-m", "tag", "of-"+kind)
		h.gitIn(dir, "checkout", "-q", "main")
		sign(file, key, "merge", "-q", "-S", "--no-ff", "-m", "Merge", "of-"+kind)
	}
	h.gitIn(dir, "push", "-q")
	says := h.verify("main", allowed)
	b := h.open(gitstore.Options{URL: h.newURL(), ReadSignatures: true}).Branch("main")
	commits, _, err := b.Log(t.Context(), "", fetch(t, b).Head())
	if err != nil || len(commits) != len(says) {
		t.Fatalf("%d commits, want %d: %v", len(commits), len(says), err)
	}
	for _, c := range commits {
		if c.SignedBy != want[c.Hash] || (c.SignedBy != "") != strings.HasPrefix(says[c.Hash], "G ") {
			t.Errorf("commit %s is signed by %q, want %q: git says %q", c.Hash, c.SignedBy, want[c.Hash], says[c.Hash])
		}
	}
}
