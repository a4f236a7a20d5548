package contract

import (
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

func TestConflictBranch(t *testing.T) {
	const blob = "8b9f0123456789abcdef0123456789abcdef0123"
	k := Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: "orders"}
	if got, want := ConflictBranch(k, blob), "conflicts/postgresqlinstances.anynines.com/team-a/orders/8b9f012345"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	seen := map[string]bool{}
	for _, name := range []string{"orders", "orders.lock", "lock", "a.lock.b", "or.de.rs", "0", strings.Repeat("a", 200)} {
		for _, binding := range []string{k.Binding, "x." + strings.Repeat("b", 240), "x." + strings.Repeat("b", 239) + ".c", "x.lock"} {
			branch := ConflictBranch(Key{Binding: binding, Namespace: "lock", Name: name}, blob)
			if out, err := exec.Command("git", "check-ref-format", "refs/heads/"+branch).CombinedOutput(); err != nil {
				t.Errorf("%s is no branch: %v %s", branch, err, out)
			}
			for part := range strings.SplitSeq(branch, "/") {
				if len(part) > 255 {
					t.Errorf("%s has a component of %d bytes", branch, len(part))
				}
			}
			if seen[branch] {
				t.Errorf("%s is of two claims", branch)
			}
			seen[branch] = true
		}
	}
}

func TestTheLongestNameOfAClaimIsReadableInItsConflictBranch(t *testing.T) {
	name := strings.Repeat("a", MaxNameLength)
	k := Key{Binding: binding, Namespace: "team-a", Name: name}
	if got, want := ConflictBranch(k, "8b9f012345"), "conflicts/"+binding+"/team-a/"+name+"/8b9f012345"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	k.Binding = "x." + strings.Repeat("b", 199)
	if got, want := ConflictBranch(k, "8b9f012345"), "conflicts/sha256-"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s…", got, want)
	}
}

func TestAPathOfABranchIsReadAsTheBranch(t *testing.T) {
	t.Parallel()
	for branch, want := range map[string]string{
		"changes/databases.example.com/team-a/orders":        "changes/databases.example.com/team-a/orders",
		"changes/databases.example.com/team-a/orders%2Elock": "changes/databases.example.com/team-a/orders%252Elock",
		"changes/a%2Fb/fix-#12":                              "changes/a%252Fb/fix-%2312",
		"changes/größer":                                     "changes/gr%C3%B6%C3%9Fer",
	} {
		got := BranchPath(branch)
		if u, err := url.Parse("https://gitbind.example.com/" + got); got != want || err != nil || u.Path != "/"+branch || u.Fragment != "" {
			t.Errorf("%s: %s, which is read as %+v, %v", branch, got, u, err)
		}
	}
}
