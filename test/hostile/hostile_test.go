package hostile

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	AttackIfAsked()
	os.Exit(m.Run())
}

// TestHostileTenantsEndNobodysProcess is `make hostile` in short: the times that it
// measures are told, and not judged.
func TestHostileTenantsEndNobodysProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real API servers: not with -short")
	}
	o := Options{Hostile: 6, Claims: 30, Seed: 3, Out: t.Output()}
	if g, err := newMemoryGroup("probe", 0, 1<<30); err != nil {
		t.Logf("memory is not limited here: %v", err)
	} else {
		o.BackendMemory, o.BridgeMemory = 1<<30, 768<<20
		if err := g.remove(); err != nil {
			t.Error(err)
		}
	}
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if err := report.Err(math.Inf(1)); err != nil {
		t.Error(err)
	}
}

// What the attacks send is what git itself takes for objects, so that it is refused
// for what it does.
func TestAttacksAreObjectsOfGit(t *testing.T) {
	t.Parallel()
	for _, a := range attacks() {
		if strings.HasPrefix(a.name, "H3") {
			continue // git would build it
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "r.git")
			run := func(stdin string, args ...string) string {
				cmd := exec.Command("git", args...)
				cmd.Stdin = strings.NewReader(stdin)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("git %v: %v: %s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run("", "init", "-q", "--bare", dir)
			readme := run("what this is", "-C", dir, "hash-object", "-w", "--stdin")
			root := run("100644 blob "+readme+"\tREADME.md\n", "-C", dir, "mktree")
			head := run("", "-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit-tree", "-m", "one", root)
			p := a.make(target{head: head, root: [][2]string{{"100644 README.md", readme}}, email: "konnector@example.org"})
			run(string(p.pack), "-C", dir, "index-pack", "--stdin", "--strict")
			for _, u := range p.updates[:min(len(p.updates), 10)] {
				run("", "-C", dir, "update-ref", u.ref, u.to)
			}
		})
	}
}
