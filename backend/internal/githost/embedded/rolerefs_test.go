package embedded

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

func TestRefRule(t *testing.T) {
	t.Parallel()
	var (
		h      = plumbing.NewHash(ones)
		update = func(ref string) command { return command{Ref: ref, Old: h, New: h} }
		remove = func(ref string) command { return command{Ref: ref, Old: h} }
		create = func(ref string) command { return command{Ref: ref, New: h} }
		absent = func(ref string) command { return command{Ref: ref} } // a delete of what does not exist
	)
	for _, c := range []struct {
		command                  command
		konnector, bridge, owner bool
	}{
		{update("refs/heads/main"), true, false, true},
		{update("refs/heads/status"), false, true, false},
		{update("refs/heads/changes/b/ns/n"), true, false, true},
		{update("refs/heads/conflicts/b/ns/n/1"), true, false, true},
		{remove("refs/heads/changes/b/ns/n"), true, false, true},
		{remove("refs/heads/conflicts/b/ns/n/1"), true, false, true},
		{create("refs/heads/status"), false, true, false},
		{create("refs/heads/changes/b/ns/n"), true, false, true},
		{create("refs/heads/changes/dbs.example.com/ns/n"), true, false, true},
		{create("refs/heads/changes/dbs.example.com"), false, false, false},
		{create("refs/heads/changes/dbs.example.com/ns"), false, false, false},
		{create("refs/heads/changes/dbs.example.com/ns/n/x"), false, false, false},
		{update("refs/heads/changes/dbs.example.com/ns"), true, false, true},
		{create("refs/heads/conflicts/dbs.example.com/ns/n/1"), true, false, true},
		{absent("refs/heads/changes/b/ns/n"), false, false, false},
		{absent("refs/heads/main"), false, false, false},
		{absent("refs/heads/status"), false, false, false},
		{remove("refs/heads/main"), false, false, false},
		{remove("refs/heads/status"), false, false, false},
		{update("refs/heads/changes/"), false, false, false},
		{update("refs/heads/changes"), false, false, false},
		{update("refs/heads/Main"), false, false, false},
		{update("refs/heads/main/x"), false, false, false},
		{update("refs/heads/status2"), false, false, false},
		{update("refs/tags/v1"), false, false, false},
		{update("refs/notes/commits"), false, false, false},
		{update("refs/replace/" + ones), false, false, false},
		{update("HEAD"), false, false, false},
		{update("main"), false, false, false},
		{update(""), false, false, false},
	} {
		for role, want := range map[access.Role]bool{access.Konnector: c.konnector, access.Bridge: c.bridge, access.Owner: c.owner} {
			if why := refRule(role, c.command); (why == "") != want {
				t.Errorf("%s, %s, delete=%v: %q, want allowed=%v", role, c.command.Ref, c.command.remove(), why, want)
			}
		}
	}
}

func TestRefRuleSaysWhyARefCannotBePushed(t *testing.T) {
	t.Parallel()
	h := plumbing.NewHash(ones)
	for _, c := range []struct {
		role access.Role
		ref  string
		want string
	}{
		{access.Owner, "refs/tags/v1", "this repository has no tags"},
		{access.Konnector, "refs/tags/v1", "this repository has no tags"},
		{access.Bridge, "refs/tags/v1", "this repository has no tags"},
		{access.Owner, "refs/tagsx/v1", "only the branches main, changes/… and conflicts/…"},
		{access.Owner, "refs/heads/x", "only the branches main, changes/… and conflicts/…"},
		{access.Owner, "refs/heads/changes/", "only the branches main, changes/… and conflicts/…"},
		{access.Owner, statusRef, "only the bridge writes it"},
		{access.Konnector, statusRef, "only the bridge writes it"},
		{access.Bridge, mainRef, "main says what should be"},
		{access.Bridge, changesPrefix + "x", "the bridge writes the branch status and nothing else"},
		{access.Bridge, conflictsPrefix + "x", "the bridge writes the branch status and nothing else"},
	} {
		if why := refRule(c.role, command{Ref: c.ref, Old: h, New: h}); !strings.Contains(why, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.role, c.ref, why, c.want)
		}
	}
}

func TestRefRuleLetsOnlyTheBridgeCutTheHistoryOfStatus(t *testing.T) {
	t.Parallel()
	for _, role := range []access.Role{0, access.Konnector, access.Bridge, access.Owner} {
		for _, ref := range []string{mainRef, statusRef, changesPrefix + "x", conflictsPrefix + "x", "refs/heads/status/x", "status", ""} {
			want := role == access.Bridge && ref == "refs/heads/status"
			if got := mayForce(role, ref); got != want {
				t.Errorf("%s, %q: got %v, want %v", role, ref, got, want)
			}
		}
	}
}

func TestChangeOutsideIsLookedForInPushesOfTheKonnectorOnly(t *testing.T) {
	t.Parallel()
	for role, want := range map[access.Role]bool{access.Konnector: true, access.Bridge: false, access.Owner: false} {
		if got := onlyBindings(role); got != want {
			t.Errorf("%s: got %v, want %v", role, got, want)
		}
	}
}

func TestChangeOutside(t *testing.T) {
	t.Parallel()
	h, i := plumbing.NewHash(ones), plumbing.NewHash(twos)
	tree := func(entries ...treeEntry) []treeEntry { return entries }
	var (
		readme   = treeEntry{"100644", "README.md", h}
		readme2  = treeEntry{"100644", "README.md", i}
		runnable = treeEntry{"100755", "README.md", h}
		dir      = treeEntry{modeDir, bindingsDir, h}
		dir2     = treeEntry{modeDir, bindingsDir, i}
		link     = treeEntry{"120000", bindingsDir, h}
		file     = treeEntry{"100644", bindingsDir, h}
	)
	for _, c := range []struct {
		name          string
		before, after []treeEntry
		want          string
	}{
		{"nothing", tree(readme, dir), tree(readme, dir), ""},
		{"bindings added", tree(readme), tree(readme, dir), ""},
		{"bindings changed", tree(readme, dir), tree(readme, dir2), ""},
		{"bindings removed", tree(readme, dir), tree(readme), ""},
		{"file changed", tree(readme, dir), tree(readme2, dir), "README.md"},
		{"mode changed", tree(readme), tree(runnable), "README.md"},
		{"file removed", tree(readme, dir), tree(dir), "README.md"},
		{"file added", tree(dir), tree(readme, dir), "README.md"},
		{"bindings a link", tree(readme, dir), tree(readme, link), bindingsDir},
		{"bindings a file", tree(readme), tree(readme, file), bindingsDir},
		{"from nothing", nil, tree(dir), ""},
		{"to nothing", tree(readme), nil, "README.md"},
	} {
		if got := changeOutside(differences(c.before, c.after)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestIdentRule(t *testing.T) {
	t.Parallel()
	const when = " 1700000000 +0000"
	konnector := access.Caller{Role: access.Konnector, Cluster: cluster}
	bridge := access.Caller{Role: access.Bridge, Cluster: cluster}
	owner := access.Caller{Role: access.Owner, Cluster: cluster}
	for _, c := range []struct {
		caller access.Caller
		line   string
		ok     bool
	}{
		{konnector, "bob <bob@" + cluster + ".clusters.gitbind.dev>" + when, true},
		{konnector, "oidc:bob@example.com <oidc=3abob=40example.com@" + cluster + ".clusters.gitbind.dev>" + when, true},
		{konnector, "bob <bob@clusters.gitbind.dev>" + when, false},
		{konnector, "bob <bob@x" + cluster + ".clusters.gitbind.dev>" + when, false},
		{konnector, "bob <bob@" + cluster + ".clusters.gitbind.dev.evil.com>" + when, false},
		{konnector, "bob <@" + cluster + ".clusters.gitbind.dev>" + when, false},
		{konnector, "bob@" + cluster + ".clusters.gitbind.dev" + when, false},
		{konnector, "bob <a@b> <bob@" + cluster + ".clusters.gitbind.dev>" + when, false},
		{konnector, "bob <bob@" + cluster + ".clusters.gitbind.dev> now", false},
		{bridge, "gitbridge <gitbridge@control-plane.gitbind.dev>" + when, true},
		{bridge, "gitbridge <gitbridge@example.com>" + when, false},
		{owner, "Alice <alice@example.com>" + when, true},
		{owner, "Al <al@gitbind.dev>" + when, false},
		{owner, "<alice@example.com>" + when, true},
		{owner, "Alice <>" + when, false},
		{owner, "Alice <alice@example.com>", false},
		{owner, "Alice <a@X.Clusters.GitBind.Dev>" + when, false},
		{owner, "x@control-plane.gitbind.dev <alice@example.com>" + when, false},
	} {
		if why := identRule(c.caller, "author", c.line); (why == "") != c.ok {
			t.Errorf("%s %q: %q, want allowed=%v", c.caller.Role, c.line, why, c.ok)
		}
	}
}

func TestWhatTheComponentsCommitAsIsLetIn(t *testing.T) {
	t.Parallel()
	const when = " 1700000000 +0000"
	for _, user := range []string{"alice", "oidc:alice@example.com", "system:serviceaccount:team-a:ci", "Zoë <x>"} {
		name, email := contract.Identity(user, cluster)
		if why := identRule(access.Caller{Role: access.Konnector, Cluster: cluster}, "author", name+" <"+email+">"+when); why != "" {
			t.Errorf("%q: %s", user, why)
		}
	}
	name, email := contract.BridgeIdentity()
	if why := identRule(access.Caller{Role: access.Bridge, Cluster: cluster}, "author", name+" <"+email+">"+when); why != "" {
		t.Error(why)
	}
}

func TestParseCommitReadsOneFormOnly(t *testing.T) {
	t.Parallel()
	const (
		tree  = "tree " + ones + "\n"
		who   = "author a <a@b> 1 +0000\ncommitter c <c@d> 2 +0000\n"
		twice = "author a <a@b> 1 +0000\nauthor x <x@y> 1 +0000\ncommitter c <c@d> 2 +0000\n"
	)
	for _, c := range []struct {
		name, in, fails string
	}{
		{"plain", tree + who + "\nmessage\n", ""},
		{"with parents", tree + "parent " + ones + "\nparent " + twos + "\n" + who + "\nm", ""},
		{"signed", tree + who + "gpgsig -----BEGIN\n \n author x\n -----END\n\nm", ""},
		{"a message that looks like headers", tree + who + "\nauthor x <x@y> 1 +0000\n", ""},
		{"without a message", tree + who, ""},
		{"no tree", who + "\nm", "without a tree"},
		{"a bad tree", "tree 123\n" + who + "\nm", "tree"},
		{"a bad parent", tree + "parent x\n" + who + "\nm", "parent"},
		{"no author", tree + "committer c <c@d> 2 +0000\n\nm", "without an author"},
		{"no committer", tree + "author c <c@d> 2 +0000\n\nm", "without a committer"},
		{"two authors", tree + twice + "\nm", "without a committer"},
		{"an author at the end", tree + who + "author x <x@y> 1 +0000\n\nm", "second author"},
		{"a late parent", tree + who + "parent " + ones + "\n\nm", "second parent"},
		{"empty", "", "without a tree"},
	} {
		_, err := parseCommit([]byte(c.in))
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
		}
	}
}

func FuzzParseObjects(f *testing.F) {
	f.Add([]byte("tree " + ones + "\nauthor a <a@b> 1 +0000\ncommitter c <c@d> 2 +0000\n\nm"))
	f.Add([]byte("100644 a\x00" + strings.Repeat("x", 20)))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, _ = parseCommit(in)
		entries, err := parseTree(in)
		if err != nil {
			return
		}
		var back []byte
		for _, e := range entries {
			back = append(append(append(back, e.Mode+" "+e.Name...), 0), e.Hash[:]...)
		}
		if string(back) != string(in) {
			t.Errorf("read %q as %q", in, back)
		}
	})
}
