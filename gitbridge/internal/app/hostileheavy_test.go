package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// largeFiles are files of some size, all of them different.
func largeFiles(at func(string) string, n, size int) (all []entry) {
	for i := range n {
		line := fmt.Sprintf("# file %d is large\n", i)
		all = append(all, entry{"100644", at(fmt.Sprintf("large-%03d", i)), strings.Repeat(line, size/len(line)+1)})
	}
	return all
}

// testCrowd puts very many files in one folder, and a good claim behind them
// that came with the same push. It is not kept waiting until all have their
// answers.
func testCrowd(w *world, api v1alpha1.ExportedAPI, n int) {
	t := w.tenant(api)
	first, good := path(api, "team-a", "first"), path(api, "team-a", "zz-good")
	t.push("Order", map[string]string{first: manifest(first, nano)})
	t.wantAnswer(first, contract.Applied)
	peak := w.peakMemory()
	crowd := make([]entry, n, n+1)
	for i := range crowd {
		crowd[i] = entry{"100644", path(api, "team-a", fmt.Sprintf("crowd-%06d", i)), "nobody: reads this\n"}
	}
	start := time.Now()
	t.commitRaw(append(crowd, entry{"100644", good, manifest(good, nano)})...)
	t.eventuallyIn(patienceForMany, "a good claim behind "+fmt.Sprint(n)+" bad ones", func() error {
		if s := t.answer(good); s == nil || s.Result != contract.Applied {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	took := time.Since(start).Round(time.Millisecond)
	t.wantManyObserved()
	t.wantAnswer(crowd[n-1].path, contract.Invalid)
	commits := t.host.run(t.id, "rev-list", "--count", "status")
	w.Logf("the good claim took %s, all %s and %s commits, and the bridge's heap had at most %d MiB", took, time.Since(start).Round(time.Millisecond), commits, peak()>>20)
	if s := t.answer(first); s.Result != contract.Applied {
		w.Errorf("the first claim: %+v", s)
	}
}

// testPathBomb has few folders name more paths than are read. The branch is held, the
// claims stay, others go on, and it is over when main is mended.
func testPathBomb(w *world, api v1alpha1.ExportedAPI, other *tenant) {
	t := w.tenant(api)
	first, theirs := path(api, "team-a", "first"), path(api, "team-a", "beside-a-bomb")
	t.push("Order", map[string]string{first: manifest(first, nano)})
	t.wantAnswer(first, contract.Applied)
	before := t.object(first)
	peak := w.peakMemory()
	mktree := func(lines string) string {
		cmd := t.host.command(t.id, "mktree")
		cmd.Stdin = strings.NewReader(lines)
		out, err := cmd.Output()
		t.must(err)
		return strings.TrimSpace(string(out))
	}
	tree := t.host.run(t.id, "rev-parse", "main^{tree}")
	good := t.host.head(t.id, "main")
	for range 20 {
		tree = mktree(fmt.Sprintf("040000 tree %[1]s\ta\n040000 tree %[1]s\tb\n", tree))
	}
	t.host.run(t.id, "update-ref", "refs/heads/main", t.host.run(t.id, "commit-tree", "-p", good, "-m", "Hostile", mktree("040000 tree "+tree+"\tbindings\n")))
	t.host.tell(t.id)
	t.wantSynced("MainTooLarge")
	other.push("Order", map[string]string{theirs: manifest(theirs, nano)})
	other.wantAnswer(theirs, contract.Applied)
	t.eventually("status says what is too much", func() error {
		data, err := t.host.command(t.id, "show", "status:"+contract.MainAnswerPath).Output()
		if err != nil {
			return err
		}
		answer, err := contract.DecodeStatus(data)
		if err != nil || !strings.Contains(answer.Message, "more than 250000 files and folders") {
			return fmt.Errorf("%+v, %w", answer, err)
		}
		return nil
	})
	t.host.run(t.id, "update-ref", "refs/heads/main", good)
	t.host.tell(t.id)
	t.wantSynced("Following")
	changed := path(api, "team-a", "changed")
	t.commitRaw(entry{"100644", changed, manifest(changed, nano)})
	t.wantAnswer(changed, contract.Applied)
	if after := t.object(first); after == nil || after.GetUID() != before.GetUID() {
		w.Error("the claim of before is another one")
	}
	if got := peak() >> 20; got > 200 {
		w.Errorf("the bridge's heap had %d MiB", got)
	}
}

// testRewrittenMeanwhile lets the branch be another one each time the bridge
// has begun to fetch it.
func testRewrittenMeanwhile(w *world, api v1alpha1.ExportedAPI) {
	t := w.tenant(api)
	orders := path(api, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano)})
	t.wantAnswer(orders, contract.Applied)
	before := t.object(orders)
	base := t.host.head(t.id, "main")

	var mu sync.Mutex
	left := 3
	t.host.setBefore(func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || !strings.Contains(r.URL.Path, t.id) || !strings.HasSuffix(r.URL.Path, "/git-upload-pack") || r.UserAgent() != "git/gitbind" {
			return
		}
		left--
		before := t.host.head(t.id, "main")
		commit := t.host.run(t.id, "commit-tree", "-p", base, "-m", fmt.Sprint("Rewritten ", left), before+"^{tree}")
		// Not over what was pushed meanwhile: the test waits for that.
		_ = t.host.command(t.id, "update-ref", "refs/heads/main", commit, before).Run()
	})
	defer t.host.setBefore(nil)
	changed := path(api, "team-a", "changed")
	t.commitRaw(entry{"100644", changed, manifest(changed, nano)})
	t.wantAnswer(changed, contract.Applied)
	if after := t.object(orders); after == nil || after.GetUID() != before.GetUID() {
		w.Error("the claim of before is another one")
	}
	t.host.check(w, t.id)
}
