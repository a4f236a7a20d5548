package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/env"
)

// shared is what the tests' repository is shared for with its one member, as RBAC has
// it: "<role> <name of a part>".
type shared struct {
	mu    sync.Mutex
	roles []string
	away  bool
	asked int
}

func (s *shared) set(roles ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles = roles
}

func (s *shared) May(_ context.Context, role restapi.RepositoryRole, part access.Part) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.away {
		return false, refusal.New(refusal.Unavailable, "rights cannot be looked at just now: try again")
	}
	wider := []access.Part{part, {}}
	if part.Binding != "" && part.Namespace != "" {
		wider = append(wider, access.Part{Binding: part.Binding}, access.Part{Namespace: part.Namespace})
	}
	return slices.ContainsFunc(wider, func(p access.Part) bool { return slices.Contains(s.roles, string(role)+" "+p.Name()) }), nil
}

func (s *shared) Authenticate(r *http.Request, id string) (access.Caller, error) {
	if user, _, _ := r.BasicAuth(); user == access.Member.String() {
		return access.Caller{Role: access.Member, Cluster: id, Name: "oidc:bob@example.com", Rights: s}, nil
	}
	return passwords{}.Authenticate(r, id)
}

// sharing serves a repository with claims of two bindings and namespaces, and gives its
// member's clone.
func sharing(t *testing.T) (*served, *shared, *clone) {
	t.Helper()
	rights := &shared{}
	s := serve(t, func(c *Config) { c.Authenticator = rights })
	owner := s.clone(t, access.Owner)
	owner.commit("Order", map[string]string{
		dbAsk: "template: db\n", dbA: "plan: small\n", dbB: "plan: small\n", mqA: "plan: small\n",
	})
	owner.pushed("HEAD:main")
	return s, rights, s.clone(t, access.Member)
}

// The paths that members try to change.
const (
	dbA    = "bindings/db/claims/team-a/one.yaml"
	dbB    = "bindings/db/claims/team-b/one.yaml"
	dbC    = "bindings/db/claims/team-c/one.yaml"
	dbIn   = "bindings/db/inputs/team-a/one.yaml"
	dbFile = "bindings/db/claims/stray.yaml"
	dbAsk  = "bindings/db/request.yaml"
	mqA    = "bindings/mq/claims/team-a/one.yaml"
	stray  = "bindings/stray.yaml"
	owners = "OWNERS"
)

// try commits a change of some files on top of main.
func (c *clone) try(content string, paths ...string) {
	c.t.Helper()
	c.git("fetch", "-q")
	c.git("checkout", "-q", "-B", "try", "origin/main")
	files := map[string]string{}
	for _, p := range paths {
		files[p] = content + "\n"
	}
	c.commit("Change", files)
}

func TestAMemberChangesWhatIsSharedWithThem(t *testing.T) {
	t.Parallel()
	all := []string{dbA, dbB, dbC, dbIn, dbFile, dbAsk, mqA, stray, owners}
	for _, want := range []struct {
		role string
		may  []string
	}{
		{"write db:team-a", []string{dbA, dbIn}},
		{"write *:team-a", []string{dbA, mqA, dbIn}},
		{"write db", []string{dbA, dbB, dbC, dbIn, dbFile, dbAsk}},
		{"write ", all},
		{"propose db", nil},
		{"view ", nil},
	} {
		t.Run(want.role, func(t *testing.T) {
			t.Parallel()
			_, rights, c := sharing(t)
			rights.set(want.role)
			for _, p := range all {
				c.try("plan: big", p)
				if slices.Contains(want.may, p) {
					c.pushed("HEAD:main")
					c.try("", p)
					c.pushed("HEAD:main")
				} else {
					c.refused("remote: gitbind: main: you (oidc:bob@example.com) may not write", "HEAD:main")
				}
			}
			if len(want.may) < len(all) {
				c.try("plan: big", all...)
				c.refused("may not write", "HEAD:main")
			}
		})
	}
}

func TestAMemberProposesWhatIsSharedWithThem(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("propose db:team-a")
	c.try("plan: big", dbA)
	c.pushed("HEAD:changes/db/team-a/bigger")
	c.refused("may not propose changes/db/team-b/bigger, which is binding db, namespace team-b", "HEAD:changes/db/team-b/bigger")
	c.refused("which is all of the repository", "HEAD:changes/bigger")
	c.refused("conflicts/… are the konnector's and the owner's", "HEAD:conflicts/db/team-a/one/1")
	c.refused("only the bridge writes it", "HEAD:status")
	c.refused("may not write bindings/db/claims/team-a, which is binding db, namespace team-a: the cluster's owner lets you with kubectl gitbind share write", "HEAD:main")
	c.commit("And more", map[string]string{dbB: "plan: big\n"})
	c.refused("may not propose bindings/db/claims/team-b", "HEAD:changes/db/team-a/bigger")
	c.git("reset", "-q", "--hard", "HEAD^")

	// What was proposed is no more allowed on main than if it were new.
	rights.set("write mq")
	c.refused("may not write bindings/db/claims/team-a", "HEAD:main")
	// Somebody who may write it brings it there, and the branch has done its work.
	rights.set("write db:team-a", "propose db:team-a")
	c.pushed("HEAD:main")
	rights.set("propose db:team-b")
	c.refused("may not propose", ":changes/db/team-a/bigger")
	rights.set("propose db:team-a")
	c.pushed(":changes/db/team-a/bigger")
	s.fsck(t)
}

func TestAMembersMergeTakesNothingBack(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("write db:team-a", "propose db:team-a")
	c.try("plan: big", dbA)
	owner := s.clone(t, access.Owner)
	owner.commit("Theirs", map[string]string{dbB: "plan: theirs\n", owners: "alice\n"})
	owner.pushed("HEAD:main")
	c.git("fetch", "-q")

	c.git("checkout", "-q", "-b", "ours")
	c.git("merge", "-q", "-s", "ours", "-m", "Merge, and take back", "origin/main")
	c.refused("may not write", "HEAD:main")
	c.git("checkout", "-q", "-B", "evil", "try")
	c.git("merge", "-q", "--no-commit", "origin/main")
	c.commit("Merge, and slip something in", map[string]string{dbB: "plan: mine\n"})
	c.refused("may not write bindings/db/claims/team-b", "HEAD:main")
	c.refused("may not propose bindings/db/claims/team-b", "HEAD:changes/db/team-a/evil")
	// A commit that is hidden by the next one is in the history of a claim for good.
	c.git("checkout", "-q", "-B", "hidden", "origin/main")
	c.commit("There", map[string]string{dbB: "plan: mine\n"})
	c.commit("And back", map[string]string{dbB: "plan: theirs\n"})
	c.refused("may not write bindings/db/claims/team-b", "HEAD:main")
	c.git("checkout", "-q", "--orphan", "root")
	c.commit("A history of one's own", map[string]string{dbA: "plan: mine\n"})
	c.refused("may not propose", "HEAD:changes/db/team-a/root")

	c.git("checkout", "-q", "try")
	c.git("merge", "-q", "-m", "Merge", "origin/main")
	c.pushed("HEAD:main")
	s.fsck(t)
}

// A merge may be all that another's proposal is: it takes main back without a change of its own.
func TestAMembersMergeDecidesOnNoProposalOfOthers(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("write mq", "propose ")
	owner := s.clone(t, access.Owner)
	owner.commit("Theirs", map[string]string{dbB: "plan: theirs\n"})
	owner.pushed("HEAD:main")
	owner.git("checkout", "-q", "-b", "back", "HEAD~1")
	owner.git("merge", "-q", "-s", "ours", "-m", "As before", "main")
	owner.pushed("HEAD:changes/db/team-b/back")
	owner.git("checkout", "-q", "-b", "edit", "main")
	owner.commit("An edit", map[string]string{dbB: "plan: big\n"})
	owner.git("merge", "-q", "--no-ff", "-m", "Merge", "main")
	owner.pushed("HEAD:changes/db/team-b/edit")
	c.git("fetch", "-q")
	for _, theirs := range []string{"origin/changes/db/team-b/back", "origin/changes/db/team-b/edit"} {
		c.try("plan: big", mqA)
		c.git("merge", "-q", "-s", "ours", "-m", "Merge", theirs)
		c.refused("may not write bindings/db/claims/team-b", "HEAD:main")
	}
	// A branch of their own, on which they merged main.
	c.git("checkout", "-q", "-B", "mine", "origin/main~1")
	c.commit("Mine", map[string]string{mqA: "plan: big\n"})
	c.git("merge", "-q", "-m", "Merge", "origin/main")
	c.pushed("HEAD:changes/mq/team-a/mine")
	c.pushed("HEAD:main")
	s.fsck(t)
}

// TestAMemberGoesOnWhileMainDoes works with an old clone, from which git sends commits that
// the host has, and takes into a proposal what others did on main.
func TestAMemberGoesOnWhileMainDoes(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("propose db:team-a")
	owner := s.clone(t, access.Owner)
	owner.commit("Theirs", map[string]string{dbB: "plan: theirs\n", owners: "alice\n"})
	owner.pushed("HEAD:main")
	c.git("checkout", "-q", "-b", "mine")
	c.commit("Mine", map[string]string{dbA: "plan: big\n"})
	c.pushed("HEAD:changes/db/team-a/mine")
	c.git("fetch", "-q")
	c.git("merge", "-q", "-m", "Merge main", "origin/main")
	c.pushed("HEAD:changes/db/team-a/mine")

	owner.git("checkout", "-q", "-b", "theirs")
	owner.commit("A proposal of theirs", map[string]string{dbB: "plan: more\n"})
	owner.pushed("HEAD:changes/db/team-b/theirs")
	c.git("fetch", "-q")
	c.git("merge", "-q", "-m", "Merge what nobody has accepted", "origin/changes/db/team-b/theirs")
	c.refused("may not propose bindings/db/claims/team-b", "HEAD:changes/db/team-a/mine")
	s.fsck(t)
}

// TestAMembersHiddenCommitIsJudgedToo brings commits that no branch gets with one push, and
// a branch to them with the next.
func TestAMembersHiddenCommitIsJudgedToo(t *testing.T) {
	t.Parallel()
	s, rights, c := sharing(t)
	rights.set("write db:team-a", "propose db:team-a")
	base := s.head(t, mainRef)
	c.try("plan: mine", dbB)
	c.commit("And back", map[string]string{dbB: "plan: small\n", dbA: "plan: big\n"})
	hidden := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	c.try("plan: bigger", dbA)
	proposed := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	create := strings.Repeat("0", 40) + " " + proposed + " " + changesPrefix + "db/team-a/x\x00report-status"
	body := append([]byte(pkts(create)), c.packOf(proposed, hidden, "^"+base)...)
	if _, answer := s.post(t, access.Member, "git-receive-pack", body); !strings.Contains(answer, "ok refs/heads/changes/db/team-a/x") {
		t.Fatalf("the proposal is answered %q", answer)
	}
	for ref, old := range map[string]string{mainRef: base, changesPrefix + "db/team-a/y": strings.Repeat("0", 40)} {
		body := append([]byte(pkts(old+" "+hidden+" "+ref+"\x00report-status")), handmadePack()...)
		if _, answer := s.post(t, access.Member, "git-receive-pack", body); !strings.Contains(answer, "ng "+ref) || !strings.Contains(answer, "bindings/db/claims/team-b") {
			t.Errorf("%s is answered %q", ref, answer)
		}
	}
}

func TestAMembersRightsAreThoseOfThisMoment(t *testing.T) {
	t.Parallel()
	_, rights, c := sharing(t)
	rights.set("write db")
	c.try("plan: big", dbA)
	c.pushed("HEAD:main")
	rights.set("view ")
	c.try("plan: bigger", dbA)
	c.refused("may not write", "HEAD:main")
	rights.mu.Lock()
	rights.roles, rights.away = []string{"write db"}, true
	rights.mu.Unlock()
	c.refused("503", "HEAD:main")
}

// A name in a tree must not become that of another part.
func TestAMembersNamesAreNoPartsOfOthers(t *testing.T) {
	t.Parallel()
	_, rights, c := sharing(t)
	rights.set("write db:team-a", "write *:team-a")
	for _, p := range []string{"bindings/db:team-a/claims/x/one.yaml", "bindings/db:team-a/request.yaml", "bindings/*:team-a/request.yaml", "bindings/db/claims/team-a:x/one.yaml"} {
		c.try("plan: big", p)
		c.refused("may not write", "HEAD:main")
	}
	c.try("plan: big", dbA)
	for _, branch := range []string{"changes/db:team-a/x/y", "changes/db", "changes/db/team-a"} {
		if out, err := stockGit(t, c.dir, nil, "push", "origin", "HEAD:"+branch); err == nil {
			t.Errorf("%s went through\n%s", branch, out)
		}
	}
}

func TestAMemberChangesManyPartsInSeveralPushes(t *testing.T) {
	t.Parallel()
	_, rights, c := sharing(t)
	rights.set("write db")
	var paths []string
	for i := range maxParts + 1 {
		paths = append(paths, "bindings/db/claims/team-"+strings.Repeat("x", i+1)+"/one.yaml")
	}
	c.try("plan: big", paths...)
	c.refused("push them in several pushes", "HEAD:main")
	c.try("plan: big", paths[:maxParts]...)
	c.pushed("HEAD:main")
}

// Each question is one to the control plane's API server, while others wait for the
// repository's turn.
func TestH7_OnePushOfAMemberAsksFewQuestions(t *testing.T) {
	t.Parallel()
	s, rights, _ := sharing(t)
	rights.set("propose db")
	main := s.head(t, mainRef)
	push := func(old, updated, name string, n int) (answer string, asked int) {
		before := rights.asked
		lines := make([]string, n)
		for i := range n {
			lines[i] = old + " " + updated + " " + changesPrefix + fmt.Sprintf(name, i)
		}
		lines[0] += "\x00report-status"
		body := []byte(pkts(lines...))
		if updated != zeroHash {
			body = append(body, handmadePack()...)
		}
		_, answer = s.post(t, access.Member, "git-receive-pack", body)
		return answer, rights.asked - before
	}
	if answer, asked := push(zeroHash, main, "db/team-%d/x", maxCommands); !strings.Contains(answer, "more than 100 change branches") || asked > 0 {
		t.Errorf("many branches: %d questions, answered %.200q", asked, answer)
	}
	// All of the repository, and the one part.
	if answer, asked := push(zeroHash, main, "db/team-a/%d", maxPushedChanges); strings.Contains(answer, "ng ") || asked > 2 {
		t.Errorf("branches of one namespace: %d questions, answered %.200q", asked, answer)
	}
	for i := range 2 * maxParts {
		path := filepath.Join(s.bare(), filepath.FromSlash(changesPrefix+fmt.Sprintf("db/team-%d/x", i)))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(main+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if answer, asked := push(main, zeroHash, "db/team-%d/x", 2*maxParts); !strings.Contains(answer, "push them in several pushes") || asked > 1+maxParts {
		t.Errorf("deletes in many namespaces: %d questions, answered %.200q", asked, answer)
	}
	if answer, asked := push(main, zeroHash, "db/team-%d/x", maxParts); strings.Contains(answer, "ng ") || asked > 1+maxParts {
		t.Errorf("deletes in as many as may be: %d questions, answered %.200q", asked, answer)
	}
}

// manyNames is a check of a push with root trees of many names, each of which differs in
// one name from the next, and commits of them; compared counts the comparisons.
func manyNames(t *testing.T, trees int) (c *check, commits []plumbing.Hash, compared *int) {
	t.Helper()
	s := serve(t)
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	compared = new(int)
	c = newCheck(t.Context(), repo, access.Caller{Role: access.Member}, func(int64) error { *compared++; return nil })
	t.Cleanup(c.reader.close)
	var shared strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&shared, "100644 a%04d\x00%s", i, emptyTree[:])
	}
	for i := range trees {
		tree := c.bring(plumbing.TreeObject, fmt.Appendf([]byte(shared.String()), "100644 z%d\x00%s", i, emptyTree[:]))
		commits = append(commits, c.bringCommit(fmt.Sprint(i), tree))
	}
	return c, commits, compared
}

// bring adds an object to a push.
func (c *check) bring(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	name := plumbing.ComputeHash(kind, data)
	if c.pack.Objects == nil {
		c.pack.Objects = map[plumbing.Hash]object{}
	}
	c.pack.Objects[name] = object{Type: kind, Size: int64(len(data)), Data: data}
	return name
}

func (c *check) bringCommit(message string, tree plumbing.Hash, parents ...plumbing.Hash) plumbing.Hash {
	data := fmt.Appendf(nil, "tree %s\n", tree)
	for _, p := range parents {
		data = fmt.Appendf(data, "parent %s\n", p)
	}
	return c.bring(plumbing.CommitObject, fmt.Appendf(data, "%s\n%s\n", strings.TrimSuffix(whoLines, "\n"), "\n"+message))
}

func TestH4_ManyCommitsOfTheSameFoldersCostOneComparisonForEachPair(t *testing.T) {
	t.Parallel()
	c, base, compared := manyNames(t, 4)
	first, err := c.commit(base[0])
	if err != nil {
		t.Fatal(err)
	}
	tree := first.Tree
	cost := map[int]int{}
	for i := range 1000 {
		changed := parts{}
		if err := c.changedBy(c.bringCommit(fmt.Sprint("many ", i), tree, base[1], base[2], base[3], base[1], base[2]), changed); err != nil {
			t.Fatal(err)
		}
		if _, err := c.outside(c.bringCommit(fmt.Sprint("konnector's ", i), tree, base[1], base[2])); err != nil {
			t.Fatal(err)
		}
		if len(changed) != 1 || changed["z0"] != (access.Part{}) {
			t.Fatalf("a merge changes %v", changed)
		}
		cost[i] = *compared
	}
	if cost[0] != 3 || cost[999] != cost[0] {
		t.Errorf("%d comparisons for one commit, %d for a thousand", cost[0], cost[999])
	}
}

// Each of the commits makes another pair of the folders.
func TestH4_APushThatHasTooManyNamesComparedIsRefused_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	c, base, compared := manyNames(t, 70)
	for i, before := range base {
		for _, after := range base[i+1:] {
			of, err := c.commit(after)
			if err != nil {
				t.Fatal(err)
			}
			merge := c.bringCommit("merge", of.Tree, before)
			err = c.command(command{Ref: changesPrefix + "x"}, func(command) error { return c.changedBy(merge, parts{}) })
			if no := (*ruling)(nil); errors.As(err, &no) {
				if !strings.Contains(no.Words, "push its commits in several pushes") || *compared < 1000 {
					t.Errorf("after %d: %v", *compared, no)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Errorf("it has %d names compared", c.names)
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	of := func(paths ...string) parts {
		p := parts{}
		for _, at := range paths {
			p[at] = access.Part{}
		}
		return p
	}
	for _, c := range []struct{ a, b, want parts }{
		{of("x"), of("y"), of()},
		{of("x"), of("x"), of("x")},
		{of("bindings"), of("bindings/b/claims/ns", "x"), of("bindings/b/claims/ns")},
		{of("bindings/b/claims/a"), of("bindings/b/claims/ab"), of()},
		{nil, of("x"), of()},
	} {
		for _, got := range []parts{overlap(c.a, c.b), overlap(c.b, c.a)} {
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v, %v: %s", c.a, c.b, diff)
			}
		}
	}
}
