package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

func TestOnlyTheBridgeCutsHistoryAndOnlyThatOfStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, user := contract.Identity("oidc:alice@example.com", cluster)
	_, bridge := contract.BridgeIdentity()
	konnector := s.agent(t, access.Konnector, "konnector-"+cluster)
	gitbridge := s.agent(t, access.Bridge, "bridge-"+cluster)
	owner := s.agent(t, access.Owner, "owner-"+cluster)

	main, err := konnector.Branch("main").Update(t.Context(), put(user, claimPath, "plan: small\n"))
	if err != nil {
		t.Fatal(err)
	}
	proposed, err := konnector.Branch("changes/b/x").UpdateFrom(t.Context(), main, put(user, claimPath, "plan: large\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := gitbridge.Branch("status").Update(t.Context(), put(bridge, claimPath, fmt.Sprint("ready: ", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		branch store.Branch
		email  string
	}{
		{"the konnector cuts main", konnector.Branch("main"), user},
		{"the konnector cuts status", konnector.Branch("status"), user},
		{"the konnector cuts a proposal", konnector.Branch("changes/b/x"), user},
		{"the bridge cuts main", gitbridge.Branch("main"), bridge},
		{"the owner cuts main", owner.Branch("main"), "alice@example.com"},
		{"the owner cuts status", owner.Branch("status"), "alice@example.com"},
	} {
		if _, err := c.branch.Cut(t.Context(), put(c.email, claimPath, "x\n")); !errors.Is(err, store.ErrRejected) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	cut, err := gitbridge.Branch("status").Cut(t.Context(), put(bridge, claimPath, "ready: 4"))
	if err != nil {
		t.Fatal(err)
	}
	heads, err := s.Heads(t.Context(), cluster)
	want := []restapi.RefEvent{
		{Ref: "refs/heads/changes/b/x", Hash: string(proposed.Head())}, {Ref: mainRef, Hash: string(main.Head())}, {Ref: statusRef, Hash: string(cut.Head())},
	}
	if err != nil || !slices.Equal(heads, want) {
		t.Errorf("heads %v, %v", heads, err)
	}
	s.fsck(t)
}

// A status history that was cut leaves the disk, after the two weeks in which a
// person may want it back, and nothing that a branch reaches goes with it.
func TestTheRepositoryShrinksAfterACut(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, bridge := contract.BridgeIdentity()
	status := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("status")
	const commits = 40
	for i := range commits {
		if _, err := status.Update(t.Context(), put(bridge, claimPath, strings.Repeat(fmt.Sprintf("ready: %d\n", i*i), 100))); err != nil {
			t.Fatal(err)
		}
	}
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := status.Cut(t.Context(), put(bridge, "observed.yaml", "sequence: 41\n"))
	if err != nil {
		t.Fatal(err)
	}
	before := s.objects(t)
	s.repackOne(t.Context(), repo)
	if n := s.objects(t); n != before {
		t.Errorf("%d objects of %d are left on the same day", n, before)
	}
	// Days go by, with repacks of what is new, which must not make the old
	// history look new.
	today := time.Now()
	for day := range 2 {
		s.now = func() time.Time { return today.Add(time.Duration(day*25) * time.Hour) }
		for i := range 5 {
			if _, err := status.Update(t.Context(), put(bridge, "bindings/b/claims/ns/y.yaml", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		s.repackOne(t.Context(), repo)
	}
	s.now = func() time.Time { return today.Add(15 * 24 * time.Hour) }
	s.repackOne(t.Context(), repo)
	if n := s.objects(t); n > before-commits*3 {
		t.Errorf("%d objects of %d are left after two weeks", n, before)
	}
	s.fsck(t)
	snap, err := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("status").Fetch(t.Context())
	if err != nil || snap.Files() != 3 || snap.Head() == cut.Head() {
		t.Errorf("%d files, %v", snap.Files(), err)
	}
}

// objects is how many the repository has.
func (s *served) objects(t *testing.T) int {
	t.Helper()
	out, err := stockGit(t, s.bare(), nil, "cat-file", "--batch-all-objects", "--batch-check")
	if err != nil {
		t.Fatal(out)
	}
	return strings.Count(out, "\n")
}

// The schedule is what starts it, not a test.
func TestPushesStartTheRepackThatCollects(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.RepackAfter = 10 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	_, bridge := contract.BridgeIdentity()
	status := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("status")
	deadline := time.Now().Add(2 * time.Minute)
	collected := false
	for i := 0; !collected; i++ {
		if time.Now().After(deadline) {
			t.Fatal("nothing was collected")
		}
		if _, err := status.Update(t.Context(), put(bridge, claimPath, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(s.bare(), "gitbind-collected"))
		collected = err == nil
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.fsck(t)
}
