package embedded

import (
	"bytes"
	"fmt"
	"testing"
)

// Git follows history by the dates of commits, unless it is told otherwise: behind commits of a
// clock that was a day late it takes what main has for what main has not.
func TestD13_CommitsOfAClockThatWasADayLateHideNothing(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "-B", "beside", "main")
	c.commit("Order more", map[string]string{dbC: "plan: small\n"})
	old := c.blob("main")
	c.late(10, "main")
	c.pushed("main")

	if seen := s.look(t); len(seen.Commits) != 1 || seen.Commits[0].Subject != "Make it big" || len(seen.Files) != 1 {
		t.Errorf("the change has the commits %+v", seen.Commits)
	}
	if got, err := s.Outcome(t.Context(), cluster, proposed, old); err != nil || !got.Merged {
		t.Errorf("what main had before: %+v, %v", got, err)
	}
	c.git("merge", "-q", "-m", "Merge", "main")
	c.pushed("HEAD:main")
	c.pushed("main~8:refs/heads/changes/late")
	c.pushed(":refs/heads/changes/late")
}

// late adds commits to a branch whose dates are those of the day before.
func (c *clone) late(n int, branch string) {
	c.t.Helper()
	var stream bytes.Buffer
	who := c.git("log", "-1", "--format=%cn <%ce>", branch)
	var now int64
	if _, err := fmt.Sscan(c.git("log", "-1", "--format=%ct", branch), &now); err != nil {
		c.t.Fatal(err)
	}
	for i := range n {
		content := fmt.Sprintf("plan: small\nsize: %d\n", i)
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter %s %d +0000\ndata 4\nLate\n", branch, bytes.TrimSpace([]byte(who)), now-24*60*60+int64(i))
		if i == 0 {
			fmt.Fprintf(&stream, "from refs/heads/%s^0\n", branch)
		}
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", dbB, len(content), content)
	}
	if out, err := stockGit(c.t, c.dir, stream.Bytes(), "fast-import", "--quiet"); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}
