package repository

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
)

// deepHistory is a branch of which at most so many commits are read at once.
type deepHistory struct {
	store.Branch

	mu    sync.Mutex
	most  int
	asked []int
}

func (b *deepHistory) Log(ctx context.Context, since, to store.Hash) ([]store.Commit, bool, error) {
	commits, descends, err := b.Branch.Log(ctx, since, to)
	return commits, descends, b.limited(len(commits), to, err)
}

func (b *deepHistory) Recent(ctx context.Context, to store.Hash, depth int) ([]store.Commit, error) {
	b.mu.Lock()
	b.asked = append(b.asked, depth)
	b.mu.Unlock()
	// Each commit stands for a hundred.
	commits, err := b.Branch.Recent(ctx, to, depth/100)
	return commits, b.limited(len(commits), to, err)
}

func (b *deepHistory) limited(commits int, to store.Hash, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && commits > b.most {
		return &store.LimitError{Branch: "main", Head: to, Reason: "the history before it: more than 67108864 bytes of commits"}
	}
	return err
}

func (b *deepHistory) depths() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	depths := b.asked
	b.asked = nil
	return depths
}

// newDeepWorld has a main with a commit an hour, the last of them now, of which so many are read.
func newDeepWorld(t *testing.T, commits, most int) (*world, *deepHistory) {
	t.Helper()
	remote := memstore.New()
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	made := 0
	remote.Now = func() time.Time { return start.Add(time.Duration(made-commits) * time.Hour) }
	w := newWorld(t, "", remote)
	for made = 1; made <= commits; made++ {
		w.put(w.person, "note", fmt.Sprint(made))
	}
	deep := &deepHistory{Branch: w.repo.Remote.Main, most: most}
	w.repo.Remote.Main, w.repo.Lineage.main.Branch = deep, deep
	w.repo.Lineage.commits = guard.NewLineage(w.repo.Lineage.main.Ask, "", nil)
	w.run()
	w.until("contact", func() bool { return w.repo.Health().Contacted })
	return w, deep
}

// pushed is what was pushed last of orders, which was made so many hours ago.
func (w *world) pushed(since store.Hash, hours int) (contract.ObjectTrailer, error) {
	w.Helper()
	return w.repo.Pushes.Last(w.Context(), w.view(), since, orders, w.now.Add(-time.Duration(hours)*time.Hour))
}

// The newest commits may be large ones, which are followed by others.
func TestAPushIsSoughtAgainWhereTheNewestCommitsWereTooLarge(t *testing.T) {
	t.Parallel()
	w, deep := newDeepWorld(t, 500, 5)
	for range 2 {
		if _, err := w.pushed("", 0); store.LastingLimit(err) == nil {
			t.Errorf("of more than is read: %v", err)
		}
	}
	if diff := cmp.Diff([]int{1000}, deep.depths()); diff != "" {
		t.Errorf("asked for: %s", diff)
	}
	deep.mu.Lock()
	deep.most = 200
	deep.mu.Unlock()
	head := w.put(w.person, "note", "small")
	w.repo.Wake()
	w.until("it is seen", func() bool { return w.view().Main.Head() == head })
	if _, err := w.pushed("", 0); err != nil {
		t.Errorf("of what is read: %v", err)
	}
}

func TestAPushIsSoughtNoFurtherBackThanItsObject(t *testing.T) {
	t.Parallel()
	w, deep := newDeepWorld(t, 500, 200)
	for _, step := range []struct {
		hours int
		told  bool
		want  []int
	}{
		{0, true, []int{1000, 4000}}, // 10 commits of an hour each are less than a day
		{0, true, nil},
		{100, true, []int{16000}},
		{300, false, []int{64000}}, // 640 commits are more than is read
		{300, false, nil},
		{100, true, nil},
	} {
		last, err := w.pushed("", step.hours)
		if last != (contract.ObjectTrailer{}) || (err == nil) != step.told || err != nil && store.LastingLimit(err) == nil {
			t.Errorf("made %d hours ago: %v, %v", step.hours, last, err)
		}
		if diff := cmp.Diff(step.want, deep.depths()); diff != "" {
			t.Errorf("made %d hours ago, asked for: %s", step.hours, diff)
		}
	}
	// What comes to main is read by itself.
	ordered := contract.ObjectTrailer{Key: orders, UID: "u1", Generation: 1, Blob: "b"}
	_, err := w.repo.Update(t.Context(), store.Edit{
		Author: store.Signature{Name: "bob", Email: "bob@" + contract.ClusterDomain(cluster)}, Subject: "s",
		Trailers: []store.Trailer{{Key: contract.TrailerObject, Value: ordered.String()}},
		Apply:    func(t *store.Tree) error { return t.Write(orders.Path(), []byte("1")) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if last, err := w.pushed("", 300); last != ordered || err != nil {
		t.Errorf("got %v, %v", last, err)
	}
	if last, err := w.pushed(w.remote.History("main")[499].Hash, 300); store.LastingLimit(err) == nil {
		t.Errorf("since a commit that is too far back: %v, %v", last, err)
	}
	if asked := deep.depths(); asked != nil {
		t.Errorf("asked again for %v", asked)
	}
}

func TestAllOfAHistoryTellsOfEachObject(t *testing.T) {
	t.Parallel()
	w, deep := newDeepWorld(t, 30, 200)
	if last, err := w.pushed("", 1_000_000); last != (contract.ObjectTrailer{}) || err != nil {
		t.Errorf("got %v, %v", last, err)
	}
	if diff := cmp.Diff([]int{1000, 4000}, deep.depths()); diff != "" {
		t.Error(diff)
	}
}

// TestACommitThatIsTooFarBackIsAskedAboutOnce has a claim that agreed with a commit that far back
// looked at again with each head.
func TestACommitThatIsTooFarBackIsAskedAboutOnce(t *testing.T) {
	t.Parallel()
	w, _ := newDeepWorld(t, 50, 20)
	logs, mu := 0, sync.Mutex{}
	w.remote.SetFault(func(c memstore.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if c.Op == memstore.Log && !c.After {
			logs++
		}
		return nil
	})
	far := w.remote.History("main")[45].Hash
	look := func() int {
		mu.Lock()
		logs = 0
		mu.Unlock()
		if has, err := w.view().Continues(t.Context(), far); has || err != nil || !w.view().IsTooFar(far) {
			t.Errorf("it is told: %v %v", has, err)
		}
		mu.Lock()
		defer mu.Unlock()
		return logs
	}
	if look() == 0 {
		t.Fatal("it was not asked about")
	}
	w.push(map[string]string{"note": "again"})
	if n := look(); n != 0 {
		t.Errorf("it was asked about %d times again", n)
	}
	if w.view().IsTooFar(w.view().Main.Head()) {
		t.Error("the head is too far back")
	}
}

// TestAnApprovalOfWhatIsTooFarBackIsNone has a claim agree with a commit that is, and be removed
// after a person has approved other removals.
func TestAnApprovalOfWhatIsTooFarBackIsNone(t *testing.T) {
	t.Parallel()
	w, _ := newDeepWorld(t, 50, 20)
	approved := w.view().Main.Head()
	if err := w.repo.Removals.Approve(t.Context(), string(approved)); err != nil {
		t.Fatal(err)
	}
	far := w.remote.History("main")[45].Hash
	yes, err := w.repo.Removals.isApproved(t.Context(), w.view().Main, waiting{Object{Key: orders, Commit: far}, true})
	if yes || err != nil {
		t.Errorf("approved: %t, %v", yes, err)
	}
}
