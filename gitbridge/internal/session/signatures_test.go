package session_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/internal/session"
	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
)

// signer is a key of a letter.
func signer(t *testing.T, letter string) *signing.Signer {
	t.Helper()
	s, err := signing.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte(letter), ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signed are sessions for which only some keys count.
func (w *world) signed(counting ...*signing.Signer) *run {
	w.Helper()
	last, _ := w.lastSaved()
	return w.startWith(session.Options{Checkpoint: last, Counts: func(key signing.Key, at time.Time) bool {
		return !at.IsZero() && slices.ContainsFunc(counting, func(s *signing.Signer) bool { return s.Key() == key })
	}})
}

// as signs the commits from now on; with nil they are not signed.
func (w *world) as(s *signing.Signer) {
	w.remote.Signer = s
	w.people = w.remote.Branch("main")
}

func TestAMainIsAppliedWhenWhoCountsHasSignedIt(t *testing.T) {
	w := newWorld(t)
	konnector, stranger := signer(t, "k"), signer(t, "s")
	r := w.signed(konnector)
	// What the Git host began with asks for nothing.
	r.follows()
	w.as(konnector)
	w.commit("Add", map[string]string{path("a"): "1"})
	w.commit("Change", map[string]string{path("a"): "2"})
	r.follows()
	good := w.remote.Head("main")

	for what, by := range map[string]*signing.Signer{"nobody": nil, "a stranger": stranger} {
		t.Run("a commit of "+what, func(t *testing.T) {
			defer func() {
				w.remote.ForceHead("main", good)
				r.follows()
			}()
			w.as(by)
			bad := w.commit("Harm", map[string]string{path("b"): "1"})
			r.wantHeld("MainUnsigned")
			if v := r.View(); v.Main.Head() != good {
				t.Errorf("main counts at %s", v.Main.Head())
			}
			if c := r.Condition(); !strings.Contains(c.Message, bad.Short()) || !strings.Contains(c.Message, "approve --main "+string(bad)) {
				t.Errorf("message %q", c.Message)
			}
			t.Run("under one that is signed", func(t *testing.T) {
				w.as(konnector)
				head := w.commit("Change", map[string]string{path("a"): "3"})
				r.wantHeld("MainUnsigned")
				w.eventually("it names the one below", func() bool {
					c := r.Condition()
					return strings.Contains(c.Message, bad.Short()) && strings.Contains(c.Message, "approve --main "+string(head))
				})
			})
		})
	}
}

// A host that was taken over makes main what the konnector has proposed, or kept of a conflict.
func TestWhatWasOnlyProposedIsNotAppliedWhereTheHostMovesMainThere(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"changes/x", "conflicts/x"} {
		t.Run(branch, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			konnector := signer(t, "k")
			r := w.signed(konnector)
			r.follows()
			w.as(konnector)
			w.commit("Add", map[string]string{path("a"): "1"})
			r.follows()
			main, err := w.people.Fetch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			proposed, err := w.remote.Branch(branch).UpdateFrom(t.Context(), main, store.Edit{
				Subject: "Change", Apply: func(t *store.Tree) error { return t.Write(path("a"), []byte("2")) },
			})
			if err != nil {
				t.Fatal(err)
			}
			w.remote.ForceHead("main", proposed.Head())
			r.wantHeld("MainUnsigned")
			if v := r.View(); v.Main.Head() != main.Head() {
				t.Errorf("main counts at %s", v.Main.Head())
			}
		})
	}
}

func TestE11_WhatIsNotSignedWaitsForAnApproval(t *testing.T) {
	w := newWorld(t)
	konnector := signer(t, "k")
	r := w.signed(konnector)
	r.follows()
	bad := w.commit("Add", map[string]string{path("a"): "1"})
	r.wantHeld("MainUnsigned")
	r.stop()
	r = w.signed(konnector)
	r.wantHeld("MainUnsigned")
	if err := r.Approve(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	r.follows()
	w.as(konnector)
	w.commit("Change", map[string]string{path("a"): "2"})
	r.follows()
}

func TestAFirstMainWithClaimsIsSignedFromItsRoot(t *testing.T) {
	w := newWorld(t)
	konnector := signer(t, "k")
	w.as(konnector)
	w.commit("Add", map[string]string{path("a"): "1"})
	r := w.signed(konnector)
	r.wantHeld("MainUnsigned")
	commits, _, err := w.remote.Branch("main").Log(t.Context(), "", w.remote.Head("main"))
	if err != nil {
		t.Fatal(err)
	}
	root := commits[len(commits)-1].Hash
	if c := r.Condition(); !strings.Contains(c.Message, root.Short()) {
		t.Errorf("message %q, want the root %s", c.Message, root)
	}
	// Whose signatures count may become known later.
	r.stop()
	last, _ := w.lastSaved()
	r = w.startWith(session.Options{Checkpoint: last, Counts: func(signing.Key, time.Time) bool { return true }})
	r.follows()
}

func TestAKeyThatCountsNoLongerHoldsWhatComesAfter(t *testing.T) {
	w := newWorld(t)
	old, new := signer(t, "o"), signer(t, "n")
	w.as(old)
	r := w.signed(old)
	r.follows()
	w.commit("Add", map[string]string{path("a"): "1"})
	r.follows()
	r.stop()
	// What was accepted stays so.
	r = w.signed(new)
	r.follows()
	w.as(new)
	w.commit("Change", map[string]string{path("a"): "2"})
	r.follows()
	w.as(old)
	w.commit("Change", map[string]string{path("a"): "3"})
	r.wantHeld("MainUnsigned")
}

// withholding is a branch of a host that does not show a commit.
type withholding struct {
	store.Branch
	commit store.Hash
}

func (b withholding) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	commits, descends, err := b.Branch.Log(ctx, since, to)
	return slices.DeleteFunc(commits, func(c store.Commit) bool { return c.Hash == b.commit }), descends, err
}

func TestACommitThatTheHostWithholdsIsNotSigned(t *testing.T) {
	w := newWorld(t)
	konnector := signer(t, "k")
	bad := w.commit("Harm", map[string]string{path("a"): "1"})
	w.as(konnector)
	w.commit("Add", map[string]string{path("b"): "1"})
	r := w.startOn(session.Options{
		Counts: func(key signing.Key, _ time.Time) bool { return key == konnector.Key() },
	}, withholding{w.remote.Branch("main"), bad})
	r.wantHeld("MainUnsigned")
}
