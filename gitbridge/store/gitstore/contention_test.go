package gitstore_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/storetest"
)

// People push with stock git while agents write: each edit lands once, nobody
// gives up, and nobody waits for more than a few rounds of the others.
func TestPeopleAndAgentsPushAtTheSameTime(t *testing.T) {
	t.Parallel()
	for _, people := range []int{1, 4} {
		t.Run(fmt.Sprint(people, " people"), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			defer h.check()
			update(t, h.Branch("main"), fill(200))
			var tried, taken atomic.Int64
			h.set(func() {
				h.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.UserAgent() == "git/gitbind" && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
						tried.Add(1)
					}
					return false
				}
			})

			const agents, edits, commits = 2, 20, 5
			var all sync.WaitGroup
			var slowest atomic.Int64
			for a := range agents {
				b := h.Branch("main")
				all.Go(func() {
					for i := range edits {
						e := storetest.Put(fmt.Sprintf("bindings/b/claims/agent-%d/%d.yaml", a, i), "1")
						e.Author.Name = fmt.Sprint("Agent ", a)
						start := time.Now()
						if _, err := b.Update(t.Context(), e); err != nil {
							t.Errorf("agent %d: %v", a, err)
						}
						slowest.Store(max(slowest.Load(), int64(time.Since(start))))
						taken.Add(1)
					}
				})
			}
			var rounds atomic.Int64
			for p := range people {
				dir := h.clone()
				all.Go(func() {
					for i := range commits {
						rounds.Store(max(rounds.Load(), int64(h.pushAsPerson(dir, fmt.Sprintf("person-%d-%d", p, i)))))
					}
				})
			}
			all.Wait()
			t.Logf("%d edits of agents took %d pushes, the slowest %s; a person's took up to %d tries",
				taken.Load(), tried.Load(), time.Duration(slowest.Load()).Round(time.Millisecond), rounds.Load())
			if tried.Load() > 4*taken.Load() {
				t.Errorf("%d pushes for %d edits", tried.Load(), taken.Load())
			}
			if snap := fetch(t, h.Branch("main")); snap.Files() != 200+agents*edits+people*commits {
				t.Errorf("%d files", snap.Files())
			}
			subjects := map[string]int{}
			for _, c := range h.History("main") {
				subjects[strings.SplitN(c.Message, "\n", 2)[0]]++
			}
			if len(subjects) != 1+agents*edits+people*commits {
				t.Errorf("%d different commits", len(subjects))
			}
			for subject, n := range subjects {
				if n != 1 {
					t.Errorf("%q is there %d times", subject, n)
				}
			}
		})
	}
}

// pushAsPerson commits a file and pushes as people do, and says how many tries
// that took.
func (h *host) pushAsPerson(dir, name string) int {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		h.t.Error(err)
		return 0
	}
	run := func(args ...string) error {
		cmd := h.gitCommand(dir, args...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	for _, step := range [][]string{{"add", name}, {"commit", "-q", "-m", "Add " + name}} {
		if err := run(step...); err != nil {
			h.t.Error(err)
		}
	}
	const most = 40
	for try := 1; ; try++ {
		err := run("push", "-q", "origin", "HEAD:main")
		if err == nil {
			return try
		}
		if try == most {
			h.t.Error(err)
			return try
		}
		if err := run("pull", "-q", "--rebase", "origin", "main"); err != nil {
			h.t.Error(err)
			return try
		}
	}
}

// Many people edit at once: one push, and a commit for each of them.
func TestManyAuthorsTravelInOnePush(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	defer h.check()
	b := h.Branch("main")
	update(t, b, fill(100))
	release := make(chan struct{})
	first := storetest.Put("first", "1")
	apply := first.Apply
	running := make(chan struct{})
	var once sync.Once
	first.Apply = func(t *store.Tree) error {
		once.Do(func() { close(running) })
		<-release
		return apply(t)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := b.Update(t.Context(), first); err != nil {
			t.Error(err)
		}
	})
	<-running
	const authors, each = 100, 3
	var queued sync.WaitGroup
	for a := range authors {
		for i := range each {
			e := storetest.Put(fmt.Sprintf("bindings/b/claims/ns-%d/%d.yaml", a, i), "by "+fmt.Sprint(a))
			e.Author = store.Signature{Name: fmt.Sprint("Author ", a), Email: fmt.Sprintf("a%d@example.org", a)}
			queued.Add(1)
			all.Go(func() {
				queued.Done()
				if _, err := b.Update(t.Context(), e); err != nil {
					t.Error(err)
				}
			})
		}
	}
	queued.Wait()
	before := h.Pushes()
	close(release)
	all.Wait()
	// The first one's, and few for all others: some may have been too late for
	// the second.
	if n := h.Pushes() - before; n > 4 {
		t.Errorf("%d pushes", n)
	}
	byAuthor := map[string]int{}
	for _, c := range h.History("main") {
		byAuthor[c.Author.Name]++
	}
	if len(byAuthor) != authors+1 {
		t.Errorf("%d authors in history", len(byAuthor))
	}
	out := h.git("log", "--format=>%an", "--name-only", "main")
	author := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		var a, i int
		if name, ok := strings.CutPrefix(line, ">"); ok {
			author = name
		} else if n, _ := fmt.Sscanf(line, "bindings/b/claims/ns-%d/%d.yaml", &a, &i); n == 2 && author != fmt.Sprint("Author ", a) && author != "Ada" {
			t.Errorf("%s is in a commit of %s", line, author)
		}
	}
}
