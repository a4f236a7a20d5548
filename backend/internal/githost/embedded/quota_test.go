package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

func TestH4_ARepositoryHasAQuotaOfBytesAndTheAgentsAReserve(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *Config) { cfg.MaxBytes = 1 << 20 })
	person := s.clone(t, access.Owner)
	person.commit("half", map[string]string{"half": incompressible(900_000)})
	person.commit("another half", map[string]string{"more": incompressible(900_000)})
	person.refused("the owner may fill 0.5 MiB: ask the platform's operator for more room", "HEAD:main")
	person.git("reset", "-q", "--hard", "HEAD^^")

	_, user := contract.Identity("oidc:alice@example.com", cluster)
	main := s.agent(t, access.Konnector, "konnector-"+cluster).Branch("main")
	large := incompressible(900_000)
	if _, err := main.Update(t.Context(), put(user, claimPath, large)); err != nil {
		t.Fatalf("the konnector, where people may not any more: %v", err)
	}
	if _, err := main.Update(t.Context(), put(user, claimPath, incompressible(900_000))); err == nil || errors.Is(err, store.ErrRejected) {
		t.Errorf("beyond the konnector's part: %v, want trouble that may pass", err)
	}
	_, bridge := contract.BridgeIdentity()
	status := s.agent(t, access.Bridge, "bridge-"+cluster).Branch("status")
	if _, err := status.Update(t.Context(), put(bridge, "observed.yaml", incompressible(900_000))); err != nil {
		t.Errorf("the bridge: %v", err)
	}
	if _, err := status.Update(t.Context(), put(bridge, "observed.yaml", incompressible(900_000))); err == nil {
		t.Error("the bridge fills the disk")
	}

	// The operator gives more room, and what was refused goes through.
	s.cfg.MaxBytes = 16 << 20
	if _, err := main.Update(t.Context(), put(user, claimPath, incompressible(900_000))); err != nil {
		t.Errorf("with more room: %v", err)
	}
	s.fsck(t)
}

// What is said of a change is written again with each word that is added.
func TestH4_WhatReviewsWriteCountsTowardsTheQuotaAndARepack(t *testing.T) {
	t.Parallel()
	s, c := propose(t, func(cfg *Config) { cfg.MaxBytes, cfg.RepackAfter = 1<<20, 12 })
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	head := s.look(t).Head
	said := 0
	for ; err == nil && said < githost.MaxEvents; said++ {
		e := githost.Event{Kind: githost.EventCommented, By: bob, At: reviewed, Message: incompressible(githost.MaxMessage - 64)}
		err = s.Record(t.Context(), cluster, proposed, head, e)
	}
	if !errors.Is(err, githost.ErrFull) || !strings.Contains(err.Error(), "quota is used up") || said < 5 {
		t.Errorf("after %d comments: %v", said, err)
	}
	if size := repo.measure(); size > 1<<19 {
		t.Errorf("the repository has %d bytes, people may fill %d", size, 1<<19)
	}
	if repo.pushes.Load() < s.cfg.RepackAfter {
		t.Errorf("no repack after %d comments", said)
	}

	// A push without objects is recorded beside what was said.
	c.refused("the owner may fill 0.5 MiB", head+":refs/heads/changes/db/team-a/again")
	if _, err := s.approve(t, s.look(t)); !errors.Is(err, githost.ErrFull) {
		t.Errorf("a merge: %v", err)
	}
	s.cfg.MaxBytes = 16 << 20
	c.pushed(head + ":refs/heads/changes/db/team-a/again")
	s.fsck(t)
}

func TestH4_APushThatGitRefusesCountsWhatWasRecordedOfIt(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	size, pushes := repo.measure(), repo.pushes.Load()
	// A branch cannot be within another one.
	c.refused("failed to push", "HEAD:refs/heads/"+proposed+"/within")
	if got := repo.size.Load(); got <= size || got < repo.measure() {
		t.Errorf("the repository counts as %d bytes, it had %d and has %d", got, size, repo.measure())
	}
	if got := repo.pushes.Load(); got <= pushes {
		t.Errorf("%d pushes count, as before", got)
	}
}

func TestH4_ARepositoryHasAQuotaOfBranches(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *Config) { cfg.MaxRefs = 8 })
	person := s.clone(t, access.Owner)
	push := func(c *clone, from, to int) []string {
		args := []string{}
		for i := from; i <= to; i++ {
			args = append(args, fmt.Sprintf("HEAD:refs/heads/changes/%s-%d", c.role, i))
		}
		return args
	}
	const words = "delete branches whose commits main has"
	person.refused("more than 4 branches, which is what the owner may make: "+words, push(person, 1, 4)...)
	person.pushed(push(person, 1, 3)...)
	person.refused(words, push(person, 4, 4)...)
	person.commit("main goes on", map[string]string{"x": "x\n"})
	person.pushed("HEAD:main")

	konnector := s.clone(t, access.Konnector)
	konnector.pushed(push(konnector, 1, 2)...)
	konnector.refused("more than 6 branches, which is what the konnector may make", push(konnector, 3, 3)...)
	bridge := s.clone(t, access.Bridge)
	bridge.git("checkout", "-q", "--orphan", "status")
	bridge.commit("status", map[string]string{"observed.yaml": "1\n"})
	bridge.pushed("HEAD:status")
	person.pushed(":changes/owner-1", ":changes/owner-2", ":changes/owner-3")
}

func TestH4_ListenersAreToldOfABoundedNumberOfBranchesAndAlwaysOfMainAndStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	person := s.clone(t, access.Owner)
	args := []string{}
	for i := range 50 {
		args = append(args, fmt.Sprintf("HEAD:refs/heads/changes/%d", i))
	}
	person.pushed(args...)
	s.cfg.MaxRefs = 10
	heads, err := s.Heads(t.Context(), cluster)
	if err != nil || len(heads) != 11 || heads[10].Ref != mainRef {
		t.Errorf("%d: %v, %v", len(heads), heads, err)
	}
}

// incompressible is content that takes its size on the disk.
func incompressible(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "# %x%x\n", rand.Uint64(), rand.Uint64())
	}
	return b.String()
}
