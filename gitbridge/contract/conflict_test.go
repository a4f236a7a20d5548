package contract

import (
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
