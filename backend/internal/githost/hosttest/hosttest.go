// Package hosttest is what each Git host that gives its own credentials must do, whichever it
// is. It plays the backend, the agents and people on a host, with git as they have it.
package hosttest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
)

// Host is what is tested.
type Host interface {
	githost.Accounts
	githost.Checks
	Remote(ctx context.Context, cluster string) (url, username, password string, err error)
	Changes(ctx context.Context, cluster string) (map[string]string, error)
	Webhook(log *slog.Logger, moved func(cluster string)) http.Handler
}

// World is a host with people on it.
type World struct {
	People
	// Start gives the host as after a start of the backend. One approval is required.
	Start func() Host
	// At gives one for which a server at a URL is the host.
	At func(url string) Host
	// Key is what the secrets of webhooks follow from, and Sign signs a delivery with one.
	Key  string
	Sign func(r *http.Request, body []byte, secret string)
	// Taken are pushes that the host cannot refuse, in the words of the test.
	Taken []string
	// Few says that the host is somebody's, on whom nothing is done in great numbers.
	Few bool
}

// People do on a host what people do there, with rights to all repositories.
type People interface {
	// Credential is with which one of them pushes.
	Credential() (username, password string)
	// Surroundings counts the rules and webhooks of a repository, and Loosen removes them.
	Surroundings(t *testing.T, cluster string) int
	Loosen(t *testing.T, cluster string)
	// Propose opens a pull request to main, and gives its number; Close closes one.
	Propose(t *testing.T, cluster, branch, title string) int64
	Close(t *testing.T, cluster string, number int64)
	Pulls(t *testing.T, cluster string) []pulls.Pull
	Comment(t *testing.T, cluster string, number int64, text string)
	Comments(t *testing.T, cluster string, number int64) []string
	// Shown is what a commit shows by the name gitbind: OK, Words and URL.
	Shown(t *testing.T, cluster, commit string) []githost.Check
	Rename(t *testing.T, cluster, to string)
	Archive(t *testing.T, cluster string)
	// Delete deletes a repository, if it is there. The test may be at its end.
	Delete(t *testing.T, cluster string)
}

// Run runs all of it.
func Run(t *testing.T, w World) {
	for _, c := range []struct {
		name string
		test func(*testing.T, World)
	}{
		{"a repository is made once and a rule that people removed comes back", surroundings},
		{"agents push what is theirs and nothing else", rights},
		{"E14_a repository moves there and goes on", moved},
		{"the agents' engine pushes and reads and goes on with another credential", engine},
		{"a credential ends when it is to and not its neighbours", endings},
		{"pull requests are opened and kept up to date and what is closed stays closed", proposals},
		{"a check is shown once on commit and pull request", checks},
		{"lists have more than one page", pages},
		{"deliveries are the host's", deliveries},
		{"what people did with a repository is said", changed},
		{"refusals and limits are said", refusals},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, w)
		})
	}
}

// cluster is an id that no cluster has.
func cluster() string { return "t" + strings.ToLower(rand.Text())[:9] }

// made is a repository on a host that was just started.
func (w World) made(t *testing.T) (Host, string) {
	t.Helper()
	h, id := w.Start(), cluster()
	if err := h.Create(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Delete(t, id) })
	return h, id
}

func issue(t *testing.T, h Host, id, agent, name string) githost.Credential {
	t.Helper()
	c, err := h.Issue(t.Context(), id, agent, name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Username == "" || c.Password == "" || c.RenewAfter.After(c.Expires) || c.RenewAfter.IsZero() != c.Expires.IsZero() {
		t.Fatalf("%s expires %s and is to be renewed after %s", c.Username, c.Expires, c.RenewAfter)
	}
	return c
}
