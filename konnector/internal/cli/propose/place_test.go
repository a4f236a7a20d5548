package propose

import "testing"

func TestWhereAPullRequestIsOpened(t *testing.T) {
	const branch = "changes/team-a/orders"
	for url, want := range map[string]string{
		"https://git.example.com/team/a.git":        "Open a pull request from it to main: https://git.example.com/team/a",
		"http://git.example.com:3000/team/a.git":    "Open a pull request from it to main: http://git.example.com:3000/team/a",
		"ssh://git@github.com/team/a.git":           "Open a pull request from it to main: https://github.com/team/a",
		"ssh://git@GitHub.com:22/team/a.git":        "Open a pull request from it to main: https://github.com/team/a",
		"ssh://git@ssh.github.com:443/team/a.git":   "Open a pull request from it to main: https://github.com/team/a",
		"ssh://git@gitlab.com/team/b/a":             "Open a pull request from it to main: https://gitlab.com/team/b/a",
		"ssh://git@altssh.gitlab.com:443/team/a":    "Open a pull request from it to main: https://gitlab.com/team/a",
		"ssh://git@git.example.com:2222/team/a.git": "Open a pull request on git.example.com, in the repository team/a, from changes/team-a/orders to main.",
		"ssh://git@git.example.com/~ops/a.git":      "Open a pull request on git.example.com, in the repository ~ops/a, from changes/team-a/orders to main.",
	} {
		if got := place(url, branch); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
