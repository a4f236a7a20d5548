package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/test/env"
)

func (f *fixture) testReclaim(t *testing.T) {
	lost := f.connect(t, env.Alice, "lost")
	f.connect(t, env.Alice, "namesake")
	reclaim := func(user, uid, name string, force bool) (c restapi.Cluster, status int, message string) {
		status, message = f.call(t, f.tokens[user], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "rebuilt", ClusterUID: uid, Reclaim: name, Force: force}, &c)
		return c, status, message
	}
	refused := func(what string, status, want int, message, words string) {
		t.Helper()
		if status != want || !strings.Contains(message, words) {
			t.Errorf("%s: %d %q, want %d with %q", what, status, message, want, words)
		}
	}

	_, status, message := reclaim(env.Bob, "rebuilt", lost.ID, true)
	refused("somebody else", status, http.StatusNotFound, message, "you have no cluster")
	_, status, message = reclaim(env.Alice, "rebuilt", "test", true)
	refused("a name that several have", status, http.StatusConflict, message, "give the id")
	if out, err := gitRemote(t, lost.RepositoryURL, lost.Credential.Username, lost.Credential.Password); err != nil {
		t.Fatalf("the konnector that is to be lost: %v %s", err, out)
	}
	_, status, message = reclaim(env.Alice, "rebuilt", lost.ID, false)
	refused("while its konnector lives", status, http.StatusConflict, message, "--force")
	if got := f.binding(t, lost.ID).Spec.ClusterUID; got != "lost" {
		t.Fatalf("refused, and yet the cluster is %q", got)
	}

	rebuilt, status, message := reclaim(env.Alice, "rebuilt", lost.ID, true)
	if status != http.StatusOK || rebuilt.ID != lost.ID || rebuilt.RepositoryURL != lost.RepositoryURL || rebuilt.Credential == nil {
		t.Fatalf("%d %s: %+v", status, message, rebuilt)
	}
	if cb := f.binding(t, lost.ID); cb.Spec.ClusterUID != "rebuilt" || cb.Spec.DisplayName != "test" {
		t.Errorf("the ClusterBinding is %+v", cb.Spec)
	}
	if out, err := gitRemote(t, rebuilt.RepositoryURL, rebuilt.Credential.Username, rebuilt.Credential.Password); err != nil {
		t.Errorf("the new credential: %v %s", err, out)
	}
	eventually(t, "the old credential is refused", func() error {
		if _, err := gitRemote(t, lost.RepositoryURL, lost.Credential.Username, lost.Credential.Password); err == nil {
			return fmt.Errorf("it still counts")
		}
		return nil
	})

	// From here on it is that cluster, without being told.
	if again := f.connect(t, env.Alice, "rebuilt"); again.ID != lost.ID {
		t.Errorf("connecting again gave cluster %s, want %s", again.ID, lost.ID)
	}
	if _, status, message = reclaim(env.Alice, "rebuilt", lost.ID, false); status != http.StatusOK {
		t.Errorf("reclaiming a second time: %d %s", status, message)
	}
	f.only(t, "rebuilt")
	// The old one, should it come back, is another cluster.
	if old := f.connect(t, env.Alice, "lost"); old.ID == lost.ID {
		t.Error("the cluster that was lost has its old id again, beside the one that took its place")
	}
	_, status, message = reclaim(env.Alice, "lost", lost.ID, true)
	refused("a cluster that has a place of its own", status, http.StatusConflict, message, "kubectl delete clusterbinding")
}
