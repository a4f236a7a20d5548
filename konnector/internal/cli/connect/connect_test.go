package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
)

func TestChooseName(t *testing.T) {
	const here = "https://gitbind.example.com"
	existing := func(name, url string) []v1alpha1.Connection {
		return []v1alpha1.Connection{{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ConnectionSpec{BackendURL: url}}}
	}
	for _, c := range []struct {
		what, wanted, url string
		existing          []v1alpha1.Connection
		want, err         string
	}{
		{what: "the host is the name", url: here, want: "gitbind.example.com"},
		{what: "an address is no name", url: "http://127.0.0.1:8080", want: "default"},
		{what: "a host without a dot is no name", url: "http://localhost:8080", want: "default"},
		{what: "a name that is given", wanted: "prod", url: here, want: "prod"},
		{what: "a name that cannot be", wanted: "Prod!", url: here, err: "--name"},
		{what: "connecting again", url: here, existing: existing("prod", here), want: "prod"},
		{what: "connecting again under another name", wanted: "other", url: here, existing: existing("prod", here), err: "use --name prod"},
		{what: "the name of one that is at another URL now", wanted: "prod", url: here, existing: existing("prod", "https://else.example.com"), want: "prod"},
		{what: "a second control plane", url: here, existing: existing("prod", "https://else.example.com"), want: "gitbind.example.com"},
		{what: "the default name is another's", url: "http://127.0.0.1:1", existing: existing("default", "http://127.0.0.1:2"), err: `connected to another control plane, http://127.0.0.1:2, as "default": if you mean that one, give its URL, or --name default if it is at another URL now; to connect the cluster to http://127.0.0.1:1 as well, give another --name`},
		{what: "the default name is that of a repository without a backend", url: "http://127.0.0.1:1", existing: []v1alpha1.Connection{{
			ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ConnectionSpec{RepositoryURL: "https://git.example.com/k3x9.git"},
		}}, err: "https://git.example.com/k3x9.git"},
	} {
		got, err := chooseName(c.wanted, c.url, c.existing)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v, want %q", c.what, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: %q, %v, want an error with %q", c.what, got, err, c.err)
		}
	}
}

func TestAMisspeltURLIsFoundBeforeItsName(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/info" {
			fmt.Fprint(w, `{"issuer":"https://dex.example.com","clientID":"gitbind-cli"}`)
			return
		}
		http.NotFound(w, r)
	}))
	defer backend.Close()
	const connected = "https://gitbind.example.com"
	connections := []v1alpha1.Connection{{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: v1alpha1.ConnectionSpec{BackendURL: connected}}}
	for _, c := range []struct {
		what, url   string
		connections []v1alpha1.Connection
		want        []string
	}{
		{"nothing answers", "http://127.0.0.1:1", connections, []string{"http://127.0.0.1:1 cannot be reached: ", `(check the URL: this cluster is connected to https://gitbind.example.com, as "default")`}},
		{"no backend answers", backend.URL + "/nope", connections, []string{"answered 404 not found", "this cluster is connected to https://gitbind.example.com"}},
		{"a second control plane", backend.URL, connections, nil},
		{"connecting again is not asked here", connected, connections, nil},
		{"the first is not asked here", "http://127.0.0.1:1", nil, nil},
	} {
		in := Input{BackendURL: c.url}
		in.SignIn = &signin.SignIn{HTTP: http.DefaultClient}
		err := checkURL(t.Context(), in, c.connections)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", c.what, err, want)
			}
		}
	}
}

// An id follows from who connects which cluster: another control plane with the same issuer
// may have the same, so that only the person knows which it is.
func TestAControlPlaneAtAnotherURLIsNotConnectedASecondTime(t *testing.T) {
	const was, is, id = "https://old.example.com", "https://new.example.com", "k3x9d2abqwzr4t6m"
	connection := func(name, url string) v1alpha1.Connection {
		return v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ConnectionSpec{BackendURL: url, ClusterID: id}}
	}
	old := connection("old.example.com", was)
	mine, others := restapi.Cluster{ID: id}, restapi.Cluster{ID: id, Owner: "oidc:bob@example.com"}
	for _, c := range []struct {
		what, wanted string
		connections  []v1alpha1.Connection
		cluster      restapi.Cluster
		err          string
	}{
		{"without a name", "", []v1alpha1.Connection{old}, mine,
			`this cluster is connected to https://old.example.com, as "old.example.com", and is your cluster k3x9d2abqwzr4t6m at https://new.example.com, too: if that is the same control plane at another URL, add --name old.example.com; to connect the cluster to another one as well, give another --name`},
		{"to be moved", "old.example.com", []v1alpha1.Connection{old}, mine, ""},
		{"as a second one", "second", []v1alpha1.Connection{old}, mine, ""},
		{"a control plane that does not know the cluster", "", []v1alpha1.Connection{old}, restapi.Cluster{ID: "another"}, ""},
		{"a control plane that does not know the cluster, to be moved there", "old.example.com", []v1alpha1.Connection{old}, restapi.Cluster{ID: "another"}, "is connected to another control plane"},
		{"somebody else's that is shared", "", []v1alpha1.Connection{old}, others, ""},
		{"somebody else's, to be moved", "old.example.com", []v1alpha1.Connection{old}, others, "is connected to another control plane"},
		{"connected again beside another one", "", []v1alpha1.Connection{old, connection("second", is)}, mine, ""},
		{"no connection", "", nil, mine, ""},
	} {
		name, err := chooseName(c.wanted, is, c.connections)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		in := Input{BackendURL: is, Name: name}
		err = checkMoved(in, c.wanted != "", c.connections, []restapi.Cluster{c.cluster})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.err)
		}
	}
}

func inputOf(cluster *appcluster.Cluster) Input {
	return Input{Call: command.Call{Access: controlplane.Access{Cluster: cluster}}}
}

func TestDisplayName(t *testing.T) {
	cluster := &appcluster.Cluster{Context: "arn:aws:eks:eu-central-1:123456789012:cluster/" + strings.Repeat("x", 40)}
	got := displayName(inputOf(cluster))
	if len(got) != maxDisplayName || !strings.HasSuffix(cluster.Context, got) {
		t.Errorf("got %q", got)
	}
	if got := displayName(Input{Call: inputOf(cluster).Call, ClusterName: "staging"}); got != "staging" {
		t.Errorf("got %q", got)
	}
	if got := displayName(Input{Call: inputOf(&appcluster.Cluster{}).Call, Name: "default"}); got != "default" {
		t.Errorf("got %q", got)
	}
}

func TestNoCredentialEndsUnasked(t *testing.T) {
	c := connecting{Input: Input{
		Call: inputOf(&appcluster.Cluster{Context: "rebuilt"}).Call, Reclaim: "lost",
	}}
	c.Notes, c.Terminal = io.Discard, terminal.Open(nil, io.Discard)
	if err := c.connect(t.Context()); err == nil || !strings.Contains(err.Error(), "add --yes") {
		t.Errorf("without a terminal: %v", err)
	}
	c.Format = output.YAML
	if err := c.print(t.Context()); err == nil || !strings.Contains(err.Error(), "add --yes") {
		t.Errorf("as YAML: %v", err)
	}
	c.Yes = true
	if err := c.agree(t.Context()); err != nil {
		t.Errorf("with --yes: %v", err)
	}
	var asked bytes.Buffer
	c.Format, c.Yes = output.Table, false
	c.Terminal = &terminal.Terminal{In: strings.NewReader("n\n"), Out: &asked, Interactive: true}
	if err := c.agree(t.Context()); !errors.Is(err, terminal.ErrDeclined) || !strings.Contains(asked.String(), `in the place of "lost"`) {
		t.Errorf("with somebody who says no: %v, %q", err, &asked)
	}
}
