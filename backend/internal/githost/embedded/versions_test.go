package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/access"
)

// TestVersionsSayWhenABranchHadAContent: a merge is when main had what somebody wrote
// before, and a removal has no content.
func TestVersionsSayWhenABranchHadAContent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := t.Context()
	c := s.clone(t, access.Owner)
	at := func(revision string) string { return strings.TrimSpace(c.git("rev-parse", revision)) }
	c.commit("Order a database", map[string]string{orders: "plan: small\n"})
	ordered, small := at("HEAD"), at("HEAD:"+orders)
	c.git("checkout", "-q", "-b", "change")
	c.commit("Make it big", map[string]string{orders: "plan: big\n"})
	big := at("HEAD:" + orders)
	c.git("checkout", "-q", "-")
	c.commit("Order another", map[string]string{folder + "/team-b/x.yaml": "plan: big\n"})
	c.git("merge", "-q", "--no-ff", "-m", "Merge the change", "change")
	merged := at("HEAD")
	c.git("rm", "-q", orders)
	c.git("commit", "-q", "-m", "Remove it")
	removed := at("HEAD")
	c.pushed("HEAD:main")

	versions, err := s.Versions(ctx, cluster, "main", orders, 10)
	if err != nil || len(versions) != 3 {
		t.Fatalf("%+v (%v), want three", versions, err)
	}
	for i, want := range []struct{ commit, blob string }{{removed, ""}, {merged, big}, {ordered, small}} {
		v := versions[i]
		if v.Commit != want.commit || v.Blob != want.blob || v.When.IsZero() || v.Author != "alice" || v.First {
			t.Errorf("%d: %+v, want %+v", i, v, want)
		}
	}
	if one, err := s.Versions(ctx, cluster, "main", orders, 1); err != nil || len(one) != 1 || one[0].Commit != removed {
		t.Errorf("one: %+v (%v)", one, err)
	}
	c.git("checkout", "-q", "--orphan", "again")
	c.commit("Begin", map[string]string{orders: "plan: small\n"})
	if got, err := s.Versions(ctx, cluster, at("HEAD"), orders, 1); err == nil {
		t.Errorf("a commit that was not pushed: %+v", got)
	}
}

// TestAStartMendsTheConfigurationOfGit: a power cut may have left anything of it.
func TestAStartMendsTheConfigurationOfGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range []string{"", "\x00\x00\x00", "[core"} {
		write(t, filepath.Join(dir, "gitconfig"), []byte(text))
		if g, err := newGit(t.Context(), dir); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if b, err := os.ReadFile(g.config()); err != nil || string(b) != hostConfig {
			t.Errorf("%q: it is %q, %v", text, b, err)
		}
	}
}
