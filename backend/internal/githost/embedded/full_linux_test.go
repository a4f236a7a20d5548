package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// smallDisk is a file system of some bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("needs the right to mount a small file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The disk runs full: what is pushed is refused in words, what is there stays
// whole, and once there is room the same push goes through. First the host sees
// it coming; then it does not, and git runs into it.
func TestD15_ADiskThatIsFullRefusesAPushInWordsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reserve int64
		words   string
	}{
		{"the host looks first", 1 << 20, "disk of the Git host is full"},
		{"git runs into it", -1 << 40, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t, 16<<20)
			s := serve(t, func(cfg *Config) { cfg.Dir = dir })
			s.reserve = c.reserve
			_, user := contract.Identity("oidc:alice@example.com", cluster)
			main := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
			before, err := main.Update(t.Context(), put(user, claimPath, "plan: small\n"))
			if err != nil {
				t.Fatal(err)
			}
			free, err := s.Free()
			if err != nil || free <= 0 || free >= 16<<20 {
				t.Fatalf("%d bytes are free, %v", free, err)
			}
			ballast := filepath.Join(dir, "ballast")
			if err := os.WriteFile(ballast, make([]byte, free-400_000), 0o600); err != nil {
				t.Fatal(err)
			}
			if free, err = s.Free(); err != nil || free > 400_000 {
				t.Fatalf("%d bytes are free, %v", free, err)
			}

			content := incompressible(900_000)
			_, err = main.Update(t.Context(), put(user, claimPath, content))
			if notTaken := (*store.NotTakenError)(nil); !errors.As(err, &notTaken) || !strings.Contains(notTaken.Reason, c.words) {
				t.Errorf("a push to a full disk: %v", err)
			}
			t.Logf("the agent says: %v", err)
			person := s.clone(t, access.Owner)
			person.commit("large", map[string]string{"bindings/b/claims/ns/large.yaml": content})
			person.refused(c.words, "HEAD:main")
			// Reading goes on.
			seen, err := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("main").Fetch(t.Context())
			if err != nil || seen.Head() != before.Head() {
				t.Errorf("at %s, %v", seen.Head(), err)
			}
			s.fsck(t)

			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			after, err := main.Update(t.Context(), put(user, claimPath, content))
			if err != nil {
				t.Fatalf("with room again: %v", err)
			}
			if parents := after.Commit().Parents; len(parents) != 1 || parents[0] != before.Head() {
				t.Errorf("it stands on %v", parents)
			}
			s.fsck(t)
			if left, _ := filepath.Glob(filepath.Join(s.bare(), "objects", "*quarantine*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// A disk with an error is read-only from then on.
func TestADiskThatCannotBeWrittenIsReadFrom(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 16<<20)
	s := serve(t, func(cfg *Config) { cfg.Dir = dir })
	s.reserve = 1 << 20
	person := s.clone(t, access.Owner)
	person.commit("next", map[string]string{"x": "x\n"})
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, syscall.EROFS) {
		t.Errorf("it is ready to be pushed to: %v", err)
	}
	person.refused("remote rejected", "HEAD:main")
	s.clone(t, access.Owner) // by git
	if _, err := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("main").Fetch(t.Context()); err != nil {
		t.Errorf("a fetch: %v", err)
	}
	if _, err := s.Heads(t.Context(), cluster); err != nil {
		t.Errorf("what events begin with: %v", err)
	}
}
