package embedded

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// Git follows history by the dates of commits, unless it is told otherwise: behind commits of a
// clock that was a day late it takes what main has for what main has not.
func TestD13_CommitsOfAClockThatWasADayLateHideNothing(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	c.git("checkout", "-q", "-B", "beside", "main")
	c.commit("Order more", map[string]string{dbC: "plan: small\n"})
	old := c.blob("main")
	c.late("main", time.Now().AddDate(0, 0, -1), 10)
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

// No date is too far away for a clock, or for who pushes.
func TestD13_ACommitOfTheYear2514IsFollowed(t *testing.T) {
	t.Parallel()
	s, c := propose(t)
	old := c.blob("main")
	c.late("main", time.Unix(1<<34, 0), 1)
	c.late("main", time.Now(), 2)
	c.pushed("main")
	repo, _, err := s.repository(cluster)
	if err != nil {
		t.Fatal(err)
	}
	s.repackOne(t.Context(), repo)
	if got, err := s.Outcome(t.Context(), cluster, proposed, old); err != nil || !got.Merged {
		t.Errorf("what main had before: %+v, %v", got, err)
	}
	c.pushed("main~4:refs/heads/changes/late")
	c.pushed(":refs/heads/changes/late")
}

// late adds commits to a branch, the first of which is of a time.
func (c *clone) late(branch string, when time.Time, n int) {
	c.t.Helper()
	var stream bytes.Buffer
	who := c.git("log", "-1", "--format=%cn <%ce>", branch)
	for i := range n {
		content := fmt.Sprintf("plan: small\nsize: %d\n", i)
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter %s %d +0000\ndata 4\nLate\n", branch, bytes.TrimSpace([]byte(who)), when.Unix()+int64(i))
		if i == 0 {
			fmt.Fprintf(&stream, "from refs/heads/%s^0\n", branch)
		}
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", dbB, len(content), content)
	}
	if out, err := stockGit(c.t, c.dir, stream.Bytes(), "fast-import", "--quiet"); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}
