package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/clusterqueue"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
)

// upstream is another Host, by its URL.
type upstream struct {
	*served
	fails, hangs atomic.Bool
	// nowhere takes requests and answers none.
	nowhere string
	// asked is how often it was asked for changes, and pages how many requests each time takes.
	asked, pages atomic.Int32
	// ahead is how far the clock of the copies is, which else stands still.
	ahead atomic.Int64
}

func (u *upstream) Remote(_ context.Context, id string) (url, username, password string, err error) {
	if u.fails.Load() {
		return "", "", "", errors.New("it is away")
	}
	if u.hangs.Load() {
		return u.nowhere, "", "", nil
	}
	return u.URL(id), "owner", "owner-" + id, nil
}

func (u *upstream) Changes(ctx context.Context, _ string) (map[string]string, error) {
	u.asked.Add(1)
	for range u.pages.Load() {
		githost.CountRequest(ctx)
	}
	return map[string]string{"refs/pull/7/head": "changes/pull-7"}, nil
}

// copyOf is a Host with copies of what another one has.
func copyOf(t *testing.T) (*upstream, *Host, *moves) {
	t.Helper()
	from, told := &upstream{served: serve(t)}, &moves{}
	host := newHost(t, Config{Dir: t.TempDir(), Authenticator: passwords{}, Moved: told.add, Upstream: from})
	began := time.Now()
	host.now = func() time.Time { return began.Add(time.Duration(from.ahead.Load())) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- host.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return from, host, told
}

const copiedFile = "bindings/databases.example.com/claims/team-a/orders.yaml"

func TestACopyIsReadLikeWhatItIsOf(t *testing.T) {
	from, host, told := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/larger")

	data, _, err := host.Read(t.Context(), cluster, "main", copiedFile)
	if err != nil || string(data) != "plan: small\n" {
		t.Fatalf("%q, %v", data, err)
	}
	// It tells of a move when it was told to look, and not before.
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:main")
	head := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	if at, err := host.Head(t.Context(), cluster, "main"); err != nil || at == head {
		t.Errorf("it looked again at once: %s, %v", at, err)
	}
	host.Look(cluster)
	soon(t, "the move is told", func() bool {
		for _, e := range told.list() {
			if e.Ref == mainRef && e.Hash == head {
				return true
			}
		}
		return false
	})
	log, err := host.Log(t.Context(), cluster, copiedFile, 10)
	if err != nil || len(log) != 2 || log[0].Hash != head || !strings.Contains(strings.Join(log[0].Diff, "\n"), "+plan: large") {
		t.Errorf("%+v, %v", log, err)
	}

	// A change that is proposed by other means than a branch has one here.
	if out, err := stockGit(t, from.bare(), nil, "update-ref", "refs/pull/7/head", head); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c.pushed("HEAD:refs/heads/changes/pull-8")
	host.Look(cluster)
	soon(t, "the change is there", func() bool {
		return slices.ContainsFunc(told.list(), func(e restapi.RefEvent) bool { return e.Ref == "refs/heads/changes/pull-7" && e.Hash == head })
	})
	if changes, _, err := host.Changes(t.Context(), cluster); err != nil || slices.ContainsFunc(changes, func(c githost.Change) bool { return c.Branch == "changes/pull-8" }) {
		t.Errorf("a branch passes for a pull request: %v, %v", changes, err)
	}
	c.pushed(":refs/heads/changes/pull-8")
	if out, err := stockGit(t, from.bare(), nil, "update-ref", "-d", "refs/pull/7/head"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// A branch that is rewritten is, and one that is gone goes.
	bridge := from.clone(t, access.Bridge)
	bridge.git("checkout", "--quiet", "--orphan", "status")
	bridge.git("rm", "-rfq", ".")
	bridge.commit("One", map[string]string{"cluster.yaml": "one\n"})
	bridge.pushed("HEAD:status")
	host.Look(cluster)
	soon(t, "status is there", func() bool { _, err := host.Head(t.Context(), cluster, "status"); return err == nil })
	bridge.git("checkout", "--quiet", "--orphan", "again")
	bridge.commit("Two", map[string]string{"cluster.yaml": "two\n"})
	bridge.pushed("+HEAD:status")
	c.pushed(":refs/heads/changes/larger")
	host.Look(cluster)
	soon(t, "status is the other one", func() bool {
		data, _, err := host.Read(t.Context(), cluster, "status", "cluster.yaml")
		return err == nil && string(data) == "two\n"
	})
	want, err := from.Heads(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Heads(t.Context(), cluster)
	if err != nil || len(got) != len(want) {
		t.Errorf("the branches are %v (%v), want %v", got, err, want)
	}

	// While that one is away there is what there was.
	from.fails.Store(true)
	host.Look(cluster)
	if data, _, err := host.Read(t.Context(), cluster, "main", copiedFile); err != nil || string(data) != "plan: large\n" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := host.Head(t.Context(), other, "main"); !errors.Is(err, githost.ErrNotFound) {
		t.Errorf("what was never copied: %v", err)
	}
}

// ref sets or deletes a ref where the copies are of, as other hosts do by their own means.
func (u *upstream) ref(t *testing.T, args ...string) {
	t.Helper()
	if out, err := stockGit(t, u.bare(), nil, append([]string{"update-ref"}, args...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestACopyFollowsWhereBranchesTakeEachOthersPlace has names that git cannot have at the same
// time: a branch is a file, and its name a folder of the others'.
func TestACopyFollowsWhereBranchesTakeEachOthersPlace(t *testing.T) {
	t.Parallel()
	from, host, told := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	first := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	from.ref(t, "refs/heads/changes/fix", first)
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Fatal(err)
	}
	for _, step := range [][2]string{{"changes/fix", "changes/fix/typo"}, {"changes/fix/typo", "changes/fix"}} {
		from.ref(t, "-d", "refs/heads/"+step[0])
		from.ref(t, "refs/heads/"+step[1], first)
		if err := host.refresh(t.Context(), cluster, 0); err != nil {
			t.Errorf("%s in the place of %s: %v", step[1], step[0], err)
		}
		moves := told.list()
		if !slices.Contains(moves, restapi.RefEvent{Ref: "refs/heads/" + step[0]}) || !slices.Contains(moves, restapi.RefEvent{Ref: "refs/heads/" + step[1], Hash: first}) {
			t.Errorf("%s in the place of %s: told %v", step[1], step[0], moves)
		}
	}
}

// TestACopyHasTheBranchesOfTheContract has a host with others, one of them in the place of a
// folder that the copy has.
// A konnector that finds its branch gone asks whether main has what it proposed.
func TestACopyHasWhatWasMergedBeforeItsBranchGoes(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/larger")
	if _, _, err := host.Read(t.Context(), cluster, "main", copiedFile); err != nil {
		t.Fatal(err)
	}
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	head := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	c.pushed("HEAD:main", ":refs/heads/changes/larger")
	repo, ok, err := host.repository(cluster)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	// Git cannot delete what is locked.
	lock := filepath.Join(repo.dir, "refs", "heads", "changes", "larger.lock")
	if err := errors.Join(os.MkdirAll(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := host.refresh(t.Context(), cluster, 0); err == nil {
		t.Fatal("the branch is gone")
	}
	if at, err := host.Head(t.Context(), cluster, "main"); err != nil || at != head {
		t.Errorf("main is at %s, %v; want %s", at, err, head)
	}
}

func TestACopyHasTheBranchesOfTheContract(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	first := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	for _, ref := range []string{"refs/heads/changes", "refs/heads/larger", "refs/heads/conflicts/a/b/c/d", "refs/pull/7/head"} {
		from.ref(t, ref, first)
	}
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Fatal(err)
	}
	heads, err := host.Heads(t.Context(), cluster)
	want := []restapi.RefEvent{{Ref: "refs/heads/changes/pull-7", Hash: first}, {Ref: "refs/heads/conflicts/a/b/c/d", Hash: first}, {Ref: mainRef, Hash: first}}
	if err != nil || !slices.Equal(heads, want) {
		t.Errorf("the copy has %v (%v), want %v", heads, err, want)
	}
}

// TestACopyHasProposalsOfAnyAPI has branches that nearly have the name of a copy of a pull request.
func TestACopyHasProposalsOfAnyAPI(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	first := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	for _, ref := range []string{"refs/pull/7/head", "refs/heads/changes/pull-7/typo", "refs/heads/changes/pull-8", "refs/heads/changes/pull-requests.example.com/team-a/7"} {
		from.ref(t, ref, first)
	}
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Fatal(err)
	}
	heads, err := host.Heads(t.Context(), cluster)
	want := []restapi.RefEvent{{Ref: "refs/heads/changes/pull-7", Hash: first}, {Ref: "refs/heads/changes/pull-requests.example.com/team-a/7", Hash: first}, {Ref: mainRef, Hash: first}}
	if err != nil || !slices.Equal(heads, want) {
		t.Errorf("the copy has %v (%v), want %v", heads, err, want)
	}
}

// TestAClusterThatPushesAllTheTimeWaits has its host be told of each push.
func TestAClusterThatPushesAllTheTimeWaits(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	from.pages.Store(100)
	host.cfg.Pace = &githost.Pace{Every: 5 * time.Second}
	var later *clusterqueue.LaterError
	looks := 0
	for ; later == nil && looks < 10; looks++ {
		if err := host.updateMoved(t.Context(), cluster); err != nil && !errors.As(err, &later) {
			t.Fatal(err)
		}
	}
	if later == nil || later.After <= 0 || int(from.asked.Load()) != looks-1 {
		t.Errorf("it waits for %+v after %d looks, for which the host was asked %d times", later, looks, from.asked.Load())
	}
	if err := host.updateMoved(t.Context(), other); errors.As(err, &later) {
		t.Error("another cluster waits, too")
	}
}

// TestNothingIsCopiedForAClusterThatIsGone has people push on where it was, and read what is there.
func TestNothingIsCopiedForAClusterThatIsGone(t *testing.T) {
	t.Parallel()
	from, host, told := copyOf(t)
	var gone atomic.Bool
	host.cfg.Knows = func(_ context.Context, id string) bool { return id == cluster && !gone.Load() }
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	if err := host.updateMoved(t.Context(), cluster); err != nil || len(told.list()) == 0 {
		t.Fatalf("while it is there %v is told: %v", told.list(), err)
	}
	gone.Store(true)
	from.ahead.Store(int64(time.Hour))
	before, asked := len(told.list()), from.asked.Load()
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/larger")
	for _, id := range []string{cluster, other} {
		if err := host.updateMoved(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if data, _, err := host.Read(t.Context(), cluster, "main", copiedFile); err != nil || string(data) != "plan: small\n" {
		t.Errorf("it has %q, %v", data, err)
	}
	if there, err := host.Exists(t.Context(), other); there || err != nil {
		t.Errorf("there is a copy of what never was: %v", err)
	}
	if len(told.list()) != before || from.asked.Load() != asked {
		t.Errorf("told %v, and the host was asked %d times", told.list()[before:], from.asked.Load()-asked)
	}
	gone.Store(false)
	if err := host.updateMoved(t.Context(), cluster); err != nil || len(told.list()) == before {
		t.Errorf("once it is there again %v is told: %v", told.list()[before:], err)
	}
}

// TestManyBranchesHideNoPullRequest has more than a list has, all of which are named before.
func TestManyBranchesHideNoPullRequest(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main", "HEAD:refs/heads/changes/merged")
	c.commit("Change", map[string]string{copiedFile: "plan: large\n"})
	c.pushed("HEAD:refs/heads/changes/a")
	head := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	update := "create refs/pull/7/head " + head + "\n"
	want := []string{"changes/a"}
	for i := range githost.MaxChanges {
		branch := fmt.Sprintf("changes/databases.example.com/team-a/%03d", i)
		want, update = append(want, branch), update+"create refs/heads/"+branch+" "+head+"\n"
	}
	if out, err := stockGit(t, from.bare(), []byte(update), "update-ref", "--stdin"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Fatal(err)
	}
	if all, err := host.Branches(t.Context(), cluster); err != nil || !slices.Equal(all, append(want, "changes/pull-7")) {
		t.Errorf("%d changes (%v): %v", len(all), err, all)
	}
	if list, more, err := host.Changes(t.Context(), cluster); err != nil || len(list) != githost.MaxChanges || !more {
		t.Errorf("a list has %d changes, and there are more: %t, %v", len(list), more, err)
	}
}

// TestACopyIsReadWhileItsHostHangs has a host that takes requests and answers none.
func TestACopyIsReadWhileItsHostHangs(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	ended := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(ended) })
	from.nowhere = silent.URL + "/x.git"
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	if _, err := host.Head(t.Context(), cluster, "main"); err != nil {
		t.Fatal(err)
	}
	host.copyWait = defaultCopyWait
	from.hangs.Store(true)
	// Who waits no longer than that reads what there is, too.
	for tries := 1; ; tries++ {
		from.ahead.Store(int64(tries) * int64(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), host.copyWait)
		_, _, err := host.Read(ctx, cluster, "main", copiedFile)
		cancel()
		if err == nil {
			break
		}
		if tries == 3 {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), copyTimeout/2)
	defer cancel()
	for range 3 {
		if data, _, err := host.Read(ctx, cluster, "main", copiedFile); err != nil || string(data) != "plan: small\n" {
			t.Fatalf("%q, %v", data, err)
		}
	}
}

// TestACopyTakesNoMoreThanItMay has a host that sends for ever.
func TestACopyTakesNoMoreThanItMay(t *testing.T) {
	from := serve(t)
	c := from.clone(t, access.Owner)
	c.commit("Order much", map[string]string{copiedFile: incompressible(3 << 20)})
	c.pushed("HEAD:main")
	u := &upstream{served: from}
	host := newHost(t, Config{Dir: t.TempDir(), Authenticator: passwords{}, Upstream: u, MaxBytes: 1 << 20})
	if err := host.refresh(t.Context(), cluster, 0); err == nil || !errors.Is(err, githost.ErrFull) {
		t.Errorf("it was taken: %v", err)
	}
}

// TestH4_ACopyHasAQuotaOfBytes has somebody push on and on to where it is of.
func TestH4_ACopyHasAQuotaOfBytes(t *testing.T) {
	t.Parallel()
	from := serve(t)
	c := from.clone(t, access.Owner)
	const most = 2 << 20
	host := newHost(t, Config{Dir: t.TempDir(), Authenticator: passwords{}, Upstream: &upstream{served: from}, MaxBytes: most})
	refused := 0
	for range 6 {
		c.commit("Order much", map[string]string{copiedFile: incompressible(900 << 10)})
		c.pushed("HEAD:main")
		if err := host.refresh(t.Context(), cluster, 0); err != nil {
			if refused++; !errors.Is(err, githost.ErrFull) || !strings.Contains(err.Error(), "2.0 MiB: give repositories more room with --max-repository-size") {
				t.Error(err)
			}
		}
	}
	repo, _, err := host.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	if size := repo.measure(); size > most || refused == 0 {
		t.Errorf("the copy has %d bytes, at most %d, and was refused %d times", size, most, refused)
	}
	isTidy(t, host)

	host.cfg.MaxBytes = 16 << 20
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Errorf("with more room: %v", err)
	}
	isTidy(t, host)
}

// TestH4_ACopyReadsNoMoreRefsThanItMay has a host with refs without an end.
func TestH4_ACopyReadsNoMoreRefsThanItMay(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := func(text string) error {
			n, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
			sent.Add(int64(n))
			return err
		}
		ones := strings.Repeat("1", 40)
		err := line("# service=" + r.FormValue("service") + "\n")
		_, _ = io.WriteString(w, "0000")
		err = errors.Join(err, line(ones+" "+mainRef+"\x00report-status\n"))
		for i := 0; err == nil && sent.Load() < 3*maxRefsAnswer; i++ {
			err = line(fmt.Sprintf("%s refs/heads/changes/%01000d\n", ones, i))
		}
	}))
	t.Cleanup(endless.Close)
	from := serve(t)
	host, err := New(t.Context(), Config{Dir: from.git.dir, Authenticator: passwords{}, Upstream: remote(endless.URL)})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"a look": func() error { return host.refresh(t.Context(), cluster, 0) },
		"a move": func() error { _, err := host.Push(t.Context(), cluster); return err },
	} {
		sent.Store(0)
		if err := do(); !errors.Is(err, errManyRefs) || sent.Load() > 2*maxRefsAnswer {
			t.Errorf("%s: after %d bytes: %v", name, sent.Load(), err)
		}
	}
}

// isTidy looks for what git leaves of a pack that it could not take as a whole.
func isTidy(t *testing.T, host *Host) {
	t.Helper()
	for _, pattern := range []string{newPrefix + "*", cluster + ".git/objects/pack/tmp_*"} {
		if left, err := filepath.Glob(filepath.Join(host.git.dir, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	}
}

func TestACopyLeavesRoomOnTheDisk(t *testing.T) {
	t.Parallel()
	from, host, _ := copyOf(t)
	c := from.clone(t, access.Owner)
	c.commit("Order", map[string]string{copiedFile: "plan: small\n"})
	c.pushed("HEAD:main")
	reserve := host.reserve
	host.reserve = 1 << 60
	if err := host.refresh(t.Context(), cluster, 0); !errors.Is(err, githost.ErrFull) || !strings.Contains(err.Error(), diskFull) {
		t.Errorf("on a full disk: %v", err)
	}
	isTidy(t, host)
	host.reserve = reserve
	if err := host.refresh(t.Context(), cluster, 0); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// TestACopyFollowsNobodyElsewhere has the host send the credential on.
func TestACopyFollowsNobodyElsewhere(t *testing.T) {
	var asked atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(thief.Close)
	liar := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusFound))
	t.Cleanup(liar.Close)
	host := newHost(t, Config{Dir: t.TempDir(), Authenticator: passwords{}, Upstream: remote(liar.URL)})
	if err := host.refresh(t.Context(), cluster, 0); err == nil || asked.Load() > 0 {
		t.Errorf("%v, and it was asked %d times", err, asked.Load())
	}
}

type remote string

func (remote) Changes(context.Context, string) (map[string]string, error) { return nil, nil }

func (r remote) Remote(context.Context, string) (url, username, password string, err error) {
	return string(r) + "/x.git", "a", "b", nil
}
