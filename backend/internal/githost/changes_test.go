package githost

import "testing"

func TestOnlyANumberNamesTheCopyOfAPullRequest(t *testing.T) {
	t.Parallel()
	for branch, want := range map[string]int64{
		"changes/pull-7": 7, "changes/pull-": 0, "changes/pull-+7": 0, "changes/pull-7/typo": 0, "main": 0, "pull-7": 0,
		"changes/pull-requests.example.com/team-a/orders": 0, "changes/pull-99999999999999999999": 0,
	} {
		if number, ok := PullNumber(branch); number != want || ok != (want != 0) {
			t.Errorf("%s: %d, %v", branch, number, ok)
		}
	}
}
