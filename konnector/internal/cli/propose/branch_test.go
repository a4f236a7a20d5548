package propose

import (
	"os/exec"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
)

func TestAProposalIsOnABranchThatGitTakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orders", "orders.lock"} {
		key := contract.Key{Binding: "databases.example.com", Namespace: "team-a", Name: name}
		items := []item{{name: appcluster.ClaimName{Key: key}}, {}}
		branch := Input{}.branch(items)
		if out, err := exec.CommandContext(t.Context(), "git", "check-ref-format", contract.HeadsPrefix+branch).CombinedOutput(); err != nil || branch != contract.ChangeBranch(key) {
			t.Errorf("%s is no branch of %s: %v %s", branch, key, err, out)
		}
		if got := (Input{Branch: "changes/mine"}).branch(items); got != "changes/mine" {
			t.Errorf("it is on %s", got)
		}
	}
}
