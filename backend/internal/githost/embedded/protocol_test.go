package embedded

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/test/env"
)

// post sends one request of the smart protocol, without the GET before it.
func (s *served) post(t testing.TB, role access.Role, service string, body []byte, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(cluster)+"/"+service, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(role.String(), role.String()+"-"+cluster)
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	for _, f := range change {
		f(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// head is a branch as the repository has it.
func (s *served) head(t testing.TB, ref string) string {
	t.Helper()
	h, err := readRef(s.bare(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// packOf is the pack of what clone c has and main has not.
func (c *clone) packOf(revs ...string) []byte {
	c.t.Helper()
	out, err := stockGit(c.t, c.dir, []byte(strings.Join(revs, "\n")+"\n"), "pack-objects", "--revs", "--stdout", "--quiet", "--thin", "--delta-base-offset")
	if err != nil {
		c.t.Fatalf("pack-objects: %v\n%s", err, out)
	}
	return []byte(out)
}

// pushBody is a push to main.
func pushBody(before, after string, pack []byte) []byte {
	return append([]byte(pkts(before+" "+after+" "+mainRef+"\x00report-status")), pack...)
}

func TestAPushNeedsOneRequest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Konnector)
	c.commit("x", map[string]string{claimPath: "x\n"})
	before, after := s.head(t, mainRef), strings.TrimSpace(c.git("rev-parse", "HEAD"))
	body := pushBody(before, after, c.packOf("HEAD", "^origin/main"))

	status, answer := s.post(t, access.Konnector, "git-receive-pack", body)
	if want := pkts("unpack ok\n", "ok refs/heads/main\n"); status != http.StatusOK || answer != want {
		t.Fatalf("status %d, answer %q, want %q", status, answer, want)
	}
	// The same once more: its old value is no longer the branch's.
	status, answer = s.post(t, access.Konnector, "git-receive-pack", body)
	if want := pkts("unpack ok\n", "ng refs/heads/main fetch first\n"); status != http.StatusOK || answer != want {
		t.Fatalf("stale push: status %d, answer %q, want %q", status, answer, want)
	}
	s.fsck(t)
}

func TestAFetchNeedsOneRequest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	head := s.head(t, mainRef)
	status, answer := s.post(t, access.Bridge, "git-upload-pack", []byte(pkts("want "+head+" ofs-delta no-progress\n")+"0009done\n"))
	if status != http.StatusOK || !strings.HasPrefix(answer, "0008NAK\nPACK") {
		t.Errorf("status %d, answer %.40q", status, answer)
	}
}

func TestAReplacedHeadCanStillBeFetchedByItsHash(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Bridge)
	c.git("checkout", "-q", "--orphan", "status")
	c.commit("one", map[string]string{"observed.yaml": "1\n"})
	c.pushed("HEAD:status")
	replaced := s.head(t, statusRef)
	c.git("commit", "-q", "--amend", "-m", "two")
	c.pushed("--force", "HEAD:status")
	status, answer := s.post(t, access.Konnector, "git-upload-pack", []byte(pkts("want "+replaced+" ofs-delta\n")+"0009done\n"))
	if status != http.StatusOK || !strings.Contains(answer, "PACK") {
		t.Errorf("status %d, answer %.80q", status, answer)
	}
}

func TestShallowAndPartialClonesWork(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Konnector)
	for i := range 5 {
		c.commit("x", map[string]string{claimPath: fmt.Sprintln(i)})
	}
	c.pushed("HEAD:main")
	for _, how := range []string{"--depth=1", "--filter=blob:none", "--single-branch"} {
		dir := t.TempDir()
		if out, err := stockGit(t, "", nil, "clone", "-q", how, s.remote(access.Owner, cluster), dir); err != nil {
			t.Errorf("clone %s: %v\n%s", how, err, out)
		}
		shallow := &clone{t: t, dir: dir}
		shallow.as(emails[access.Owner])
		shallow.commit("from "+how, map[string]string{"x" + how: "x\n"})
		shallow.pushed("HEAD:main")
	}
	s.fsck(t)
}

func TestPathTricksInTheURLReachNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	good := "/git/" + cluster + ".git"
	for _, path := range []string{
		"/git/../git/" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git/./" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git//" + cluster + ".git/info/refs?service=git-upload-pack",
		"//git/" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git/%2e%2e/" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git/..%2f" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git/" + other + "%2f..%2f" + cluster + ".git/info/refs?service=git-upload-pack",
		"/git/" + cluster + "%00.git/info/refs?service=git-upload-pack",
		"/git/" + cluster + ".git%00/info/refs?service=git-upload-pack",
		"/git/" + strings.ToUpper(cluster) + ".git/info/refs?service=git-upload-pack",
		"/git/" + cluster + ".GIT/info/refs?service=git-upload-pack",
		"/git/" + cluster + "%2Egit/info/refs?service=git-upload-pack",
		"/git/" + cluster + "/info/refs?service=git-upload-pack",
		good + "/HEAD", good + "/config", good + "/objects/info/packs", good + "/info/refs/", good + "/info%2Frefs?service=git-upload-pack",
		"/git/gitconfig", "/git/", "/git", "/git/.new-x.git/info/refs?service=git-upload-pack",
	} {
		if got := rawGet(t, s, path); got != "404" {
			t.Errorf("GET %q: %s, want 404", path, got)
		}
	}
	for _, query := range []string{"", "?service=git-upload-archive", "?service=upload-pack", "?service=git-receive-pack%00"} {
		if got := rawGet(t, s, good+"/info/refs"+query); got != "400" {
			t.Errorf("GET info/refs%s: %s, want 400", query, got)
		}
	}
	if got := rawGet(t, s, good+"/info/refs?service=git-upload-pack"); got != "200" {
		t.Errorf("the real path: %s, want 200", got)
	}
}

// rawGet writes the request line as it stands: clients tidy paths up. It gives
// the status.
func rawGet(t *testing.T, s *served, target string) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: x\r\nAuthorization: Basic b3duZXI6b3duZXItazN4OWQyYWJxdw==\r\n\r\n", target)
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) < 12 {
		t.Fatalf("GET %s: %v %q", target, err, answer)
	}
	return string(answer[9:12])
}

func TestWhoIsNotLetInIsAskedForACredential(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, id := range []string{cluster, "nosuchrepo"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL(id)+"/info/refs?service=git-upload-pack", nil)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: status %d, WWW-Authenticate %q", id, resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestAPushThatCannotBeReadIsRefusedWithWords(t *testing.T) {
	t.Parallel()
	s := serve(t)
	head := s.head(t, mainRef)
	gz := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Bytes()
	}
	encoded := func(e string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Encoding", e) }
	}
	for _, c := range []struct {
		name   string
		body   []byte
		change func(*http.Request)
		status int
		words  string
	}{
		{"garbage", []byte("hello"), nil, 400, "no push that can be read"},
		{"push options", []byte(pkts(head + " " + ones + " refs/heads/main\x00push-options")), nil, 400, "push-options is not supported"},
		{"a wrong content type", nil, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 400, "content type"},
		{"a wrong method", nil, func(r *http.Request) { r.Method = "PUT" }, 400, "POST"},
		{"an unknown encoding", nil, encoded("br"), 400, "content encoding"},
		{"broken gzip", []byte("hello, this is no gzip"), encoded("gzip"), 400, "damaged"},
		{"a gzip bomb", gz(make([]byte, 5<<20)), encoded("gzip"), 413, "larger than 4 MiB"},
		{"too large", make([]byte, 5<<20), nil, 413, "larger than 4 MiB"},
		{"a good question in gzip", gz([]byte(flushPkt)), encoded("gzip"), 200, ""},
		{"no pack where one is due", []byte(pkts(head + " " + ones + " refs/heads/main\x00report-status")), nil, 200, "neither the push nor the repository has commit 1111111111"},
		{"a branch deleted that is not there", []byte(pkts(zeros + " " + zeros + " refs/heads/changes/none\x00report-status")), nil, 200, "ng refs/heads/changes/none gitbind: there is no such branch to delete"},
		{"a broken pack", pushBody(head, ones, []byte("PACK and more")), nil, 200, "malformed pack"},
	} {
		s.cfg.MaxPush = 4 << 20
		change := c.change
		if change == nil {
			change = func(*http.Request) {}
		}
		status, answer := s.post(t, access.Owner, "git-receive-pack", c.body, change)
		if status != c.status || !strings.Contains(answer, c.words) {
			t.Errorf("%s: status %d, answer %q; want %d, %q", c.name, status, answer, c.status, c.words)
		}
	}
	if got := s.head(t, mainRef); got != head {
		t.Errorf("main moved to %s", got)
	}
	status, answer := s.post(t, access.Owner, "git-upload-pack", make([]byte, maxUploadRequest+1), func(*http.Request) {})
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "the fetch names more commits than fit into 8 MiB") {
		t.Errorf("a fetch that is too large: %d, %q", status, answer)
	}
}

func TestPathTricksInRefNamesReachNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	theirs, err := readRef(filepath.Join(s.git.dir, other+".git"), mainRef)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{
		"refs/heads/changes/../../../../" + other + ".git/refs/heads/main",
		"refs/heads/changes/../../../../gitconfig", "refs/heads/changes/../main", "refs/heads/changes/./x", "refs/heads/changes//x",
		"refs/heads/changes/x.lock", "refs/heads/conflicts/../../../config",
	} {
		// The same answer, whether or not the path is there and holds that hash.
		status, answer := s.post(t, access.Konnector, "git-receive-pack", []byte(pkts(theirs.String()+" "+zeros+" "+ref+"\x00report-status")))
		if status != 400 || !strings.Contains(answer, "is no ref name") {
			t.Errorf("%s: status %d, answer %q", ref, status, answer)
		}
	}
}

func TestAPushIsRefusedWhen(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Konnector)
	c.commit("one", map[string]string{claimPath: "1\n"})
	c.commit("two", map[string]string{claimPath: "2\n"})
	head := s.head(t, mainRef)
	tip := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	tree := strings.TrimSpace(c.git("rev-parse", "HEAD^{tree}"))
	blob := strings.TrimSpace(c.git("rev-parse", "HEAD:"+claimPath))
	all := c.packOf("HEAD", "^origin/main")
	for name, body := range map[string][]byte{
		"its head is a tree":                   pushBody(head, tree, all),
		"its head is a file":                   pushBody(head, blob, all),
		"a commit in between is missing":       pushBody(head, tip, c.packOf("HEAD", "^HEAD~1")),
		"it starts from a head that never was": pushBody(ones, tip, all),
		"it creates what exists":               pushBody(zeros, tip, all),
		"it deletes what does not exist":       []byte(pkts(ones + " " + zeros + " refs/heads/changes/x\x00report-status")),
	} {
		status, answer := s.post(t, access.Konnector, "git-receive-pack", body)
		if status != 200 || !strings.Contains(answer, "ng refs/heads/") {
			t.Errorf("%s: status %d, answer %q", name, status, answer)
		}
	}
	// What git alone can see: a tree of the push names a file that nobody has.
	status, answer := s.post(t, access.Konnector, "git-receive-pack", pushBody(head, tip, withoutBlobs(t, c)))
	if status != 200 || !strings.Contains(answer, "ng refs/heads/main") {
		t.Errorf("a file is missing: status %d, answer %q", status, answer)
	}
	if got := s.head(t, mainRef); got != head {
		t.Errorf("main moved to %s", got)
	}
	s.fsck(t)
}

// withoutBlobs packs the commits and trees of the last two commits only.
func withoutBlobs(t *testing.T, c *clone) []byte {
	t.Helper()
	var names []string
	for _, line := range strings.Split(c.git("rev-list", "--objects", "--filter=blob:none", "HEAD", "^origin/main"), "\n") {
		if f := strings.Fields(line); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	out, err := stockGit(t, c.dir, []byte(strings.Join(names, "\n")+"\n"), "pack-objects", "--stdout", "--quiet")
	if err != nil {
		t.Fatal(err, out)
	}
	return []byte(out)
}

func TestAPushThatWouldTakeLongToCompareIsRefusedAtOnce_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	s := serve(t)
	// A root folder with many names, and bindings/ last and never the same.
	folder := func(names int, last byte) []byte {
		var b bytes.Buffer
		for i := range names {
			fmt.Fprintf(&b, "100644 %06x\x00%s", i, strings.Repeat("x", 20))
		}
		fmt.Fprintf(&b, "40000 bindings\x00%s", bytes.Repeat([]byte{last}, 20))
		return b.Bytes()
	}
	who := fmt.Sprintf("<k@%s.clusters.gitbind.dev> 1 +0000\n", cluster)
	main := s.head(t, mainRef)
	for _, c := range []struct {
		name, words, headers string
		names, commits       int
	}{
		{"a large root folder in many commits", "a folder of", "", 50_000, 4000},
		{"the largest root folder in many commits", "changes files below bindings/", "", 25_000, 4000},
		{"a commit of headers", "bytes of headers", strings.Repeat("a\n", 3<<18), 1, 1},
	} {
		var entries []packEntry
		var roots []plumbing.Hash
		for _, last := range []byte{'a', 'b'} {
			data := folder(c.names, last)
			roots = append(roots, plumbing.ComputeHash(plumbing.TreeObject, data))
			entries = append(entries, packEntry{typ: typeTree, data: data})
		}
		head := main
		for i := range c.commits {
			data := fmt.Appendf(nil, "tree %s\nparent %s\nauthor k %scommitter k %s%s\nx\n", roots[i%2], head, who, who, c.headers)
			head = plumbing.ComputeHash(plumbing.CommitObject, data).String()
			entries = append(entries, packEntry{typ: typeCommit, data: data})
		}
		body := pushBody(main, head, handmadePack(entries...))
		start := time.Now()
		status, answer := s.post(t, access.Konnector, "git-receive-pack", body)
		if status != 200 || !strings.Contains(answer, c.words) {
			t.Errorf("%s: status %d, answer %q, want %q", c.name, status, answer, c.words)
		}
		// Minutes or hours, when each commit's root is read again.
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: %s", c.name, took)
		}
	}
}

func TestPushesAtTheSameTimeLoseNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for w := range writers {
		c := s.clone(t, access.Owner)
		wg.Go(func() {
			for i := range each {
				c.commit("x", map[string]string{fmt.Sprintf("w%d-%d", w, i): "x\n"})
				for {
					if _, err := stockGit(t, c.dir, nil, "push", "-q", "origin", "HEAD:main"); err == nil {
						break
					}
					c.git("pull", "-q", "--rebase", "origin", "main")
				}
			}
		})
	}
	wg.Wait()
	c := s.clone(t, access.Owner)
	if got := len(strings.Fields(c.git("ls-files"))); got != writers*each+1 {
		t.Errorf("%d files, want %d", got, writers*each+1)
	}
	if got := len(s.moves.list()); got != writers*each {
		t.Errorf("%d moves announced, want %d", got, writers*each)
	}
	if got, want := s.moves.list()[writers*each-1].Hash, s.head(t, mainRef); got != want {
		t.Errorf("last announced %s, main is %s", got, want)
	}
	s.fsck(t)
}

func TestAClientThatStopsSendingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := serve(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /git/%s.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Basic b3duZXI6b3duZXItazN4OWQyYWJxdw==\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: 1000\r\n\r\n00", cluster)

	c := s.clone(t, access.Owner)
	c.commit("x", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
}

func TestGitEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	repo, _, _ := s.repository(cluster)
	cmd := repo.git.command(ctx, repo.dir, "cat-file", "--batch-command")
	in, _ := cmd.StdinPipe()
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("git goes on without its request")
	}
}

func TestCreateAtTheSameTimeMakesOneRepository(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Create(t.Context(), "a7racing22"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(s.git.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".new-") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	heads, err := s.Heads(t.Context(), "a7racing22")
	if err != nil || len(heads) != 1 || heads[0].Ref != mainRef {
		t.Errorf("heads %v, %v", heads, err)
	}
	for _, id := range []string{"", "../x", "a/b", "A", "a.b", "a-b", "1a", strings.Repeat("a", 64)} {
		if err := s.Create(t.Context(), id); err == nil {
			t.Errorf("made a repository named %q", id)
		}
	}
}

func TestAnEndInTheMiddleOfACreateLeavesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	left := filepath.Join(s.git.dir, newPrefix+"a7half2222-1")
	if err := os.MkdirAll(filepath.Join(left, "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Config{Dir: s.git.dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if heads, err := s.Heads(t.Context(), cluster); err != nil || len(heads) != 1 {
		t.Errorf("the others: %v, %v", heads, err)
	}
}

func TestARepositoryThatAnOperatorRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.clone(t, access.Owner)
	if err := os.RemoveAll(s.bare()); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Exists(t.Context(), cluster); ok || err != nil {
		t.Errorf("it still exists: %v, %v", ok, err)
	}
	if err := s.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	c := s.clone(t, access.Owner)
	c.commit("x", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
	s.fsck(t)
}

func TestLocksOfAGitThatWasKilledEndWithTheNextStart(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	c.pushed("HEAD:changes/mine")
	var locks []string
	for _, name := range []string{"refs/heads/main.lock", "refs/heads/changes/mine.lock", "packed-refs.lock", "objects/pack/multi-pack-index.lock"} {
		locks = append(locks, filepath.Join(s.bare(), name))
	}
	// The clock of one was a day ahead.
	for i, path := range locks {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		made := time.Now().Add(-time.Second)
		if i == 0 {
			made = made.AddDate(0, 0, 1)
		}
		if err := os.Chtimes(path, time.Time{}, made); err != nil {
			t.Fatal(err)
		}
	}
	c.commit("x", map[string]string{"x": "x\n"})
	c.refused("cannot lock ref", "HEAD:main")

	next := newHost(t, s.cfg)
	mine := filepath.Join(s.bare(), "refs", "heads", "status.lock")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := next.repository(cluster); err != nil {
		t.Fatal(err)
	}
	for _, path := range locks {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("a lock of now: %v", err)
	}
	c.pushed("HEAD:main", ":changes/mine")
	s.fsck(t)
}

func TestRefsAreReadWhereverGitKeepsThem(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	c.pushed("HEAD:changes/a/b")
	want := s.head(t, mainRef)
	if out, err := stockGit(t, s.bare(), nil, "pack-refs", "--all", "--prune"); err != nil {
		t.Fatal(out)
	}
	for ref, hash := range map[string]string{mainRef: want, "refs/heads/changes/a/b": want, "refs/heads/changes/a": zeros, "refs/heads/changes/a/b/c": zeros, statusRef: zeros} {
		if got := s.head(t, ref); got != hash {
			t.Errorf("%s is %s, want %s", ref, got, hash)
		}
	}
	if got := (plumbing.Hash{}).String(); got != zeros {
		t.Fatal("zero hash")
	}
	c.commit("x", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
	c.pushed(":changes/a/b")
	s.fsck(t)
}

func TestRepositoriesAreRepackedWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *Config) { c.RepackAfter = 8 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	defer func() { cancel(); <-done }()

	c := s.clone(t, access.Konnector)
	for i := range 18 {
		c.commit("x", map[string]string{claimPath: fmt.Sprintln(i)})
		c.pushed("HEAD:main")
	}
	repo, _, _ := s.repository(cluster)
	deadline := time.Now().Add(time.Minute)
	for repo.packs() > 8 || repo.isCollectDue(time.Now()) {
		if time.Now().After(deadline) {
			t.Fatalf("%d packs after 18 pushes", repo.packs())
		}
		time.Sleep(20 * time.Millisecond)
	}
	// Twice: the first lets go of what nobody reaches, the next only rolls up.
	for range 2 {
		s.repackOne(t.Context(), repo)
		if got := repo.packs(); got > 3 {
			t.Errorf("%d packs after a repack", got)
		}
		s.fsck(t)
	}
	c.commit("after", map[string]string{claimPath: "after\n"})
	c.pushed("HEAD:main")
	s.fsck(t)
}
