package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/test/githost"
)

// setSignatures says whose signatures count beside those of a konnector's key.
func (t *tenant) setSignatures(konnector, allowedSigners string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"encryption": map[string]any{"signingKeys": []string{konnector}},
		"signatures": map[string]any{"allowedSigners": allowedSigners},
	}})
	t.must(err)
	t.must(t.admin.Patch(t.Context(), t.clusterBinding(), client.RawPatch(types.MergePatchType, patch)))
}

// synced is the message of the condition Synced.
func (t *tenant) synced() string {
	t.Helper()
	for _, c := range t.clusterBinding().Status.Conditions {
		if c.Type == v1alpha1.ConditionSynced {
			return c.Message
		}
	}
	return ""
}

// reviewer is a person with a clone, and an SSH key that stock git signs with.
type reviewer struct {
	*tenant
	clone, public string
}

func (t *tenant) reviewer() *reviewer {
	t.Helper()
	dir := t.TempDir()
	r := &reviewer{tenant: t, clone: filepath.Join(dir, "clone")}
	key := filepath.Join(dir, "key")
	out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-N", "", "-C", "", "-t", "ed25519", "-f", key).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	t.must(err)
	r.public = strings.TrimSpace(string(public))
	r.git("", "clone", "-q", t.host.dir(t.id), r.clone)
	for _, setting := range [][]string{{"gpg.format", "ssh"}, {"user.signingkey", key}} {
		r.git(r.clone, "config", setting[0], setting[1])
	}
	return r
}

func (r *reviewer) git(dir string, args ...string) string {
	r.Helper()
	out, err := githost.Command(dir, args...).CombinedOutput()
	if err != nil {
		r.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// follow does what a message says, with stock git.
func (r *reviewer) follow(message string) {
	r.Helper()
	r.git(r.clone, "fetch", "-q")
	_, way, _ := strings.Cut(message, "can merge it: ")
	way, _, ok := strings.Cut(way, ". ")
	if !ok {
		r.Fatalf("no commands in %q", message)
	}
	for _, command := range strings.Split(way, ", ") {
		r.git(r.clone, strings.Fields(command)[1:]...)
	}
	r.host.Tell(r.id)
}

func testSignatures(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	t.wantSynced("Following")
	orders := path(apis.postgresql, "team-a", "orders")
	key, err := encryption.ParseSigningKey(encryption.GenerateSigningKey())
	w.must(err)
	signer, err := key.Commits()
	w.must(err)
	signed, err := gitstore.Open(gitstore.Options{URL: w.host.url(t.id), Committer: alice, Credentials: credentials(t.password), Signer: signer})
	w.must(err)
	unsigned, konnector := t.main, signed.Branch("main")
	as := func(main store.Branch) *tenant { t.main = main; return t }
	reviewer := t.reviewer()

	// What cannot be read is said where it was written, and nothing is followed.
	t.setSignatures(key.Public(), "# the platform\nreviewer@example.org ssh-ed25519 AAAA\n")
	t.wantSynced("NotFollowed")
	if m := t.synced(); !strings.Contains(m, "spec.signatures.allowedSigners: line 2") {
		w.Errorf("it says %q", m)
	}
	t.setSignatures(key.Public(), "reviewer@example.org "+reviewer.public)
	t.wantSynced("Following")

	as(konnector).push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantObject(orders, "spec.plan", "postgresql-single-nano")
	bad := as(unsigned).push("Change", map[string]string{orders: manifest(orders, small)})
	t.wantSynced("MainUnsigned")
	if m := t.synced(); !strings.Contains(m, bad) {
		w.Errorf("it says %q", m)
	}
	as(konnector).push("Touch", map[string]string{"README.md": "signed, on what is not"})
	t.eventually("it names the head", func() error {
		if m := t.synced(); !strings.Contains(m, "approve --main "+w.host.head(t.id, "main")) || !strings.Contains(m, bad) {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
	t.wantObject(orders, "spec.plan", "postgresql-single-nano")

	reviewer.follow(t.synced())
	t.wantSynced("Following")
	t.wantObject(orders, "spec.plan", "postgresql-single-small")

	// A key that was revoked counts for nothing that comes now, whatever time it has.
	t.setSignatures(key.Public(), fmt.Sprintf("reviewer@example.org valid-before=%q %s", time.Now().UTC().Add(-time.Minute).Format("20060102150405Z"), reviewer.public))
	t.wantSynced("Following")
	late := githost.Command(reviewer.clone, "commit", "-q", "-S", "--allow-empty", "-m", "Late")
	late.Env = append(late.Env, "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	w.must(late.Run())
	reviewer.git(reviewer.clone, "push", "-q", "origin", "HEAD:main")
	w.host.Tell(t.id)
	t.wantSynced("MainUnsigned")
	t.approve(v1alpha1.ApproveMainAnnotation, w.host.head(t.id, "main"))
	t.wantSynced("Following")
	as(konnector).push("Change", map[string]string{orders: manifest(orders, strings.Replace(small, "small", "big", 1))})
	t.wantObject(orders, "spec.plan", "postgresql-single-big")
}
