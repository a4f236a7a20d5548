package clone

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const orders = "bindings/databases.example.com/claims/team-a/orders.yaml"

// host is a bare repository with a history that is given as git fast-import
// takes it.
func host(t testing.TB, history string) (url string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(t.TempDir(), "gitconfig"))
	dir := t.TempDir()
	git(t, dir, "", "init", "-q", "--bare", "-b", "main")
	git(t, dir, "", "config", "uploadpack.allowFilter", "true")
	git(t, dir, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	git(t, dir, history, "fast-import", "--quiet")
	return "file://" + dir
}

func git(t testing.TB, dir, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit is a commit for fast-import.
func commit(i int, author, message string, files ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/main\nauthor %s %d +0000\ncommitter konnector <konnector@c1.clusters.gitbind.dev> %d +0000\ndata %d\n%s\n", author, 1767225600+i, 1767225600+i, len(message), message)
	for i := 0; i < len(files); i += 2 {
		if files[i+1] == "" {
			fmt.Fprintf(&b, "D %s\n", files[i])
		} else {
			fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", files[i], len(files[i+1]), files[i+1])
		}
	}
	return b.String()
}

const (
	alice = "alice <alice@c1.clusters.gitbind.dev>"
	bob   = "bob <bob@c1.clusters.gitbind.dev>"
)

func aHistory() string {
	const other = "bindings/databases.example.com/claims/team-a/other.yaml"
	return commit(0, alice, "create orders\n\nGitbind-Cluster: c1", orders, "plan: small\n") +
		commit(1, bob, "create other", other, "plan: small\n") +
		commit(2, alice, "update orders\n\nsomething\n\nCo-authored-by: bob <bob@c1.clusters.gitbind.dev>\nco-authored-by: Carol C <carol@example.com>", orders, "plan: big\n") +
		commit(3, bob, "delete orders", orders, "") +
		commit(4, alice, "create orders\n\x1b[31mred", orders, "plan: medium\n", other, "plan: big\n")
}

// TestApprovalsAreOfWhatAReviewMerged has a file that only proposals touch, one of them after
// others, and a push that merges what others pushed meanwhile.
func TestApprovalsAreOfWhatAReviewMerged(t *testing.T) {
	made := func(branch string, mark int, parents, author, message, file string, content int) string {
		return fmt.Sprintf("commit refs/heads/%s\nmark :%d\nauthor %s %d +0000\ncommitter %s %d +0000\ndata %d\n%s\n%sM 100644 inline %s\ndata 3\n%02d\n",
			branch, mark, author, 1767225600+mark, author, 1767225600+mark, len(message), message, parents, file, content)
	}
	merge := func(mark int, parents, message string, content int) string {
		return made("main", mark, parents, "gitbind <gitbind@example.com>", message, orders, content)
	}
	c := opened(t, host(t, made("main", 1, "", alice, "begin", "README.md", 1)+
		made("side", 2, "from :1\n", bob, "propose", orders, 2)+
		made("side", 3, "from :2\n", bob, "propose something else", "README.md", 3)+
		made("main", 4, "from :1\n", alice, "meanwhile", "other.yaml", 4)+
		merge(5, "from :4\nmerge :3\n", "Merge 1\n\nProposed-by: bob\nApproved-by: oidc:carol@example.com", 2)+
		made("again", 6, "from :5\n", bob, "propose more", orders, 6)+
		made("main", 7, "from :5\n", alice, "push", orders, 7)+
		merge(8, "from :7\nmerge :6\n", "Merge 2\n\nApproved-by: oidc:dave@example.com", 6)+
		made("main", 9, "from :8\n", alice, "by kubectl", orders, 9)+
		made("local", 10, "from :8\n", bob, "not pushed yet", "README.md", 10)+
		merge(11, "from :10\nmerge :9\n", "Merge branch 'main' by a pull", 9)))
	commits, err := c.Log(t.Context(), orders, 0)
	if err != nil {
		t.Fatal(err)
	}
	approvals, err := c.Approvals(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, commit := range commits {
		got[commit.Subject()] = approvals[commit.Hash]
	}
	if diff := cmp.Diff(map[string]string{"propose": "oidc:carol@example.com", "propose more": "oidc:dave@example.com", "by kubectl": ""}, got); diff != "" {
		t.Error(diff)
	}
}

func opened(t testing.TB, url string) *Clone {
	t.Helper()
	c, err := Open(t.Context(), Source{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLogOfAFileThatWasRemovedAndMadeAgain(t *testing.T) {
	c := opened(t, host(t, aHistory()))
	commits, err := c.Log(t.Context(), orders, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range commits {
		got = append(got, fmt.Sprintf("%s %s: %s: %s", c.Time.Format(time.TimeOnly), c.Author.Name, c.Change, c.Subject()))
	}
	if diff := cmp.Diff([]string{
		"00:00:04 alice: created: create orders",
		"00:00:03 bob: removed: delete orders",
		"00:00:02 alice: changed: update orders",
		"00:00:00 alice: created: create orders",
	}, got); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]Person{{"bob", "bob@c1.clusters.gitbind.dev"}, {"Carol C", "carol@example.com"}}, commits[2].CoAuthors); diff != "" {
		t.Error(diff)
	}
	if first, err := c.Log(t.Context(), orders, 1); err != nil || len(first) != 1 || first[0].Hash != commits[0].Hash {
		t.Errorf("at most one: %v, %v", first, err)
	}
	if none, err := c.Log(t.Context(), "bindings/*", 0); err != nil || len(none) != 0 {
		t.Errorf("a path is no pattern: %v, %v", none, err)
	}
	files, err := c.Read(t.Context(), []string{commits[0].New, commits[0].Old, commits[1].Old, commits[3].New})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{commits[0].New: []byte("plan: medium\n"), commits[1].Old: []byte("plan: big\n"), commits[3].New: []byte("plan: small\n")}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
}

func TestEachCallSeesWhatIsOnMainNow(t *testing.T) {
	url := host(t, "")
	c := opened(t, url)
	if commits, err := c.Log(t.Context(), orders, 0); err != nil || len(commits) != 0 {
		t.Fatalf("an empty repository: %v, %v", commits, err)
	}
	dir := strings.TrimPrefix(url, "file://")
	git(t, dir, aHistory(), "fast-import", "--quiet")
	c = opened(t, url)
	files, err := c.Files(t.Context(), "bindings/databases.example.com/claims")
	if err != nil || len(files) != 2 || files[0].Path != orders || files[0].Mode != 0o100644 {
		t.Fatalf("files: %v, %v", files, err)
	}
	// A main that was rewritten.
	git(t, dir, commit(9, bob, "again", orders, "plan: tiny\n"), "fast-import", "--quiet", "--force")
	c = opened(t, url)
	if commits, err := c.Log(t.Context(), orders, 0); err != nil || len(commits) != 1 {
		t.Fatalf("a main that was rewritten: %v, %v", commits, err)
	}
}

func TestAMergeShowsWhoMadeTheChange(t *testing.T) {
	url := host(t, commit(0, alice, "create", orders, "plan: small\n"))
	dir := strings.TrimPrefix(url, "file://")
	git(t, dir, "commit refs/heads/topic\nauthor "+bob+" 1767225602 +0000\ncommitter "+bob+" 1767225602 +0000\ndata 6\nbigger\nfrom refs/heads/main^0\nM 100644 inline "+orders+"\ndata 10\nplan: big\n\n"+
		"commit refs/heads/main\nauthor "+alice+" 1767225603 +0000\ncommitter "+alice+" 1767225603 +0000\ndata 5\nmerge\nfrom refs/heads/main^0\nmerge refs/heads/topic\nM 100644 inline "+orders+"\ndata 10\nplan: big\n\n", "fast-import", "--quiet")
	commits, err := opened(t, url).Log(t.Context(), orders, 0)
	if err != nil || len(commits) != 2 || commits[0].Author.Name != "bob" || commits[0].Change != Changed {
		t.Fatalf("%+v, %v", commits, err)
	}
	// A merge that is itself a change.
	git(t, dir, "commit refs/heads/topic\nauthor "+bob+" 1767225604 +0000\ncommitter "+bob+" 1767225604 +0000\ndata 5\nhuge\nfrom refs/heads/main^0\nM 100644 inline "+orders+"\ndata 11\nplan: huge\n\n", "fast-import", "--quiet")
	git(t, dir, strings.Replace(commit(5, alice, "tiny"), "tiny\n", "tiny\nfrom refs/heads/main^0\nM 100644 inline "+orders+"\ndata 11\nplan: tiny\n\n", 1), "fast-import", "--quiet")
	git(t, dir, "commit refs/heads/main\nauthor "+alice+" 1767225606 +0000\ncommitter "+alice+" 1767225606 +0000\ndata 5\nmerge\nfrom refs/heads/main^0\nmerge refs/heads/topic\nM 100644 inline "+orders+"\ndata 13\nplan: medium\n\n", "fast-import", "--quiet")
	c := opened(t, url)
	if commits, err = c.Log(t.Context(), orders, 0); err != nil || len(commits) != 5 {
		t.Fatalf("%+v, %v", commits, err)
	}
	files, err := c.Read(t.Context(), []string{commits[0].Old, commits[0].New})
	if err != nil || string(files[commits[0].Old]) != "plan: tiny\n" || string(files[commits[0].New]) != "plan: medium\n" {
		t.Fatalf("the merge changed %q, %v", files, err)
	}
}

// The clone of a long history has no file contents, and takes seconds.
func TestALongHistoryIsNotDownloadedWithItsFiles(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		b.WriteString(commit(i, alice, "update", fmt.Sprintf("bindings/databases.example.com/claims/team-a/c%d.yaml", i%100), fmt.Sprintf("n: %d\n", i)))
	}
	c := opened(t, host(t, b.String()))
	out := git(t, c.dir, "", "-c", "remote.origin.promisor=true", "rev-list", "--objects", "--missing=print", "refs/heads/main")
	if missing := strings.Count("\n"+out, "\n?"); missing != 2000 {
		t.Errorf("%d of 2000 files were left out", missing)
	}
	if commits, err := c.Log(t.Context(), "bindings/databases.example.com/claims/team-a/c7.yaml", 0); err != nil || len(commits) != 20 {
		t.Errorf("%d commits, %v", len(commits), err)
	}
}

func TestTheCredentialIsForItsHostOnlyAndInNoArgument(t *testing.T) {
	env, err := Source{URL: "https://gitbind.example.com/git/x.git", Username: "a", Password: "SECRET"}.environment("")
	if err != nil {
		t.Fatal(err)
	}
	fill := func(host string) string {
		cmd := exec.CommandContext(t.Context(), "git", "credential", "fill")
		cmd.Env = append(slices.Clone(env), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = strings.NewReader("protocol=https\nhost=" + host + "\n\n")
		out, _ := cmd.Output()
		return string(out)
	}
	if got := fill("gitbind.example.com"); !strings.Contains(got, "username=a\npassword=SECRET\n") {
		t.Errorf("git gets %q", got)
	}
	for _, host := range []string{"evil.example.com", "gitbind.example.com:8443", "gitbind.example.com.evil.example"} {
		if got := fill(host); strings.Contains(got, "SECRET") {
			t.Errorf("%s gets the credential", host)
		}
	}
	for _, v := range env {
		if strings.Contains(v, "SECRET") && !strings.HasPrefix(v, passwordVariable+"=") {
			t.Errorf("the credential is in %s", v)
		}
	}
}
