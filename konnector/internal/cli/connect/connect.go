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
	"io"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backendv1alpha1 "gitbind.dev/backend/api/v1alpha1"
	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/signin"
)

// Input is what the person asked for.
type Input struct {
	Cluster *appcluster.Cluster
	SignIn  *signin.SignIn
	How     signin.How

	// BackendURL has the form of session.BackendURL.
	BackendURL string
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
	// Timeout of the wait for the Connection; no wait when 0.
	Timeout time.Duration

	Out io.Writer
}

// Do connects the cluster.
func Do(ctx context.Context, in Input) error {
	// All that can be known to fail does so before anything changes.
	connections, err := in.Cluster.Connections(ctx)
	if err != nil {
		return err
	}
	if in.Name, err = chooseName(in.Name, in.BackendURL, connections); err != nil {
		return err
	}
	if err := checkNew(in, connections); err != nil {
		return err
	}
	uid, err := in.Cluster.UID(ctx)
	if err != nil {
		return err
	}
	backend, err := controlplane.Open(ctx, in.BackendURL, in.SignIn, in.How)
	if err != nil {
		return err
	}
	if _, err := backend.Clusters(ctx); err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintln(in.Out, "  "+line) }
	fmt.Fprintf(in.Out, "Installing into %s:\n", in.Cluster.Context)
	if err := install.Apply(ctx, in.Cluster, in.Install, say); err != nil {
		return err
	}
	// The new credential takes the old one's place at once, so it is asked for
	// when nothing stands between it and the konnector any more.
	answer, err := backend.Connect(ctx, backendv1alpha1.ConnectRequest{Name: displayName(in), ClusterUID: uid, Reclaim: in.Reclaim, Force: in.Force})
	if err != nil {
		return err
	}
	connection := connectionTo(in, answer)
	if err := checkSame(connections, connection); err != nil {
		return err
	}
	for _, o := range []client.Object{secret(connection, answer.Credential), connection} {
		line, err := in.Cluster.Apply(ctx, o)
		if err != nil {
			return err
		}
		say(line)
	}
	if err := wait(ctx, in, say); err != nil {
		return err
	}
	printNext(in, connection, answer.Offers)
	return nil
}

// checkNew refuses to let a cluster take the place of another one that has a
// place of its own: its claims would be mixed with the other's.
func checkNew(in Input, connections []konnectorv1alpha1.Connection) error {
	for _, c := range connections {
		if in.Reclaim != "" && c.Name == in.Name && c.Spec.ClusterID != in.Reclaim {
			return fmt.Errorf("this cluster is connected to %s already, as cluster %s: --reclaim is for a cluster that was built anew and is not connected yet. To renew its credential, connect without --reclaim",
				in.BackendURL, c.Spec.ClusterID)
		}
	}
	return nil
}

// chooseName gives the name of the Connection, which no other control plane's
// may have. A control plane has one.
func chooseName(wanted, backendURL string, connections []konnectorv1alpha1.Connection) (string, error) {
	if msgs := validation.IsDNS1123Subdomain(wanted); wanted != "" && len(msgs) > 0 {
		return "", fmt.Errorf("--name %q: %s", wanted, msgs[0])
	}
	name := wanted
	if name == "" {
		name = defaultName(backendURL)
	}
	for _, c := range connections {
		switch same := c.Spec.BackendURL == backendURL; {
		case same && wanted == "":
			return c.Name, nil
		case same && c.Name != wanted:
			return "", fmt.Errorf("this cluster is connected to %s already, as %q: use --name %s", backendURL, c.Name, c.Name)
		case !same && c.Name == name:
			return "", fmt.Errorf("the connection %q leads to another control plane, %s: give this one another --name", name, c.Spec.BackendURL)
		}
	}
	return name, nil
}

// checkSame refuses to put another cluster's credential in the place of the
// konnector's own: a cluster on the control plane belongs to whoever connected
// it, and somebody else gets another one.
func checkSame(connections []konnectorv1alpha1.Connection, connection *konnectorv1alpha1.Connection) error {
	for _, c := range connections {
		if c.Name == connection.Name && c.Spec.ClusterID != connection.Spec.ClusterID {
			return fmt.Errorf("the connection %q is cluster %s, which is not yours: somebody else connected it, or another cluster of yours has reclaimed it. Sign in as its owner (kubectl gitbind logout, then connect again); yours is cluster %s",
				c.Name, c.Spec.ClusterID, connection.Spec.ClusterID)
		}
	}
	return nil
}

// defaultName is the host, if it is a name that tells control planes apart.
func defaultName(backendURL string) string {
	u, err := url.Parse(backendURL)
	if err != nil || net.ParseIP(u.Hostname()) != nil || !strings.Contains(u.Hostname(), ".") ||
		len(validation.IsDNS1123Subdomain(u.Hostname())) > 0 {
		return "default"
	}
	return u.Hostname()
}

// maxDisplayName is the longest that the control plane takes.
const maxDisplayName = 63

func displayName(in Input) string {
	name := in.ClusterName
	if name == "" {
		name = in.Cluster.Context
	}
	if name == "" {
		name = in.Name
	}
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	// Contexts can be long, and their ends tell them apart.
	if runes := []rune(name); len(runes) > maxDisplayName {
		name = string(runes[len(runes)-maxDisplayName:])
	}
	return name
}

func connectionTo(in Input, cluster backendv1alpha1.Cluster) *konnectorv1alpha1.Connection {
	return &konnectorv1alpha1.Connection{
		ObjectMeta: metav1.ObjectMeta{Name: in.Name},
		Spec: konnectorv1alpha1.ConnectionSpec{
			BackendURL:    in.BackendURL,
			RepositoryURL: cluster.RepositoryURL,
			ClusterID:     cluster.ID,
			SecretRef:     konnectorv1alpha1.SecretReference{Namespace: appcluster.SystemNamespace, Name: "gitbind-" + in.Name},
		},
	}
}

func secret(connection *konnectorv1alpha1.Connection, credential *backendv1alpha1.Credential) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: connection.Spec.SecretRef.Namespace, Name: connection.Spec.SecretRef.Name},
		Type:       corev1.SecretTypeBasicAuth,
		Data: map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(credential.Username),
			corev1.BasicAuthPasswordKey: []byte(credential.Password),
		},
	}
}

func wait(ctx context.Context, in Input, say func(string)) error {
	if in.Timeout == 0 {
		return nil
	}
	fmt.Fprintln(in.Out, "Waiting until the konnector has reached the repository:")
	gvk := konnectorv1alpha1.GroupVersion.WithKind("Connection")
	err := in.Cluster.Wait(ctx, gvk, in.Name, konnectorv1alpha1.ConditionReady, in.Timeout, func(c metav1.Condition) { say(appcluster.Say(c)) })
	var late *appcluster.NotReady
	if errors.As(err, &late) && late.Condition == nil {
		if in.Install.NoDeployment {
			return fmt.Errorf("%w: no konnector looks after it. Start one with the rights of the ServiceAccount %s/konnector", err, appcluster.SystemNamespace)
		}
		return fmt.Errorf("%w: no konnector looks after it. See: kubectl describe pods -n %s", err, appcluster.SystemNamespace)
	}
	if err == nil {
		say("connection/" + in.Name + " ready")
	}
	return err
}

func printNext(in Input, connection *konnectorv1alpha1.Connection, offers []string) {
	fmt.Fprintf(in.Out, "\nConnected to %s as %q (cluster %s).\n\n", in.BackendURL, in.Name, connection.Spec.ClusterID)
	if in.Reclaim != "" && len(offers) > 0 {
		fmt.Fprintf(in.Out, `Bind its APIs again. Its claims then come back from Git, with their services as they
are; namespaces that are missing are said by "kubectl gitbind get":
  kubectl gitbind bind %s
`, strings.Join(offers, " "))
	} else {
		fmt.Fprint(in.Out, `See what you can order, and make it an API of this cluster:
  kubectl gitbind catalog
  kubectl gitbind bind NAME
`)
	}
	fmt.Fprintf(in.Out, `
All of it is in Git. A clone that signs in as you:
  git clone -c credential.helper='!kubectl-gitbind git-credential' %s
`, connection.Spec.RepositoryURL)
}
