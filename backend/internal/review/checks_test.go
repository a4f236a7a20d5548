package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// aPass is one that begins, before or after a branch moved.
func aPass(moved bool) *pass { return &pass{moved: moved, proposed: map[string]string{}} }

// shown is a Git host that keeps what it is to show.
type shown struct {
	mu    sync.Mutex
	all   []githost.Check
	fails int
	// opened are the pull requests that it was to open, and closed is at which head people
	// closed each.
	opened []githost.Pull
	closed string
	// listed is how many times it was asked for them.
	listed int
}

func (s *shown) Open(_ context.Context, _ string, p githost.Pull) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, p)
	return nil
}

func (s *shown) Opened(context.Context, string) (map[string]githost.Opened, error) {
	s.listed++
	all := map[string]githost.Opened{}
	for _, p := range s.opened {
		all[p.Branch] = githost.Opened{Page: "https://git.example.com/gitbind/1/pulls/7", Closed: s.closed}
	}
	return all, nil
}

func (s *shown) Check(_ context.Context, _ string, c githost.Check) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		return errors.New("the host answers 502")
	}
	s.all = append(s.all, c)
	return nil
}

// await waits for n checks, and gives the last one.
func (s *shown) await(t *testing.T, n int) githost.Check {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		s.mu.Lock()
		all := s.all
		s.mu.Unlock()
		if len(all) == n {
			return all[n-1]
		}
		if len(all) > n {
			t.Fatalf("%d checks, want %d: %+v", len(all), n, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no %d checks: %+v", n, s.all)
	return githost.Check{}
}

// TestLittleIsKeptOfEachOfManyChanges has two of 300 claims, one with a pull request, whose text is
// written again once main has it.
func TestLittleIsKeptOfEachOfManyChanges(t *testing.T) {
	const binding = "postgresqlinstances.anynines.com"
	w, host := newWorld(), &shown{}
	w.change.Files = nil
	for i := range githost.MaxChangedFiles {
		key := contract.Key{Binding: binding, Namespace: "team-a", Name: fmt.Sprint("orders-", i)}
		w.change.Files = append(w.change.Files, githost.FileChange{Path: key.Path(), After: "a", Is: []byte("{")})
	}
	proposal, pull := w.change.Branch, githost.PullPrefix+"7"
	w.listed = []githost.Change{{Branch: proposal}, {Branch: pull}}
	c := NewChecks(w.service(t, nil), host, nil)
	for range 2 {
		if err := c.check(t.Context(), cluster, aPass(true)); err != nil || len(host.all) != 2 || len(host.all[0].Text) < 10_000 {
			t.Fatalf("%d checks: %v", len(host.all), err)
		}
	}
	is := c.told[cluster]
	if text, claims := is[proposal].check.Text, is[proposal].claims; text != "" || len(claims) != 1 || !is[proposal].isOf(binding) {
		t.Errorf("kept are %d bytes and %d claims", len(text), len(claims))
	}
	if text, claims := is[pull].check.Text, is[pull].claims; text != host.all[1].Text || len(claims) != githost.MaxChangedFiles {
		t.Errorf("of a pull request are kept %d bytes and %d claims", len(text), len(claims))
	}
}

// A host may be away, or refuse to write, for longer than the queue tries at once.
func TestAChangeIsShownHoweverLongTheHostFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, host := newWorld(), &shown{fails: 30}
		c := NewChecks(w.service(t, nil), host, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/" + w.change.Branch})
		time.Sleep(time.Hour)
		synctest.Wait()
		host.mu.Lock()
		shown, fails := len(host.all), host.fails
		host.mu.Unlock()
		if shown != 1 {
			t.Errorf("%d checks within an hour; it would fail %d times more", shown, fails)
		}
		cancel()
		running.Wait()
	})
}

// counting is a host of which each check takes three requests, and a look at pull requests one.
type counting struct {
	shown
	// asked is how many it was sent, by cluster, and shows the commit of the newest check, by cluster
	// and branch.
	asked map[string]int
	shows map[[2]string]string
}

func (h *counting) ask(ctx context.Context, cluster string, requests int) {
	h.asked[cluster] += requests
	for range requests {
		githost.CountRequest(ctx)
	}
}

func (h *counting) Check(ctx context.Context, cluster string, c githost.Check) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask(ctx, cluster, 3)
	h.shows[[2]string{cluster, c.Branch}] = c.Commit
	return nil
}

func (h *counting) Opened(ctx context.Context, cluster string) (map[string]githost.Opened, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask(ctx, cluster, 1)
	return h.shown.Opened(ctx, cluster)
}

// moving is a Git with many changes of each cluster, all at one head.
type moving struct {
	*world
	changes int

	mu    sync.Mutex
	heads map[string]string
}

func (m *moving) Branches(context.Context, string) (all []string, err error) {
	for i := range m.changes {
		all = append(all, fmt.Sprintf("changes/%03d", i))
	}
	return all, nil
}

func (m *moving) Change(_ context.Context, cluster, branch string) (*githost.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.change
	c.Branch, c.Head = branch, m.heads[cluster]
	return &c, nil
}

func newCounting(t *testing.T, changes int) (*moving, *counting, *Checks) {
	w, host := newWorld(), &counting{asked: map[string]int{}, shows: map[[2]string]string{}}
	git := &moving{world: w, changes: changes, heads: map[string]string{}}
	s := w.service(t, nil)
	s.Git, s.Now = git, time.Now
	c := NewChecks(s, host, func(string, restapi.RefEvent) {})
	c.Pace = &githost.Pace{Every: 5 * time.Second}
	var running sync.WaitGroup
	running.Go(func() { c.Run(t.Context()) })
	t.Cleanup(running.Wait)
	return git, host, c
}

// TestAClusterThatPushesAllTheTimeLeavesOthersTheRateLimit has one with many changes, each of which
// becomes another one every ten seconds. In the end all are shown as they are.
func TestAClusterThatPushesAllTheTimeLeavesOthersTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git, host, c := newCounting(t, 400)
		push := func(cluster string) {
			git.mu.Lock()
			git.heads[cluster] = fmt.Sprintf("%040x", time.Now().UnixNano())
			git.mu.Unlock()
			c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/changes/000"})
		}
		const pushes, every = 360, 10 * time.Second
		for range pushes {
			push("hostile")
			time.Sleep(every)
		}
		synctest.Wait()
		if n := host.asked["hostile"]; n < 900 || n > 1100 {
			t.Errorf("within an hour the host is asked %d times", n)
		}
		push("other")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := host.asked["other"]; n < 300 {
			t.Errorf("of another cluster the host is asked %d times", n)
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		for _, cluster := range []string{"hostile", "other"} {
			wrong := 0
			for i := range git.changes {
				if host.shows[[2]string{cluster, fmt.Sprintf("changes/%03d", i)}] != git.heads[cluster] {
					wrong++
				}
			}
			if wrong > 0 {
				t.Errorf("%d changes of the cluster %s do not show what they are", wrong, cluster)
			}
		}
	})
}

// TestThePullRequestsOfAClusterAreListedOnceForAllOfItsChanges has more changes than are looked at
// in one round.
func TestThePullRequestsOfAClusterAreListedOnceForAllOfItsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		git, host, c := newCounting(t, 400)
		name, email := contract.Identity("dora", cluster)
		git.change.Commits = []githost.Commit{{Author: name, Email: email}}
		c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/changes/000"})
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		host.mu.Lock()
		opened, listed := len(host.opened), host.listed
		host.mu.Unlock()
		if opened != 400 || listed != 1 {
			t.Errorf("%d pull requests are opened, and they are listed %d times", opened, listed)
		}
	})
}

func TestAKonnectorThatAsksIsToldWhatIsKnownWhileItsClusterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, host, c := newCounting(t, 0)
		is := func(what string, want int) {
			t.Helper()
			if _, err := c.Opened(t.Context(), cluster); err != nil || host.asked[cluster] != want {
				t.Errorf("%s: the host was asked %d times, want %d: %v", what, host.asked[cluster], want, err)
			}
		}
		for ctx := c.Pace.With(t.Context(), cluster); c.Pace.Wait(cluster) < time.Minute; {
			githost.CountRequest(ctx)
		}
		is("first", 1)
		time.Sleep(2 * openedKept)
		is("while it waits", 1)
		time.Sleep(time.Hour)
		is("later", 2)
	})
}

// TestAChangeThatIsReviewedElsewhereShowsWhatTheControlPlaneSays plays a change, and main
// moving underneath.
func TestAChangeThatIsReviewedElsewhereShowsWhatTheControlPlaneSays(t *testing.T) {
	const binding = "postgresqlinstances.anynines.com"
	export, err := os.ReadFile("../../../gitbridge/internal/export/testdata/postgresqlinstances.export.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	w.files = map[string][]byte{contract.ExportPath(binding): export}
	key := contract.Key{Binding: binding, Namespace: "team-a", Name: "orders"}
	order := func(plan string) {
		w.change.Files = []githost.FileChange{{Path: key.Path(), After: "a", Is: []byte("apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: orders, namespace: team-a}\nspec: {service: a9s-postgresql13, plan: " + plan + "}\n")}}
	}
	order("huge")
	host := &shown{fails: 3}
	service := w.service(t, nil)
	service.Elsewhere = func(cluster string) string { return "https://git.example.com/gitbind/" + cluster }
	c := NewChecks(service, host, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })

	// The host fails at first.
	c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/" + w.change.Branch})
	got := host.await(t, 1)
	if got.OK || got.Commit != w.change.Head || got.URL != "/clusters/"+cluster+"/"+w.change.Branch || !strings.HasPrefix(got.Words, `team-a/orders would be refused: spec.plan: Unsupported value: "huge"`) || len([]rune(got.Words)) > githost.MaxWords {
		t.Errorf("%+v", got)
	}
	// What it shows already is not said again.
	if err := c.check(ctx, cluster, aPass(true)); err != nil {
		t.Fatal(err)
	}
	order("postgresql-single-nano")
	c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/status"})
	c.Moved(cluster, restapi.RefEvent{Ref: "refs/heads/main"})
	if got := host.await(t, 2); !got.OK || got.Words != "It orders 1 service" {
		t.Errorf("%+v", got)
	}

	// Here, people only look.
	seen, err := service.Change(t.Context(), login.Identity{Username: "alice"}, cluster, w.change.Branch)
	if err != nil || seen.MayApprove || seen.MayComment || seen.MayReject || !strings.Contains(seen.Blocked, "https://git.example.com/gitbind/"+cluster) {
		t.Errorf("%+v, %v", seen, err)
	}
}

// What a konnector proposes gets a pull request where changes are reviewed elsewhere, and the
// konnector is told when people close that.
func TestAKonnectorsProposalGetsAPullRequest(t *testing.T) {
	w, host := newWorld(), &shown{}
	s := w.service(t, nil)
	s.Elsewhere, s.Pulls = func(string) string { return "https://git.example.com/gitbind/1" }, host
	var events []restapi.RefEvent
	c := NewChecks(s, host, func(_ string, e restapi.RefEvent) { events = append(events, e) })
	look := func(what string, opened int) {
		t.Helper()
		if err := c.check(t.Context(), cluster, aPass(true)); err != nil || len(host.opened) != opened {
			t.Fatalf("%s: opened %+v, %v", what, host.opened, err)
		}
	}
	look("a branch of bob's", 0)
	name, email := contract.Identity("<b>dora</b>", cluster)
	w.change.Head, w.change.Subject = strings.Repeat("c", 40), "claim: update team-a/orders"
	made := githost.Commit{Author: name, Email: email}
	w.change.Commits = append([]githost.Commit{made}, w.change.Commits...)
	look("a commit of the konnector's on top of bob's", 1)
	if !host.opened[0].Shared {
		t.Errorf("opened for bob: %+v", host.opened[0])
	}
	host.opened = nil
	w.change.Head, w.change.Commits = strings.Repeat("b", 40), []githost.Commit{made}
	look("a branch of the konnector's", 1)
	if p := host.opened[0]; p.Branch != w.change.Branch || p.Head != w.change.Head || p.Title != w.change.Subject || strings.Contains(p.Text, "<b>") || !strings.Contains(p.Text, "dora") {
		t.Errorf("opened %+v", p)
	}
	look("the same again", 1)
	host.closed = w.change.Head
	look("closed", 1)
	told := func(head string) restapi.RefEvent {
		return restapi.RefEvent{Ref: "refs/heads/" + w.change.Branch, Hash: head, Reviewed: true}
	}
	if diff := cmp.Diff([]restapi.RefEvent{told(strings.Repeat("c", 40)), told(w.change.Head)}, events); diff != "" {
		t.Errorf("told, once as it was opened and once as it was closed:\n%s", diff)
	}
	branch := w.change.Branch
	w.change.Branch = githost.PullPrefix + "7"
	look("the copy of a pull request", 1)

	ask := func() restapi.Proposal {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/v1/clusters/"+cluster+"/proposal?branch="+branch+"&commit="+seenHead, nil)
		got, err := s.proposal(r, access.Caller{Role: access.Konnector, Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		return got.(restapi.Proposal)
	}
	w.outcome.Head = seenHead
	for closed, want := range map[string]restapi.ProposalState{"": restapi.ProposalOpen, seenHead: restapi.ProposalRejected, strings.Repeat("c", 40): restapi.ProposalOpen} {
		host.closed = closed
		if got := ask(); got.State != want || got.Page != "https://git.example.com/gitbind/1/pulls/7" {
			t.Errorf("closed at %q: %+v", closed, got)
		}
	}
	host.closed, w.outcome.Merged = seenHead, true
	if got := ask(); got.State != restapi.ProposalMerged {
		t.Errorf("merged: %+v", got)
	}
}

// TestManyProposalsAskTheHostOnce has a konnector ask for each of what it has proposed, once a
// minute.
func TestManyProposalsAskTheHostOnce(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w, host := newWorld(), &shown{opened: []githost.Pull{{Branch: "changes/a"}}}
	s := w.service(t, nil)
	s.Now = func() time.Time { return now }
	c := NewChecks(s, host, func(string, restapi.RefEvent) {})
	for i, step := range []struct {
		after  time.Duration
		closed string
		told   bool // by the host, of what people did
		listed int
	}{
		{0, "", false, 1},
		{0, "", false, 1},
		{openedKept - 1, "a", false, 1},
		{0, "a", true, 2},
		{openedKept - 1, "a", false, 2},
		{1, "a", false, 3},
	} {
		now, host.closed = now.Add(step.after), step.closed
		if step.told {
			if err := c.tell(t.Context(), cluster, nil); err != nil {
				t.Fatal(err)
			}
		}
		opened, err := c.Opened(t.Context(), cluster)
		if err != nil || host.listed != step.listed || (opened["changes/a"].Closed == "a") != (step.listed > 1) {
			t.Errorf("%d: %v, %v, the host was asked %d times", i, opened, err, host.listed)
		}
	}
}

// TestManyWhoAskAtOnceAskTheHostOnce has them ask while it has not answered the first one yet.
func TestManyWhoAskAtOnceAskTheHostOnce(t *testing.T) { synctest.Test(t, testManyWhoAskAtOnce) }

func testManyWhoAskAtOnce(t *testing.T) {
	w, host := newWorld(), &shown{}
	held := &holding{shown: host, arrived: make(chan struct{}, 100), answers: make(chan struct{})}
	c := NewChecks(w.service(t, nil), held, nil)
	ended, end := context.WithCancel(t.Context())
	end()
	defer c.Run(ended) // which ends the queue's goroutines
	left, leave := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { _, err := c.Opened(left, cluster); first <- err }()
	<-held.arrived
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := c.Opened(t.Context(), cluster); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	// Who was first does not wait, and is missed by nobody.
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("who left: %v", err)
	}
	close(held.answers)
	all.Wait()
	if host.listed != 1 {
		t.Errorf("the host was asked %d times", host.listed)
	}
}

// holding is a host that answers when it may.
type holding struct {
	*shown
	arrived, answers chan struct{}
}

func (h *holding) Opened(ctx context.Context, cluster string) (map[string]githost.Opened, error) {
	h.arrived <- struct{}{}
	select {
	case <-h.answers:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown.Opened(ctx, cluster)
}

func TestSummarize(t *testing.T) {
	claim := func(name string, does restapi.Action, problem string) restapi.ChangedFile {
		return restapi.ChangedFile{Path: name + ".yaml", Action: does, Namespace: "team-a", Name: name, Problem: problem}
	}
	waits := func(name string, does restapi.Action) restapi.ChangedFile {
		f := claim(name, does, "")
		f.Waits = "no room"
		return f
	}
	touching := func(namespaces ...string) (c githost.Change) {
		c.Files, c.Touched = []githost.FileChange{{Path: orders}}, []access.Part{access.PartOf(orders)}
		for _, ns := range namespaces {
			c.Touched = append(c.Touched, access.Part{Binding: "db", Namespace: ns})
		}
		return c
	}
	for words, c := range map[string]struct {
		change githost.Change
		files  []restapi.ChangedFile
		ok     bool
	}{
		"Main gets commits that also touch binding db, namespace b. It orders 1 service":                                          {touching("b"), []restapi.ChangedFile{claim("a", restapi.ActionCreate, "")}, true},
		"Main gets commits that also touch 2 other parts of the repository, such as binding db, namespace b. It orders 1 service": {touching("b", "c"), []restapi.ChangedFile{claim("a", restapi.ActionCreate, "")}, true},
		"It orders 1, changes 1 services, but team-a/b would wait: no room":                                                       {githost.Change{}, []restapi.ChangedFile{claim("a", restapi.ActionUpdate, ""), waits("b", restapi.ActionCreate)}, true},
		"It orders 2 services, but 2 would wait, such as team-a/a: no room":                                                       {githost.Change{}, []restapi.ChangedFile{waits("a", restapi.ActionCreate), waits("b", restapi.ActionCreate)}, true},
		"no commit in common":                                      {githost.Change{Unrelated: true}, nil, false},
		"Main has changed the same lines":                          {githost.Change{Conflicts: []string{"x"}}, nil, false},
		fmt.Sprintf("more than %d files", githost.MaxChangedFiles): {githost.Change{More: true}, nil, false},
		"It changes no service":                                    {githost.Change{}, []restapi.ChangedFile{{Path: "README.md", Action: restapi.ActionUpdate}}, true},
		"It cancels 1 service":                                     {githost.Change{}, []restapi.ChangedFile{claim("a", restapi.ActionDelete, "")}, true},
		"It orders 1, changes 2 services":                          {githost.Change{}, []restapi.ChangedFile{claim("a", restapi.ActionUpdate, ""), claim("b", restapi.ActionCreate, ""), claim("c", restapi.ActionUpdate, "")}, true},
		"team-a/a would be refused: no":                            {githost.Change{}, []restapi.ChangedFile{claim("a", restapi.ActionUpdate, "no"), claim("b", restapi.ActionCreate, "")}, false},
		"2 files would be refused, such as x.":                     {githost.Change{}, []restapi.ChangedFile{{Path: "x.yaml", Problem: "no"}, claim("b", restapi.ActionCreate, "no")}, false},
	} {
		got := summarize(&c.change, c.files, false)
		if got.OK != c.ok || !strings.Contains(got.Words, words) {
			t.Errorf("%+v, want %q", got, words)
		}
	}
	own := touching()
	if got := summarize(&own, []restapi.ChangedFile{claim("a", restapi.ActionCreate, "")}, false); got.Words != "It orders 1 service" {
		t.Errorf("its own part only: %+v", got)
	}
}
