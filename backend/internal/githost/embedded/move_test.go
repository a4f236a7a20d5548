package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/contract"
	testhost "gitbind.dev/test/githost"
)

// elsewhere is git's own http-backend.
type another struct{ *testhost.Host }

func (e another) Remote(_ context.Context, id string) (url, username, password string, err error) {
	return e.URL(id), "gitbind", "secret", nil
}

func (e another) Changes(context.Context, string) (map[string]string, error) { return nil, nil }

// branches are those of a repository on the disk.
func branches(t *testing.T, dir string) string {
	t.Helper()
	out, err := stockGit(t, dir, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// moving is a repository of a Host's own, and the same Host with another one to which it moves.
func moving(t *testing.T) (*served, another, func(another) *Host) {
	t.Helper()
	from := serve(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/larger", "HEAD:refs/heads/changes/pull-requests.example.com/team-a/7")
	to := another{testhost.New(t)}
	to.Create(cluster, "secret")
	return from, to, func(to another) *Host {
		host := newHost(t, Config{Dir: from.git.dir, Authenticator: passwords{}, Upstream: to})
		return host
	}
}

func TestE14_ARepositoryMovesToAHostElsewhereAndOn(t *testing.T) {
	from, to, with := moving(t)
	here := branches(t, from.bare())
	host := with(to)
	// A look before the move finds nothing there, and leaves what is here.
	if err := host.refresh(t.Context(), cluster, 0); !errors.Is(err, errOfAnotherHost) || branches(t, from.bare()) != here {
		t.Errorf("before the move: %v", err)
	}
	for range 2 { // the second time there is nothing to do
		if moved, err := host.Push(t.Context(), cluster); !moved || err != nil {
			t.Fatalf("%v, %v", moved, err)
		}
		if there := branches(t, to.Dir(cluster)); there != here {
			t.Errorf("there are\n%s\nhere\n%s", there, here)
		}
	}
	if out, err := stockGit(t, to.Dir(cluster), nil, "fsck", "--full", "--strict"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if moved, err := host.Push(t.Context(), "k3x9d2aaaa"); moved || err != nil {
		t.Errorf("one that is not here: %v, %v", moved, err)
	}

	// There it goes on, and the copy with it, whatever people do with main.
	other := t.TempDir()
	for _, args := range [][]string{
		{"clone", "-q", to.Dir(cluster), other},
		{"-C", other, "commit", "-q", "--amend", "--allow-empty", "--message", "Another one"},
		{"-C", other, "push", "-q", "--force", "origin", "HEAD:main"},
	} {
		if out, err := testhost.Command("", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	if err := host.refresh(t.Context(), cluster, 0); err != nil || branches(t, from.bare()) != branches(t, to.Dir(cluster)) {
		t.Errorf("the copy does not follow: %v", err)
	}

	// And back, and on again: what was pushed here meanwhile is what counts.
	if err := from.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	c := from.clone(t, access.Owner)
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:main")
	here = branches(t, from.bare())
	host = with(to)
	if err := host.refresh(t.Context(), cluster, 0); !errors.Is(err, errOfAnotherHost) || branches(t, from.bare()) != here {
		t.Errorf("what was pushed here is overwritten: %v", err)
	}
	next := another{testhost.New(t)}
	next.Create(cluster, "secret")
	for _, to := range []another{to, next} {
		if _, err := with(to).Push(t.Context(), cluster); err != nil || branches(t, to.Dir(cluster)) != here {
			t.Errorf("moved once more: %v", err)
		}
	}
}

// TestE14_WhoPushedAChangeOfAHostElsewhereIsNotKnown has somebody commit there with the konnector's
// address, which is refused here.
func TestE14_WhoPushedAChangeOfAHostElsewhereIsNotKnown(t *testing.T) {
	t.Parallel()
	from, to, with := moving(t)
	c := from.clone(t, access.Owner)
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:refs/heads/changes/recorded")
	host := with(to)
	if _, err := host.Push(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	for _, args := range [][]string{
		{"clone", "-q", to.Dir(cluster), other},
		{"-C", other, "-c", "user.email=dora@" + contract.ClusterDomain(cluster), "commit", "-q", "--allow-empty", "--message", "claim: update"},
		{"-C", other, "push", "-q", "origin", "HEAD:changes/forged"},
	} {
		if out, err := testhost.Command("", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Fatal(err)
	}
	is := func(when, branch string, imported bool) {
		t.Helper()
		if change, err := from.Change(t.Context(), cluster, branch); err != nil || change.Imported != imported {
			t.Errorf("%s, %s: %+v, %v", when, branch, change, err)
		}
	}
	is("as a copy", "changes/forged", true)
	for range 2 {
		if err := from.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		is("after the move", "changes/forged", true)
		is("after the move", "changes/recorded", false)
	}
	c.git("fetch", "-q")
	c.git("checkout", "-q", "origin/changes/forged")
	c.commit("Look at it", map[string]string{copiedFile: "plan: huge\n"})
	c.pushed("HEAD:refs/heads/changes/forged")
	is("after another commit", "changes/forged", false)
}

func TestWhatIsOnTheHostAlreadyIsNotOverwritten(t *testing.T) {
	from, to, with := moving(t)
	here := branches(t, from.bare())
	tree := to.Run(cluster, "hash-object", "-t", "tree", "-w", "/dev/null")
	foreign := to.Run(cluster, "commit-tree", "-m", "Another repository", tree)
	to.Run(cluster, "update-ref", mainRef, foreign)
	there := branches(t, to.Dir(cluster))
	if moved, err := with(to).Push(t.Context(), cluster); !moved || !errors.Is(err, githost.ErrOtherHistory) {
		t.Errorf("%v, %v", moved, err)
	}
	if err := with(to).refresh(t.Context(), cluster, 0); !errors.Is(err, errOfAnotherHost) {
		t.Errorf("the copy: %v", err)
	}
	if branches(t, to.Dir(cluster)) != there || branches(t, from.bare()) != here {
		t.Error("something was overwritten")
	}
}

// TestE14_AMoveThatIsBegunAgainSaysWhatTheRulesThereRefuse has a move that was taken back, and rules
// that let nobody else push to main.
func TestE14_AMoveThatIsBegunAgainSaysWhatTheRulesThereRefuse(t *testing.T) {
	t.Parallel()
	from, to, with := moving(t)
	if _, err := with(to).Push(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(to.Dir(cluster), "hooks", "update")
	if err := errors.Join(os.MkdirAll(filepath.Dir(hook), 0o700), os.WriteFile(hook, []byte("#!/bin/sh\ntest $1 != refs/heads/main\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := from.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	c := from.clone(t, access.Owner)
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/next")
	var refused *githost.MoveRefusedError
	if _, err := with(to).Push(t.Context(), cluster); !errors.As(err, &refused) || !strings.Contains(refused.Words, `"refs/heads/main": "hook declined"`) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	if _, err := with(to).Push(t.Context(), cluster); err != nil || branches(t, to.Dir(cluster)) != branches(t, from.bare()) {
		t.Errorf("without the rules: %v", err)
	}
}

func TestAMoveThatFailedIsMadeAgain(t *testing.T) {
	from, to, with := moving(t)
	to.Run(cluster, "config", "http.receivepack", "false")
	host := with(to)
	if _, err := host.Push(t.Context(), cluster); err == nil {
		t.Fatal("a host that takes no pushes took one")
	}
	to.Run(cluster, "config", "http.receivepack", "true")
	to.Run(cluster, "config", "receive.denyCurrentBranch", "ignore")
	if _, err := host.Push(t.Context(), cluster); err != nil || branches(t, to.Dir(cluster)) != branches(t, from.bare()) {
		t.Errorf("%v", err)
	}

	// Main got there and went on, and a branch did not.
	to.Run(cluster, "update-ref", "-d", "refs/heads/changes/larger")
	other := to.Run(cluster, "commit-tree", "-m", "Next", "-p", "main", "main^{tree}")
	to.Run(cluster, "update-ref", mainRef, other)
	if _, err := host.Push(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if there := branches(t, to.Dir(cluster)); !strings.Contains(there, other+" "+mainRef) || !strings.Contains(there, "changes/larger") {
		t.Errorf("there are\n%s", there)
	}
}
