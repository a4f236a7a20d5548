package embedded

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/time/rate"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/test/env"
)

// What was not thought of costs no more than this.
func TestH3_EachGitProgramHasLimits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := &reader{repo: s.open(cluster), ctx: t.Context()}
	defer c.close()
	if ok, err := c.hasCommit(plumbing.NewHash(s.head(t, mainRef))); !ok || err != nil {
		t.Fatal(ok, err)
	}
	set, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", c.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf(`Max data size +%d +%[1]d`, processMemory), fmt.Sprintf(`Max cpu time +%.0f `, processTime.Seconds())} {
		if !regexp.MustCompile(want).Match(set) {
			t.Errorf("no %q in\n%s", want, set)
		}
	}
	// Those that it starts have them, too.
	want := fmt.Sprintf("%d %.0f", processMemory>>10, repackTimeout.Seconds())
	if err := s.git.maintain(t.Context(), s.bare(), "-c", `alias.limits=!test "$(ulimit -d) $(ulimit -t)" = "`+want+`"`, "limits"); err != nil {
		t.Error(err)
	}
}

// chain are deltas on each other, which make files of some size each.
func chain(length, size int) []packEntry {
	content := make([]byte, size)
	entries := []packEntry{{typ: typeBlob, data: content}}
	for i := range length {
		sum := sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", size)
		sum.Write(content)
		begin := fmt.Sprintf("%08d", i)
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(size)), uint64(size))
		delta = append(append(delta, byte(len(begin))), begin...)
		rest := size - len(begin)
		delta = append(delta, 0xf0, byte(rest), byte(rest>>8), byte(rest>>16))
		entries = append(entries, packEntry{typ: typeRefDelta, ref: sum.Sum(nil), data: delta})
		content = append([]byte(begin), content[:rest]...)
	}
	return entries
}

// bomb is a push of a commit to main, and of deltas on deltas: in a few kilobytes, files
// of 15 MiB each.
func (c *clone) bomb(before string, length int) (after string, body []byte) {
	c.t.Helper()
	tree := strings.TrimSpace(c.git("rev-parse", "HEAD^{tree}"))
	commit := []byte("tree " + tree + "\nparent " + before + "\nauthor alice <alice@example.com> 1800000000 +0000\ncommitter alice <alice@example.com> 1800000000 +0000\n\nx\n")
	after = plumbing.ComputeHash(plumbing.CommitObject, commit).String()
	return after, pushBody(before, after, handmadePack(append(chain(length, 15<<20), packEntry{typ: typeCommit, data: commit})...))
}

func TestH3_TheWorstPushThatIsTakenCostsGitLittle_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	s := serve(t)
	s.rates.limit = rate.Inf
	// What is reckoned with for each push that is in work.
	s.git.memory = gitMemory
	c := s.clone(t, access.Owner)
	for length, want := range map[int]string{40: "bytes unpacked", 12: "ok refs/heads/main"} {
		_, body := c.bomb(s.head(t, mainRef), length)
		if len(body) > 32<<10 {
			t.Errorf("the push has %d bytes", len(body))
		}
		if status, answer := s.post(t, access.Owner, "git-receive-pack", body); status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%d MiB: %d %q, want %q", 15*length, status, answer, want)
		}
	}
}

// What does not fit is that push's trouble alone.
func TestH3_APushThatGitHasNoMemoryForLeavesTheHostAtWork_NoRace(t *testing.T) {
	env.NoRace(t)
	t.Parallel()
	s := serve(t)
	s.rates.limit = rate.Inf
	s.git.memory = 16 << 20
	c := s.clone(t, access.Owner)
	after, body := c.bomb(s.head(t, mainRef), 12)
	if status, answer := s.post(t, access.Owner, "git-receive-pack", body); strings.Contains(answer, "ok refs/heads/main") || s.head(t, mainRef) == after {
		t.Errorf("%d %q", status, answer)
	}
	c.commit("x", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
	s.fsck(t)
}

// Pushes of all repositories together have one budget.
func TestH2_PushesThatTakeMuchMemoryWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, first := s.memory.Claim(t.Context())
	_, second := s.memory.Claim(t.Context())
	if err := first.Take(pushMemory); err != nil {
		t.Fatal(err)
	}
	if err := second.Take(pushMemory); err != nil {
		t.Fatal(err)
	}
	// A small one is taken meanwhile.
	c := s.clone(t, access.Owner)
	c.commit("x", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
	ctx, third := s.memory.Claim(t.Context())
	ended := make(chan error)
	go func() { ended <- third.Take(pushMemory) }()
	second.Release()
	if err := <-ended; err != nil || context.Cause(ctx) != nil {
		t.Errorf("who waited: %v", err)
	}
	first.Release()
	third.Release()
}
