package statusbranch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/progress"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/test/githost"
)

type fixture struct {
	*testing.T
	remote *memstore.Remote
	git    store.Branch
	branch *statusbranch.Branch
}

func start(t *testing.T) *fixture {
	remote := memstore.New()
	git := remote.Branch("status")
	b := statusbranch.New(git, time.Now)
	b.Open("e1", contract.Observed{}, 0)
	if err := b.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, remote: remote, git: git, branch: b}
}

func (f *fixture) write(c statusbranch.Change) {
	f.Helper()
	if err := f.branch.Write(f.Context(), c); err != nil {
		f.Fatal(err)
	}
}

// tree is the remote's, as another client sees it.
func (f *fixture) tree() *store.Snapshot {
	f.Helper()
	s, err := f.remote.Branch("status").Fetch(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *fixture) wantObserved(want string) {
	f.Helper()
	if got := statusbranch.Observed(f.tree()); got.Commit != want || got.Epoch != "e1" {
		f.Errorf("observed = %+v, want commit %q", got, want)
	}
}

func answer(path string, as progress.Generation) statusbranch.Change {
	return statusbranch.Change{Path: path, Data: []byte("answer " + fmt.Sprint(as)), Subject: "status: Applied " + path, Answers: path, As: as}
}

func TestObservedTravelsWithTheLastAnswer(t *testing.T) {
	f := start(t)
	one := f.branch.Advance("one", []string{"a", "b"})
	f.write(answer("a", one))
	f.wantObserved("")
	f.write(answer("b", one))
	f.wantObserved("one")
	if got := f.tree().Commit().Message; !strings.HasPrefix(got, "status: Applied b") {
		t.Errorf("message %q", got)
	}
	first := statusbranch.Observed(f.tree()).Sequence
	f.write(statusbranch.Change{Path: "a", Subject: "status: remove a"})
	if got := statusbranch.Observed(f.tree()); got.Sequence <= first || got.Commit != "one" {
		t.Errorf("observed = %+v after sequence %d", got, first)
	}
}

func TestWhatIsThereMakesNoCommit(t *testing.T) {
	f := start(t)
	f.write(answer("a", 0))
	before := f.tree().Head()
	f.write(answer("a", 0))
	f.write(statusbranch.Change{Path: "never-there"})
	if got := f.tree().Head(); got != before {
		t.Errorf("a commit for nothing: %s", f.tree().Commit().Message)
	}
}

func TestAnswersThatTravelTogetherAreSeenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		one := f.branch.Advance("one", []string{"a", "b", "c"})
		release := make(chan struct{})
		f.remote.SetFault(func(c memstore.Call) error {
			if c.Op == memstore.Push && !c.After {
				<-release
			}
			return nil
		})
		before := len(f.remote.History("status"))
		var wg sync.WaitGroup
		wg.Go(func() { f.write(answer("a", one)) })
		synctest.Wait() // It is on its way, and the others wait for it.
		wg.Go(func() { f.write(answer("b", one)) })
		wg.Go(func() { f.write(answer("c", one)) })
		synctest.Wait()
		close(release)
		wg.Wait()
		f.wantObserved("one")
		if got := len(f.remote.History("status")) - before; got != 2 {
			t.Errorf("%d commits", got)
		}
	})
}

func TestAnAnswerThatDidNotArriveIsNotObserved(t *testing.T) {
	f := start(t)
	one := f.branch.Advance("one", []string{"a", "b"})
	f.remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push && !c.After {
			return fmt.Errorf("%w: no", store.ErrRejected)
		}
		return nil
	})
	if err := f.branch.Write(t.Context(), answer("a", one)); !errors.Is(err, store.ErrRejected) {
		t.Fatalf("got %v", err)
	}
	f.remote.SetFault(nil)
	f.write(answer("b", one))
	f.wantObserved("")
	if f.branch.IsAnswered(one) {
		t.Error("answered without a")
	}
	f.write(answer("a", one))
	f.wantObserved("one")
}

func TestObservedAloneWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		var mu sync.Mutex
		var pushes []time.Time
		f.remote.SetFault(func(c memstore.Call) error {
			// Before it can be seen.
			if c.Op == memstore.Push && !c.After {
				mu.Lock()
				defer mu.Unlock()
				pushes = append(pushes, time.Now())
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.branch.Settle(ctx, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		f.branch.Advance("readme", nil)
		f.eventually("readme")
		f.branch.Advance("readme-2", nil)
		f.eventually("readme-2")
		mu.Lock()
		defer mu.Unlock()
		if len(pushes) != 2 { // the begin is not counted
			t.Fatalf("%d pushes, want 2", len(pushes))
		}
		if apart := pushes[1].Sub(pushes[0]); apart != statusbranch.Quiet {
			t.Errorf("the second commit came after %s", apart)
		}
	})
}

func TestARestartGoesOnWithTheSequence(t *testing.T) {
	f := start(t)
	one := f.branch.Advance("one", []string{"a"})
	f.write(answer("a", one))
	before := statusbranch.Observed(f.tree())

	again := statusbranch.New(f.remote.Branch("status"), time.Now)
	again.Open("e1", before, 0)
	if err := again.Write(t.Context(), statusbranch.Change{Path: "b", Data: []byte("b"), Subject: "status: b"}); err != nil {
		t.Fatal(err)
	}
	after := statusbranch.Observed(f.tree())
	if after.Sequence <= before.Sequence || after.Commit != "one" {
		t.Errorf("observed went from %+v to %+v", before, after)
	}
}

func TestABranchThatSomebodyElseChangedIsLeftAlone(t *testing.T) {
	for what, change := range map[string]func(*fixture, store.Hash){
		"lost":     func(f *fixture, _ store.Hash) { f.remote.ForceHead("status", "") },
		"set back": func(f *fixture, begin store.Hash) { f.remote.ForceHead("status", begin) },
		"unreadable": func(f *fixture, _ store.Hash) {
			_, err := f.remote.Branch("status").Update(t.Context(), store.Edit{Subject: "break", Apply: func(tree *store.Tree) error {
				return tree.Write(contract.ObservedPath, []byte("no: [yaml"))
			}})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := start(t)
			f.write(answer("a", 0))
			begin := f.tree().Head()
			f.write(answer("b", 0))
			change(f, begin)
			before := f.remote.Head("status")
			next := answer("b", 0)
			was, _ := f.branch.Snapshot().Entry(next.Path)
			next.Data, next.Was = []byte("new"), &was.Hash
			if err := f.branch.Write(t.Context(), next); !errors.Is(err, statusbranch.ErrForeign) {
				t.Errorf("decided on what is not there any more: %v", err)
			}
			if err := f.branch.Write(t.Context(), answer("c", 0)); !errors.Is(err, statusbranch.ErrForeign) {
				t.Errorf("got %v", err)
			}
			if got := f.remote.Head("status"); got != before {
				t.Error("it was written")
			}
			if !f.branch.IsForeign() {
				t.Error("it is not said")
			}
			f.branch.Open("e2", statusbranch.Observed(f.tree()), 0)
			if err := f.branch.Start(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			f.write(answer("c", 0))
			if got := statusbranch.Observed(f.tree()); got.Epoch != "e2" || got.Sequence < 4 {
				t.Errorf("observed = %+v", got)
			}
		})
	}
}

// Who has seen a higher sequence waits for one, though all is answered.
func TestABranchThatWasSetBackGetsBeyondWhatOthersSaw(t *testing.T) {
	f := start(t)
	go f.branch.Settle(t.Context(), func(error) {})
	one := f.branch.Advance("one", []string{"a"})
	f.write(answer("a", one))
	backup := f.tree().Head()
	f.write(answer("b", one))
	seen := statusbranch.Observed(f.tree()).Sequence
	f.remote.ForceHead("status", backup)
	found, err := f.git.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.branch.Open("e1", statusbranch.Observed(found), 0)
	f.branch.Done("a", f.branch.Advance("one", []string{"a"}))
	f.until(func(o contract.Observed) bool { return o.Sequence > seen && o.Commit == "one" })
}

// As long as main is held, no commit of it is answered.
func TestABranchThatWasSetBackGetsBeyondWhatOthersSawThoughNothingIsAnswered(t *testing.T) {
	t.Parallel()
	f := start(t)
	go f.branch.Settle(t.Context(), func(error) {})
	f.write(answer("a", f.branch.Advance("one", []string{"a"})))
	backup := f.tree().Head()
	f.write(answer("b", f.branch.Advance("two", []string{"b"})))
	f.wantObserved("two")
	seen := statusbranch.Observed(f.tree()).Sequence
	f.remote.ForceHead("status", backup)
	found, err := f.git.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.branch.Open("e1", statusbranch.Observed(found), 0)
	f.until(func(o contract.Observed) bool { return o.Sequence > seen })
	f.wantObserved("one")
}

// What was answered before is not on the branch any more.
func TestL3_ABranchThatWasSetBackAnswersNoCommitBeforeItsPathsAreAnsweredAgain(t *testing.T) {
	t.Parallel()
	f := start(t)
	one := f.branch.Advance("one", []string{"a", "b"})
	f.write(answer("a", one))
	backup := f.tree().Head()
	f.write(answer("b", one))
	two := f.branch.Advance("two", []string{"c"})
	f.remote.ForceHead("status", backup)
	found, err := f.git.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.branch.Open("e1", statusbranch.Observed(found), 0)
	f.write(answer("c", two))
	f.wantObserved("")
	again := f.branch.Advance("two", []string{"a", "b"})
	f.write(answer("a", again))
	f.branch.Done("b", two)
	f.wantObserved("")
	f.write(answer("b", again))
	f.wantObserved("two")
}

// Who looks at a branch that was just restored wants to see its history.
func TestABranchThatWasSetBackKeepsItsHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		const history = 10
		f.branch.SetHistory(history)
		f.write(answer("a", 0))
		found := statusbranch.Observed(f.tree())
		f.branch.Open("e1", found, found.Sequence+100*history)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.branch.Settle(ctx, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		before := len(f.remote.History("status"))
		for i := range history - before - 1 {
			f.write(answer("b", progress.Generation(i)))
			synctest.Wait()
			if got := len(f.remote.History("status")); got != before+i+1 {
				t.Fatalf("%d commits after %d: %+v", got, before+i, statusbranch.Observed(f.tree()))
			}
		}
		f.write(answer("c", 0))
		synctest.Wait()
		if got := len(f.remote.History("status")); got != 1 {
			t.Errorf("%d commits, and may have %d", got, history)
		}
	})
}

func (f *fixture) eventually(commit string) {
	f.Helper()
	f.until(func(o contract.Observed) bool { return o.Commit == commit })
}

func (f *fixture) until(is func(contract.Observed) bool) {
	f.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is(statusbranch.Observed(f.tree())) {
		if time.Now().After(deadline) {
			f.Fatalf("observed = %+v", statusbranch.Observed(f.tree()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// An answer that was decided on another one than is there takes the place of nothing.
func TestAnAnswerIsWrittenOnWhatItWasDecidedOn(t *testing.T) {
	t.Parallel()
	none, first, second := store.Hash(""), store.BlobHash([]byte("first")), store.BlobHash([]byte("second"))
	for _, test := range []struct {
		name  string
		was   *store.Hash
		there string
		want  error
	}{
		{"nothing, as decided", &none, "", nil},
		{"another one, as decided", &first, "first", nil},
		{"another one than decided", &second, "first", statusbranch.ErrOutdated},
		{"none any more", &first, "", statusbranch.ErrOutdated},
		{"one that came since", &none, "first", statusbranch.ErrOutdated},
		{"the same, that came since", &none, "new", nil},
		{"whatever there is", nil, "first", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			if test.there != "" {
				f.write(statusbranch.Change{Path: "a", Data: []byte(test.there), Subject: "status: x"})
			}
			before := f.tree().Head()
			change := statusbranch.Change{Path: "a", Data: []byte("new"), Was: test.was, Subject: "status: new", Beside: []statusbranch.File{{Path: "beside", Data: []byte("x")}}}
			if err := f.branch.Write(t.Context(), change); !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if written := f.tree().Head() != before; written != (test.want == nil) {
				t.Errorf("written: %t", written)
			}
			if f.branch.IsDoubtful("a") {
				t.Error("it is doubted")
			}
		})
	}
}

// What stands beside an answer was decided on the same tree.
func TestAnAnswerIsNotWrittenWhereAFileBesideItIsAnotherOne(t *testing.T) {
	t.Parallel()
	none, first := store.Hash(""), store.BlobHash([]byte("first"))
	for name, c := range map[string]struct {
		was  *store.Hash
		data []byte
		want error
	}{
		"as decided":                 {&first, []byte("new"), nil},
		"it came since":              {&none, []byte("new"), statusbranch.ErrOutdated},
		"it was to go, and is there": {&none, nil, statusbranch.ErrOutdated},
		"it goes":                    {&first, nil, nil},
		"the same came since":        {&none, []byte("first"), nil},
		"whatever there is":          {nil, []byte("new"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.write(statusbranch.Change{Path: "beside", Data: []byte("first"), Subject: "status: x"})
			before := f.tree().Head()
			change := statusbranch.Change{Path: "a", Data: []byte("new"), Subject: "status: new", Beside: []statusbranch.File{{Path: "beside", Data: c.data, Was: c.was}}}
			if err := f.branch.Write(t.Context(), change); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if written := f.tree().Head() != before; written != (c.want == nil) {
				t.Errorf("written: %t", written)
			}
		})
	}
}

// What was pushed and got no reply is doubted until a write is acknowledged.
func TestAWriteWithoutAReplyIsDoubtedUntilOneIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.remote.CutAfterPush(errors.New("connection reset"))
	change := statusbranch.Change{Path: "a", Data: []byte("new"), Subject: "status: new"}
	if err := f.branch.Write(t.Context(), change); err == nil {
		t.Fatal("no error")
	}
	f.remote.SetFault(nil)
	if f.branch.Says("a", nil) || !f.branch.IsDoubtful("a") {
		t.Error("it is not doubted")
	}
	pushes := f.remote.Pushes()
	f.write(change)
	if !f.branch.Says("a", change.Data) || f.remote.Pushes() != pushes {
		t.Errorf("it is doubted, after %d pushes more", f.remote.Pushes()-pushes)
	}
}

func TestAFileTooLargeToBeReadIsWrittenOver(t *testing.T) {
	t.Parallel()
	host := githost.New(t)
	host.Create("r", "secret")
	repository, err := gitstore.Open(gitstore.Options{URL: host.URL("r"), Credentials: func(context.Context) (user, password string, err error) { return "bridge", "secret", nil }})
	if err != nil {
		t.Fatal(err)
	}
	git := repository.Branch("status")
	f := &fixture{T: t, git: git, branch: statusbranch.New(git, time.Now)}
	f.branch.Open("e1", contract.Observed{}, 0)
	if err := f.branch.Start(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, store.MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	blob := host.Run("r", "hash-object", "-w", large)
	for _, data := range [][]byte{[]byte("small"), nil} {
		tree := host.Run("r", "ls-tree", "status", "observed.yaml") + "\n100644 blob " + blob + "\ta\n"
		mktree := host.Command("r", "mktree")
		mktree.Stdin = strings.NewReader(tree)
		made, err := mktree.Output()
		if err != nil {
			t.Fatal(err)
		}
		host.Run("r", "update-ref", "refs/heads/status", host.Run("r", "commit-tree", "-p", "status", "-m", "large", strings.TrimSpace(string(made))))
		s, err := git.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		was, _ := s.Entry("a")
		if f.branch.Says("a", data) {
			t.Errorf("it is taken for %q", data)
		}
		f.write(statusbranch.Change{Path: "a", Data: data, Was: &was.Hash, Subject: "status: a"})
		if !f.branch.Says("a", data) {
			t.Errorf("%q is not written", data)
		}
	}
}
