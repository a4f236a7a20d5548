package branch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
)

// What this process pushes, others read: as one author's, the edits of a batch become
// one message.
func TestH2_EditsThatTravelTogetherMakeAMessageThatIsRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 600)
	c := New(nil, Options{})
	for i := range 4000 {
		c.queue = append(c.queue, &pending{edit: store.Edit{
			Subject:   fmt.Sprintf("claim: update %s/%d", long, i),
			Trailers:  []store.Trailer{{Key: "Object", Value: fmt.Sprintf("%s/%d", long, i)}},
			CoAuthors: []store.Signature{{Name: fmt.Sprint("user ", i), Email: "user@example.org"}},
		}})
	}
	batches := 0
	for len(c.queue) > 0 {
		batch := c.nextBatch()
		batches++
		var edits []store.Edit
		for _, p := range batch {
			edits = append(edits, p.edit)
		}
		if size := len(message(edits)); size > limits.Message || len(batch) == 0 {
			t.Fatalf("a message of %d bytes for %d edits", size, len(batch))
		}
	}
	if batches > 7 {
		t.Errorf("%d batches for 5 MiB", batches)
	}
}

func TestH2_CommitsAreForgottenByAllThatTheyTake(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 1<<20)
	for what, commit := range map[string]store.Commit{
		"an author":    {Author: store.Signature{Name: long}},
		"an address":   {Author: store.Signature{Email: long}},
		"a committer":  {Committer: store.Signature{Email: long, Name: long}},
		"many parents": {Parents: make([]store.Hash, 20_000)},
	} {
		var c commitCache
		for i := range 100 {
			commit.Hash = name(i)
			c.add(commit)
		}
		if len(c.byID) > 4 {
			t.Errorf("%s of a MiB or two: %d commits are kept", what, len(c.byID))
		}
	}
	// Those of many branches add up.
	var all []*Client
	for range 200 {
		all = append(all, New(nil, Options{}))
	}
	if each := cacheLimit(); each*len(all) > allCacheBytes {
		t.Errorf("%d bytes for each of %d branches", each, len(all))
	}
	runtime.KeepAlive(all)
}
