// Package connect connects an app cluster to a control plane: it signs the
// person in, installs the konnector, and hands it a repository and the
// credential for it.
//
// It may be run again at any time: what is there is brought up to date, and the
// konnector gets a new credential. It disconnects nothing and moves no cluster
// to another control plane.
package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/progress"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// BackendURL has the form of session.BackendURL.
	BackendURL string
	// CABundle is PEM, trusted for backend, issuer and repository beside the
	// system's; the Connection's own when empty.
	CABundle []byte
	// Name of the Connection; from the URL's host when empty.
	Name string
	// ClusterName is how people know the cluster; the kubeconfig's context when
	// empty.
	ClusterName string
	// Reclaim is the id or the name of the lost cluster whose place this one
	// takes; Force does so even if it seems to live.
	Reclaim string
	Force   bool
	Install install.Options
	// Format YAML prints what would be applied, and applies nothing.
	Format output.Format
	// DryRun changes nothing here, and nothing in the control plane.
	DryRun bool
	// Yes asks nobody.
	Yes bool
	// Timeout of the wait for the Connection; no wait when 0.
	Timeout time.Duration
}

// Do connects the cluster, or shows what that would do.
func Do(ctx context.Context, in Input) error {
	// All that can be known to fail does so before anything changes.
	connections, err := in.Cluster.Connections(ctx)
	if err != nil {
		return err
	}
	named := in.Name != ""
	name, wrongName := chooseName(in.Name, in.BackendURL, connections)
	before := find(connections, name)
	if before != nil && len(in.CABundle) == 0 && len(before.Spec.CABundle) > 0 {
		in.CABundle, in.How.Connection = before.Spec.CABundle, name
	}
	if in.SignIn, err = in.SignIn.Trusting(in.CABundle); err != nil {
		return err
	}
	if err := checkURL(ctx, in, connections); err != nil {
		return err
	}
	if wrongName != nil {
		return wrongName
	}
	in.Name = name
	if err := checkNew(in, connections); err != nil {
		return err
	}
	if in.Install, err = in.Install.Continue(ctx, in.Cluster, func(line string) { fmt.Fprintln(in.Notes, line) }); err != nil {
		return err
	}
	c := connecting{Input: in, named: named, connections: connections, before: before}
	switch {
	case in.DryRun:
		return c.preview(ctx)
	case in.Format == output.YAML:
		return c.print(ctx)
	}
	return c.connect(ctx)
}

// checkURL asks a URL that no Connection has whether a backend is there, in a cluster that is
// connected: it may be that of its own control plane, misspelt. That is found before what is
// wrong with the name for it.
func checkURL(ctx context.Context, in Input, connections []v1alpha1.Connection) error {
	var connected []string
	for _, c := range connections {
		if c.Spec.BackendURL == in.BackendURL {
			return nil
		}
		connected = append(connected, fmt.Sprintf("%s, as %q", urlOf(c), c.Name))
	}
	if len(connected) == 0 {
		return nil
	}
	if _, err := controlplane.Ask(ctx, in.BackendURL, in.SignIn, in.How); err != nil {
		return fmt.Errorf("%w (check the URL: this cluster is connected to %s)", err, strings.Join(connected, "; "))
	}
	return nil
}

func find(connections []v1alpha1.Connection, name string) *v1alpha1.Connection {
	for i := range connections {
		if connections[i].Name == name {
			return &connections[i]
		}
	}
	return nil
}

// connecting is one run of the command.
type connecting struct {
	Input
	// named says that the person gave the Connection's name.
	named       bool
	connections []v1alpha1.Connection
	// before is the Connection that there is already; nil for none.
	before *v1alpha1.Connection
}

func (c connecting) connect(ctx context.Context) error {
	if err := c.agree(ctx); err != nil {
		return err
	}
	uid, err := c.Cluster.UID(ctx)
	if err != nil {
		return err
	}
	backend, _, err := c.backend(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Terminal.Out, "Installing into %s:\n", c.Cluster.Context)
	p := progress.Begin(c.Terminal, "installing")
	defer p.End()
	if err := install.Apply(ctx, c.Cluster, c.Install, p.Say); err != nil {
		return err
	}
	// The new credential takes the old one's place at once, so it is asked for
	// when nothing stands between it and the konnector any more.
	answer, err := c.register(ctx, backend, uid)
	if err != nil {
		return err
	}
	connection := connectionTo(c.Input, answer)
	if err := c.write(ctx, connection, answer.Credential, p.Say); err != nil {
		return err
	}
	p.End()
	if err := c.wait(ctx, answer.Credential); err != nil {
		return err
	}
	c.printNext(connection, answer.Offers)
	return nil
}

// write has the konnector find its credential, and the Connection.
func (c connecting) write(ctx context.Context, connection *v1alpha1.Connection, credential *restapi.Credential, say func(line string)) error {
	writing, end := Unbroken(ctx, c.Notes)
	defer end()
	line, err := ApplySecret(writing, c.Cluster, connection.Spec.SecretRef, credential)
	if err != nil {
		if c.before != nil {
			err = Lost(err)
		}
		return err
	}
	say(line)
	for _, o := range objects(connection) {
		line, err := c.Cluster.Apply(writing, o)
		if err != nil {
			return err
		}
		say(line)
	}
	return nil
}

// agree asks before a cluster that is not connected yet becomes so: it may be
// another one than the person means. No credential ends unasked.
func (c connecting) agree(ctx context.Context) error {
	if c.Reclaim != "" {
		asked := c.Terminal
		if c.Format == output.YAML {
			asked = terminal.Open(asked.In, c.Notes)
		}
		return asked.Agree(ctx, fmt.Sprintf("Put the cluster of the context %q, at %s, in the place of %q, whose credential ends?", c.Cluster.Context, c.Cluster.Server, c.Reclaim), c.Yes)
	}
	if c.Yes || c.before != nil || !c.Terminal.Interactive {
		return nil
	}
	question := fmt.Sprintf("Install gitbind into the cluster of the context %q, at %s, and connect it to %s?", c.Cluster.Context, c.Cluster.Server, c.BackendURL)
	return c.Terminal.Agree(ctx, question, false)
}

// backend signs the person in, and sees whether that counts there, and whether the cluster
// may be connected there. Nothing is changed for that.
func (c connecting) backend(ctx context.Context) (*controlplane.Client, []restapi.Cluster, error) {
	backend, err := controlplane.Open(ctx, c.BackendURL, c.SignIn, c.How)
	if err != nil {
		return nil, nil, err
	}
	clusters, err := backend.Clusters(ctx)
	if err != nil {
		return nil, nil, err
	}
	return backend, clusters, checkMoved(c.Input, c.named, c.connections, clusters)
}

// register gets the cluster's repository, and a new credential.
func (c connecting) register(ctx context.Context, backend *controlplane.Client, uid string) (restapi.Cluster, error) {
	request := restapi.ConnectRequest{Name: displayName(c.Input), ClusterUID: uid, Reclaim: c.Reclaim, Force: c.Force}
	if c.before == nil {
		return backend.Connect(ctx, request)
	}
	request.ConnectedAs = c.before.Spec.ClusterID
	answer, err := backend.Connect(ctx, request)
	if err == nil && answer.ID != request.ConnectedAs {
		// Another cluster's credential is of no use to this one's konnector.
		err = fmt.Errorf("the connection %q is cluster %s, and %s answered with cluster %s", c.Name, request.ConnectedAs, c.BackendURL, answer.ID)
	}
	return answer, Unanswered(err)
}

// checkNew refuses to let a cluster take the place of another one that has a
// place of its own: its claims would be mixed with the other's.
func checkNew(in Input, connections []v1alpha1.Connection) error {
	for _, c := range connections {
		if in.Reclaim != "" && c.Name == in.Name && c.Spec.ClusterID != in.Reclaim {
			return fmt.Errorf("this cluster is connected to %s already, as cluster %s: --reclaim is for a cluster that was rebuilt and is not connected yet. To renew its credential, connect without --reclaim",
				in.BackendURL, c.Spec.ClusterID)
		}
	}
	return nil
}

func (c connecting) wait(ctx context.Context, credential *restapi.Credential) error {
	if c.Timeout == 0 {
		return nil
	}
	fmt.Fprintln(c.Terminal.Out, "Waiting until the konnector has reached the repository:")
	began := time.Now()
	err := WaitReady(ctx, c.Call, c.Name, Awaited(c.before, credential), c.Timeout)
	var late *appcluster.NotReady
	if errors.As(err, &late) && late.Condition == nil {
		if c.Install.NoDeployment {
			return fmt.Errorf("%w. Start one with the rights of the ServiceAccount %s/konnector", err, appcluster.SystemNamespace)
		}
		return fmt.Errorf("%w. See: kubectl describe pods -n %s", err, appcluster.SystemNamespace)
	}
	if err != nil {
		return err
	}
	return waitRolledOut(ctx, c.Call, max((c.Timeout-time.Since(began)).Round(time.Second), time.Second))
}

func (c connecting) printNext(connection *v1alpha1.Connection, offers []string) {
	out := c.Terminal.Out
	fmt.Fprintf(out, "\nConnected to %s as %q (cluster %s).\n\n", c.BackendURL, c.Name, connection.Spec.ClusterID)
	if c.Reclaim != "" && len(offers) > 0 {
		fmt.Fprintf(out, `Bind its APIs again. Its claims then come back from Git, with their services as they
are; namespaces that are missing are said by "kubectl gitbind get":
  kubectl gitbind bind %s
`, strings.Join(offers, " "))
	} else {
		fmt.Fprint(out, `See what you can order, and make it an API of this cluster:
  kubectl gitbind catalog
  kubectl gitbind bind NAME
`)
	}
	trust := ""
	if len(connection.Spec.CABundle) > 0 && connection.IsOnBackend() {
		trust = " -c http.sslCAInfo=/PATH/OF/YOUR-CA-FILE"
	}
	fmt.Fprintf(out, `
All of it is in Git. A clone that signs in as you:
  git clone -c credential.helper='!kubectl-gitbind git-credential'%s %s
`, trust, connection.Spec.RepositoryURL)
}
