package embedded

import (
	"fmt"
	"path/filepath"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

// docs/operating.md has a repository mirrored while the host works, and docs/recovery.md has
// that pushed to the folder of an empty one.
func TestAMirrorThatIsMadeWhileTheHostWorksIsRestored(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, user := contract.Identity("oidc:alice@example.com", cluster)
	main := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
	if _, err := main.Update(t.Context(), put(user, claimPath, "plan: small\n")); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	pushed := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 10 && err == nil; i++ {
			_, err = main.Update(t.Context(), put(user, claimPath, fmt.Sprintf("plan: small-%d\n", i)))
		}
		pushed <- err
	}()
	if out, err := stockGit(t, "", nil, "-c", "protocol.ext.allow=always", "clone", "--quiet", "--mirror", "ext::git %s "+s.bare(), backup); err != nil {
		t.Fatalf("mirror: %v\n%s", err, out)
	}
	if err := <-pushed; err != nil {
		t.Fatal(err)
	}

	restored := serve(t)
	for _, args := range [][]string{
		{"-C", backup, "-c", "protocol.ext.allow=always", "push", "ext::git %s " + restored.bare(), "+refs/*:refs/*"},
		{"-C", restored.bare(), "fsck", "--full", "--strict"},
	} {
		if out, err := stockGit(t, "", nil, args...); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	seen, err := restored.agent(t, access.Bridge, "bridge-"+cluster).Branch("main").Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stockGit(t, s.bare(), nil, "merge-base", "--is-ancestor", string(seen.Head()), "main"); err != nil {
		t.Errorf("main of the backup, %s, is none that there was: %v", seen.Head(), err)
	}
	other := restored.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
	if _, err := other.Update(t.Context(), put(user, claimPath, "plan: large\n")); err != nil {
		t.Errorf("the konnector goes on: %v", err)
	}
}
