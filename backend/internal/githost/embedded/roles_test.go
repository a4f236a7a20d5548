package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store/limits"
)

const claimPath = "bindings/postgresqlinstances.example.com/claims/team-a/orders.yaml"

func TestAPersonClonesAndFindsAnExplanation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	b, err := os.ReadFile(filepath.Join(c.dir, "README.md"))
	if err != nil || !strings.Contains(string(b), "Changing a claim") {
		t.Errorf("README.md: %v\n%s", err, b)
	}
	if got := strings.TrimSpace(c.git("log", "--format=%an <%ae>: %s")); got != "gitbind <backend@control-plane.gitbind.dev>: Explain this repository" {
		t.Errorf("first commit: %s", got)
	}
	s.fsck(t)
}

func TestEachRolePushesWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	konnector := s.clone(t, access.Konnector)
	konnector.commit("claim: create team-a/orders", map[string]string{claimPath: "plan: small\n"})
	konnector.pushed("HEAD:main")
	konnector.pushed("HEAD:changes/b/team-a/orders")
	konnector.pushed("HEAD:conflicts/b/team-a/orders/1")
	konnector.pushed(":changes/b/team-a/orders")

	owner := s.clone(t, access.Owner)
	owner.commit("Give orders a larger plan", map[string]string{claimPath: "plan: big\n", "OWNERS": "alice\n"})
	owner.pushed("HEAD:main")
	owner.pushed("HEAD:changes/mine")

	bridge := s.clone(t, access.Bridge)
	bridge.git("checkout", "-q", "--orphan", "status")
	bridge.git("rm", "-q", "-rf", ".")
	bridge.commit("status", map[string]string{"observed.yaml": "commit: x\n"})
	bridge.pushed("HEAD:status")

	s.fsck(t)
	var refs []string
	for _, e := range s.moves.list() {
		refs = append(refs, e.Ref)
	}
	want := "refs/heads/main refs/heads/changes/b/team-a/orders refs/heads/conflicts/b/team-a/orders/1 refs/heads/changes/b/team-a/orders refs/heads/main refs/heads/changes/mine refs/heads/status"
	if got := strings.Join(refs, " "); got != want {
		t.Errorf("announced %s\nwant %s", got, want)
	}
}

func TestTheBridgeMayCutTheHistoryOfStatus(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Bridge)
	c.git("checkout", "-q", "--orphan", "status")
	c.commit("status", map[string]string{"observed.yaml": "1\n"})
	c.pushed("HEAD:status")
	c.git("checkout", "-q", "--orphan", "cut")
	c.commit("status, cut", map[string]string{"observed.yaml": "2\n"})
	c.pushed("--force", "HEAD:status")
	s.fsck(t)
}

func TestTheKonnectorNeverWritesStatus(t *testing.T) {
	t.Parallel()
	c := serve(t).clone(t, access.Konnector)
	c.commit("x", map[string]string{claimPath: "x\n"})
	c.refused("remote: gitbind: status: the branch status says what is, and only the bridge writes it", "HEAD:status")
}

func TestAPersonNeverWritesStatus(t *testing.T) {
	t.Parallel()
	c := serve(t).clone(t, access.Owner)
	c.commit("x", map[string]string{"x": "x\n"})
	c.refused("only the bridge writes it", "HEAD:status")
}

func TestTheBridgeNeverWritesMainNorProposals(t *testing.T) {
	t.Parallel()
	c := serve(t).clone(t, access.Bridge)
	c.commit("x", map[string]string{"x": "x\n"})
	c.refused("the bridge writes the branch status and nothing else", "HEAD:main")
	c.refused("the bridge writes the branch status and nothing else", "HEAD:changes/x")
	c.refused("the bridge writes the branch status and nothing else", "HEAD:conflicts/x")
}

func TestTheKonnectorChangesNothingOutsideBindings(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Konnector)
	for name, files := range map[string]map[string]string{
		"a new file at the root":          {"evil.yaml": "x\n"},
		"a change of a file":              {"README.md": "x\n"},
		"a removal":                       {"README.md": ""},
		"a folder":                        {"bindings2/a": "x\n"},
		"another case":                    {"Bindings/a": "x\n"},
		"mixed with what it may":          {claimPath: "x\n", "evil.yaml": "x\n"},
		"a file in the place of a folder": {"bindings": "x\n"},
	} {
		c.git("checkout", "-q", "-B", "try", "origin/main")
		c.commit(name, files)
		c.refused("the konnector changes files below bindings/ and no others", "HEAD:main")
		c.refused("the konnector changes files below bindings/ and no others", "HEAD:changes/x")
	}

	// The branch's last state is innocent, its history is not.
	c.git("checkout", "-q", "-B", "try", "origin/main")
	c.commit("evil", map[string]string{"evil.yaml": "x\n"})
	c.commit("hide it", map[string]string{"evil.yaml": "", claimPath: "x\n"})
	c.refused("the konnector changes files below bindings/ and no others", "HEAD:main")

	// A merge that takes an evil side in.
	c.git("checkout", "-q", "-B", "side", "origin/main")
	c.commit("evil", map[string]string{"evil.yaml": "x\n"})
	c.git("checkout", "-q", "-B", "try", "origin/main")
	c.commit("fine", map[string]string{claimPath: "y\n"})
	c.git("merge", "-q", "--no-edit", "side")
	c.refused("the konnector changes files below bindings/ and no others", "HEAD:main")
	s.fsck(t)
}

func TestTheKonnectorCannotBringAnotherBranchsFilesToMain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	owner := s.clone(t, access.Owner)
	owner.commit("propose", map[string]string{"ci.yaml": "x\n"})
	owner.pushed("HEAD:changes/mine")

	c := s.clone(t, access.Konnector)
	// No pack at all: the repository has every object already.
	c.refused("the konnector changes files below bindings/ and no others", "origin/changes/mine:main")
	c.git("checkout", "-q", "origin/changes/mine")
	c.commit("on top", map[string]string{claimPath: "x\n"})
	c.refused("the konnector changes files below bindings/ and no others", "HEAD:main")
}

func TestTheKonnectorGoesOnOnBranchesThatStartAnywhereOnMain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	owner := s.clone(t, access.Owner)
	owner.commit("one", map[string]string{"OWNERS": "a\n"})
	owner.commit("two", map[string]string{"OWNERS": "b\n"})
	owner.pushed("HEAD:main")
	c := s.clone(t, access.Konnector)
	c.git("checkout", "-q", "-b", "try", "origin/main~1")
	c.commit("propose", map[string]string{claimPath: "x\n"})
	c.pushed("HEAD:changes/b/x")
	c.commit("propose more", map[string]string{claimPath: "y\n"})
	c.pushed("HEAD:changes/b/x")
	s.fsck(t)
}

func TestHistoryOfMainIsNeverRewritten(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, role := range []access.Role{access.Konnector, access.Owner} {
		c := s.clone(t, role)
		c.commit("one", map[string]string{"bindings/" + role.String(): "1\n"})
		c.pushed("HEAD:main")
		c.git("commit", "-q", "--amend", "-m", "another")
		c.refused("main: this would rewrite history", "--force", "HEAD:main")
		c.refused("main: this would rewrite history", "--force", "HEAD~1:main")
		c.pushed("HEAD:changes/force-" + role.String())
		c.git("commit", "-q", "--amend", "-m", "a third")
		c.refused("this would rewrite history", "--force", "HEAD:changes/force-"+role.String())
	}
	s.fsck(t)
}

func TestH10_WhatLostOrWasProposedCannotBeDeletedBeforeMainHasIt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const words = "main does not have its commits"
	konnector, owner := s.clone(t, access.Konnector), s.clone(t, access.Owner)
	konnector.commit("what lost", map[string]string{claimPath: "plan: small\n"})
	konnector.pushed("HEAD:conflicts/b/team-a/orders/1", "HEAD:changes/b/team-a/orders")
	owner.git("fetch", "-q")
	// A part of it is somebody else's.
	owner.git("checkout", "-q", "-b", "more", "origin/changes/b/team-a/orders")
	owner.commit("what is better", map[string]string{claimPath: "plan: nano\n"})
	owner.pushed("HEAD:changes/b/team-a/orders")
	owner.git("fetch", "-q")
	konnector.git("fetch", "-q")
	for _, c := range []*clone{konnector, owner} {
		for _, branch := range []string{"conflicts/b/team-a/orders/1", "changes/b/team-a/orders"} {
			c.refused(words, ":"+branch)
			c.refused("not done, because "+"refs/heads/"+branch, ":"+branch, "HEAD:changes/another")
		}
	}
	s.clone(t, access.Bridge).refused("the bridge writes the branch status", ":conflicts/b/team-a/orders/1")
	// Nor set to something else.
	owner.git("checkout", "-q", "--orphan", "nothing")
	owner.commit("nothing", map[string]string{"x": "x\n"})
	owner.refused("this would rewrite history", "--force", "HEAD:conflicts/b/team-a/orders/1")

	owner.git("checkout", "-q", "-f", "-B", "main", "origin/main")
	owner.git("merge", "-q", "--no-ff", "-m", "as it was", "origin/conflicts/b/team-a/orders/1", "origin/changes/b/team-a/orders")
	owner.pushed("HEAD:main")
	owner.pushed(":conflicts/b/team-a/orders/1")
	konnector.git("fetch", "-q", "--prune")
	konnector.pushed(":changes/b/team-a/orders")
	s.fsck(t)
}

// The konnector withdraws what it has proposed itself, which nobody else may.
func TestTheKonnectorWithdrawsWhatItHasProposed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	konnector, owner := s.clone(t, access.Konnector), s.clone(t, access.Owner)
	konnector.commit("order", map[string]string{claimPath: "plan: small\n"})
	konnector.commit("more", map[string]string{claimPath: "plan: big\n"})
	konnector.pushed("HEAD:changes/b/team-a/orders", "HEAD:conflicts/b/team-a/orders/1")
	owner.git("fetch", "-q")
	owner.refused("main does not have its commits", ":changes/b/team-a/orders")
	konnector.refused("main does not have its commits", ":conflicts/b/team-a/orders/1")
	konnector.pushed(":changes/b/team-a/orders")
	s.fsck(t)
}

func TestMainAndStatusCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	bridge := s.clone(t, access.Bridge)
	bridge.git("checkout", "-q", "--orphan", "status")
	bridge.commit("status", map[string]string{"observed.yaml": "1\n"})
	bridge.pushed("HEAD:status")
	bridge.refused("this branch cannot be deleted", ":status")
	s.clone(t, access.Owner).refused("this branch cannot be deleted", ":main")
	s.clone(t, access.Konnector).refused("this branch cannot be deleted", ":main")
}

func TestADeleteOfABranchThatDoesNotExistIsRefused(t *testing.T) {
	c := serve(t).clone(t, access.Owner)
	// Git itself says no to the short name, and sends the full one.
	c.refused("changes/none: there is no such branch to delete", ":refs/heads/changes/none")
}

func TestTagsAndOtherRefsAreRefused(t *testing.T) {
	t.Parallel()
	c := serve(t).clone(t, access.Owner)
	c.git("tag", "v1")
	c.refused("this repository has no tags", "v1")
	c.git("tag", "-a", "-m", "x", "v2")
	c.refused("this repository has no tags", "v2")
	for _, ref := range []string{"refs/heads/other", "refs/heads/changes", "refs/heads/mainx", "refs/notes/x", "refs/replace/" + strings.TrimSpace(c.git("rev-parse", "HEAD")), "refs/x"} {
		c.refused("only the branches main, changes/… and conflicts/… can be pushed", "HEAD:"+ref)
	}
}

func TestOneRefusedRefRefusesThePush(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	c.commit("x", map[string]string{"x": "x\n"})
	c.refused("not done, because refs/heads/status was refused", "HEAD:main", "HEAD:status")
	if got := len(s.moves.list()); got != 0 {
		t.Errorf("%d branches moved, want none", got)
	}
}

func TestOnlyTheClustersKonnectorCommitsInTheNamesOfItsUsers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	users := "bob@" + contract.ClusterDomain(cluster)
	c := s.clone(t, access.Owner)
	for _, email := range []string{
		users, "bob@" + contract.ClusterDomain(other), "x@clusters." + contract.ReservedDomain, "BOB@" + strings.ToUpper(contract.ClusterDomain(cluster)),
		"gitbridge@" + controlPlaneDomain, users + ".",
	} {
		c.git("checkout", "-q", "-B", "try", "origin/main")
		c.as(email)
		c.commit("forged", map[string]string{"x": email + "\n"})
		c.refused("a domain that only gitbind's own agents commit as", "HEAD:main")
	}

	c.as(emails[access.Owner])
	c.git("checkout", "-q", "-B", "try", "origin/main")
	c.commit("x", map[string]string{"x": "x\n"})
	c.git("commit", "-q", "--amend", "--author", "Bob <"+users+">", "--no-edit")
	c.refused("its author names gitbind.dev", "HEAD:main")
	c.git("commit", "-q", "--amend", "--author", "bob@clusters."+contract.ReservedDomain+" <x@example.com>", "--no-edit")
	c.refused("its author names gitbind.dev", "HEAD:main")
	// Forged below an honest head.
	c.git("commit", "-q", "--amend", "--author", "Bob <"+users+">", "--no-edit")
	c.commit("honest", map[string]string{"y": "y\n"})
	c.refused("its author names gitbind.dev", "HEAD:main")

	k := s.clone(t, access.Konnector)
	k.commit("for a user", map[string]string{claimPath: "x\n"})
	k.git("commit", "-q", "--amend", "--author", "oidc:bob@example.com <oidc=3abob@"+contract.ClusterDomain(cluster)+">", "--no-edit")
	k.pushed("HEAD:main")
	for _, email := range []string{"alice@example.com", "bob@" + contract.ClusterDomain(other), "gitbridge@" + controlPlaneDomain, "bob@x." + contract.ClusterDomain(cluster), "a@b@" + contract.ClusterDomain(cluster)} {
		k.git("checkout", "-q", "-B", "try", "origin/main")
		k.as(email)
		k.commit("forged", map[string]string{claimPath: email + "\n"})
		k.refused("but the konnector of cluster "+cluster+" commits as", "HEAD:main")
	}

	b := s.clone(t, access.Bridge)
	b.as(users)
	b.git("checkout", "-q", "--orphan", "status")
	b.commit("forged", map[string]string{"x": "x\n"})
	b.refused("but the bridge commits as", "HEAD:status")
}

func TestNobodyButTheKonnectorCreditsTheUsersOfACluster(t *testing.T) {
	t.Parallel()
	s := serve(t)
	bob := "Bob <bob@" + contract.ClusterDomain(cluster) + ">"
	k := s.clone(t, access.Konnector)
	k.commit("claim: update 2 claims\n\nCo-authored-by: "+bob, map[string]string{claimPath: "plan: small\n"})
	k.pushed("HEAD:main", "HEAD:changes/b/team-a/orders")

	c := s.clone(t, access.Owner)
	const words = "only gitbind's own agents name somebody of gitbind.dev: take it out with git commit --amend"
	for _, message := range []string{
		"Co-authored-by: " + bob, "CO-AUTHORED-BY : " + strings.ToUpper(bob), "Signed-off-by: alice <alice@example.com>\nReviewed-by: " + bob,
		"Co-authored-by: Bob\n <bob@" + contract.ClusterDomain(cluster) + ">", "Co-authored-by: " + bob + "\n\nmore",
	} {
		c.git("checkout", "-q", "-B", "try", "origin/main")
		c.commit("forged\n\n"+message, map[string]string{"x": message})
		c.refused(words, "HEAD:main")
		c.commit("honest", map[string]string{"y": "y\n"})
		c.refused(words, "HEAD:changes/x")
	}
	if why := identityRule(access.Caller{Role: access.Owner}, commit{Message: strings.Repeat("long\n", limits.Message/5+1)}); !strings.Contains(why, "shorten it with git commit --amend") {
		t.Errorf("a message that is too long to be read: %q", why)
	}

	// What people do with the konnector's commits.
	c.git("checkout", "-q", "-B", "try", "origin/main")
	c.git("revert", "--no-edit", "HEAD")
	c.pushed("HEAD:main")
	c.git("cherry-pick", "-x", "origin/changes/b/team-a/orders")
	c.refused("git commit --amend --reset-author", "HEAD:main")
	c.git("commit", "-q", "--amend", "--reset-author", "--no-edit")
	c.refused(words, "HEAD:main")
	c.git("commit", "-q", "--amend", "-m", "Order it again\n\nSee gitbind.dev, as bob@clusters.gitbind.dev said.\n\nCo-authored-by: Carol <carol@example.com>")
	c.pushed("HEAD:main")
	c.git("checkout", "-q", "-B", "try", "origin/main")
	c.git("merge", "-q", "--no-ff", "--no-edit", "-s", "ours", "origin/changes/b/team-a/orders")
	c.pushed("HEAD:changes/merged")
	c.git("checkout", "-q", "-B", "try", "origin/main~3")
	c.git("merge", "-q", "--squash", "origin/changes/b/team-a/orders")
	c.git("commit", "-q", "--no-edit")
	c.pushed("HEAD:changes/squashed")
	s.fsck(t)
}

func TestAnotherEncodingIsNoWayToAUsersName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	// In UTF-7 this is bob@k3x9d2abqw.clusters.gitbind.dev, and git log says so.
	c.as("bob+AEA-" + cluster + ".clusters.gitbind+AC4-dev")
	c.git("config", "i18n.commitEncoding", "UTF-7")
	c.commit("forged", map[string]string{"x": "x\n"})
	c.refused(`its encoding is "UTF-7": commit in UTF-8`, "HEAD:main")
	c.as(emails[access.Owner])
	c.git("config", "i18n.commitEncoding", "utf-8")
	c.git("commit", "-q", "--amend", "--reset-author", "--no-edit")
	c.pushed("HEAD:main")
}

func TestAPersonMergesABranchOfTheKonnector(t *testing.T) {
	t.Parallel()
	s := serve(t)
	k := s.clone(t, access.Konnector)
	k.commit("propose", map[string]string{claimPath: "plan: big\n"})
	k.pushed("HEAD:changes/b/team-a/orders")

	p := s.clone(t, access.Owner)
	p.commit("meanwhile", map[string]string{"OWNERS": "alice\n"})
	p.git("merge", "-q", "--no-edit", "origin/changes/b/team-a/orders")
	p.pushed("HEAD:main")
	s.fsck(t)
}

func TestWhoPushedSecondIsToldToFetch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first, second := s.clone(t, access.Konnector), s.clone(t, access.Owner)
	first.commit("first", map[string]string{claimPath: "1\n"})
	first.pushed("HEAD:main")
	second.commit("second", map[string]string{"x": "2\n"})
	second.refused("fetch first", "HEAD:main")
	second.git("pull", "-q", "--rebase", "origin", "main")
	second.pushed("HEAD:main")
	s.fsck(t)
}

func TestAnotherTenantsRepositoryIsOutOfReach(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, role := range []access.Role{access.Konnector, access.Bridge, access.Owner} {
		url := strings.Replace(s.remote(role, cluster), cluster+".git", other+".git", 1)
		there, err := stockGit(t, t.TempDir(), nil, "clone", url)
		if err == nil {
			t.Errorf("%s of %s cloned %s", role, cluster, other)
		}
		nowhere, err := stockGit(t, t.TempDir(), nil, "clone", strings.Replace(url, other, "nosuchrepo", 1))
		if err == nil {
			t.Error("cloned a repository that does not exist")
		}
		if a, b := strings.ReplaceAll(there, other, ""), strings.ReplaceAll(nowhere, "nosuchrepo", ""); a != b {
			t.Errorf("as %s: the answer tells a stranger's repository\n%s\nfrom none at all\n%s", role, a, b)
		}
	}
}
