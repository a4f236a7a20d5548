package connect

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
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
		{what: "another control plane's name", wanted: "prod", url: here, existing: existing("prod", "https://else.example.com"), err: "https://else.example.com"},
		{what: "a second control plane", url: here, existing: existing("prod", "https://else.example.com"), want: "gitbind.example.com"},
		{what: "the default name is another's", url: "http://127.0.0.1:1", existing: existing("default", "http://127.0.0.1:2"), err: "another --name"},
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

func TestNobodysCredentialEndsUnasked(t *testing.T) {
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
	if err := c.agree(); err != nil {
		t.Errorf("with --yes: %v", err)
	}
	var asked bytes.Buffer
	c.Format, c.Yes = output.Table, false
	c.Terminal = &terminal.Terminal{In: strings.NewReader("n\n"), Out: &asked, Interactive: true}
	if err := c.agree(); !errors.Is(err, terminal.ErrDeclined) || !strings.Contains(asked.String(), `in the place of "lost"`) {
		t.Errorf("with somebody who says no: %v, %q", err, &asked)
	}
}
