package gitstore_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/gitstore"
)

// A Git server leaves out what a commit has by the dates of commits. Behind those of a clock that
// was a day late it sends what is not asked for.
func TestD13_LogBehindCommitsOfAClockThatWasADayLate(t *testing.T) {
	h := newHost(t)
	const day, noon = 24 * 60 * 60, 1_700_000_000
	fork := h.commit("main", "", 5, noon)
	side := h.commit("side", fork, 1, noon+10)
	main := h.commit("main", fork, 10, noon-day)
	merge := store.Hash(h.gitWith("", "-c", "user.name=alice", "-c", "user.email=alice@example.org",
		"commit-tree", "-p", string(main), "-p", string(side), "-m", "Merge", string(main)+"^{tree}"))
	h.git("update-ref", "refs/heads/merged", string(merge))

	for _, c := range []struct {
		branch    string
		since, to store.Hash
		descends  bool
		want      []store.Hash
	}{
		{"side", main, side, false, []store.Hash{side}},
		{"merged", main, merge, true, []store.Hash{merge, side}},
	} {
		commits, descends, err := h.open(gitstore.Options{}).Branch(c.branch).Log(t.Context(), c.since, c.to)
		var got []store.Hash
		for _, commit := range commits {
			got = append(got, commit.Hash)
		}
		if err != nil || descends != c.descends || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, descends: %v (%v), want %v", c.branch, got, descends, err, c.want)
		}
	}
}

// commit adds commits to a branch, which begins at another commit or, for "", with the first.
func (h *host) commit(branch string, from store.Hash, n, when int) store.Hash {
	h.t.Helper()
	var in bytes.Buffer
	for i := range n {
		fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter alice <alice@example.org> %d +0000\ndata 5\nOrder\n", branch, when+i)
		if i == 0 && from != "" {
			fmt.Fprintf(&in, "from %s\n", from)
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata 1\n%d\n", branch, i%10)
	}
	h.gitWith(in.String(), "fast-import", "--quiet")
	return store.Hash(strings.TrimSpace(h.git("rev-parse", branch)))
}
