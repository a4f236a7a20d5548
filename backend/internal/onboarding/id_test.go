package onboarding

import (
	"testing"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

func TestClusterIDs(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct {
		issuer, subject, uid string
		n                    int
	}{
		{"https://issuer", "alice", "u1", 0}, {"https://issuer", "alice", "u1", 1}, {"https://issuer", "alice", "u2", 0},
		{"https://issuer", "bob", "u1", 0}, {"https://other", "alice", "u1", 0},
		// What runs together when it is put together carelessly.
		{"https://issuer", "alice u1", "", 0}, {"https://issuer alice", "u1", "", 0}, {"https://issuer", `alice" "u1`, "", 0},
	} {
		id := clusterID(c.issuer, c.subject, c.uid, c.n)
		if again := clusterID(c.issuer, c.subject, c.uid, c.n); again != id {
			t.Errorf("%+v: %s, then %s", c, id, again)
		}
		if len(id) != 16 || !v1alpha1.ValidClusterID(id) {
			t.Errorf("%+v: %q is no id", c, id)
		}
		what := c.issuer + "|" + c.subject + "|" + c.uid
		if first, taken := seen[id]; taken {
			t.Errorf("%s has the id of %s", what, first)
		}
		seen[id] = what
	}
}
