// Package disconnect ends a cluster's connection to a control plane: its
// credential there, its Secret and its Connection here. It refuses while an API
// is bound, so that no claim is left that nothing looks after.
//
// The cluster's repository and its place in the control plane stay: connecting
// again gets them back.
package disconnect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/install"
	"gitbind.dev/konnector/internal/cli/progress"
	"gitbind.dev/policies/protection"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Name of the Connection; the only one when empty.
	Name string
	// KeepCredential revokes nothing: the control plane cannot be reached, or does
	// not exist any more.
	KeepCredential bool
	// All removes what connect installed, too.
	All bool

	DryRun, Yes bool
	// Timeout of the wait for the Connection to go.
	Timeout time.Duration
}

// Do disconnects. Interrupted and done again, it goes on.
func Do(ctx context.Context, in Input) error {
	connection, err := in.connection(ctx)
	if err != nil {
		return err
	}
	var keeps []string
	if in.All {
		if err := install.CheckPlugin(ctx, in.Cluster); err != nil {
			return err
		}
		if keeps, err = in.keeps(ctx); err != nil {
			return err
		}
	}
	in.show(connection, keeps)
	if in.DryRun {
		fmt.Fprintln(in.Terminal.Out, "Nothing was changed.")
		return nil
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	p := progress.Begin(in.Terminal, "disconnecting")
	defer p.End()
	if connection != nil {
		if err := in.disconnect(ctx, connection, p.Say); err != nil {
			return err
		}
	}
	if !in.All {
		return nil
	}
	return in.uninstall(ctx, len(keeps) == 0, p.Say)
}

// connection is the one that is meant, and may go; nil when there is none and
// all is to go: a run before this one may have been interrupted when it was gone.
func (in Input) connection(ctx context.Context) (*v1alpha1.Connection, error) {
	connections, err := in.Cluster.Connections(ctx)
	if err != nil {
		return nil, err
	}
	if len(connections) == 0 && in.All {
		return nil, in.checkBound(ctx, nil)
	}
	connection, err := in.Cluster.Connection(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	if in.All && len(connections) > 1 {
		return nil, fmt.Errorf("this cluster has %d connections: --all is for the last one", len(connections))
	}
	return connection, in.checkBound(ctx, connection)
}

// checkBound refuses as long as an API is bound through a Connection, and through any where
// all is to go: a binding's own may be gone already.
func (in Input) checkBound(ctx context.Context, connection *v1alpha1.Connection) error {
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil {
		return err
	}
	var bound []string
	for _, b := range bindings {
		if in.All || b.Spec.Connection == connection.Name {
			bound = append(bound, b.Name)
		}
	}
	if len(bound) == 0 {
		return nil
	}
	slices.Sort(bound)
	return fmt.Errorf("still bound: %s. First: kubectl gitbind unbind %s", strings.Join(bound, ", "), strings.Join(bound, " "))
}

// show says what goes. Without a Connection only what was installed is left.
func (in Input) show(connection *v1alpha1.Connection, keeps []string) {
	out := in.Terminal.Out
	if connection == nil {
		fmt.Fprintf(out, "%s, at %s, has no connection. What connect installed there goes:\n", in.Cluster.Context, in.Cluster.Server)
	} else {
		ref := connection.Spec.SecretRef
		fmt.Fprintf(out, "Disconnecting %s from %s:\n", in.Cluster.Context, at(connection))
		if in.KeepCredential {
			fmt.Fprintln(out, "  the credential stays good in the control plane until it expires, or its owner revokes it")
		} else {
			fmt.Fprintf(out, "  the credential of cluster %s ends\n", connection.Spec.ClusterID)
		}
		fmt.Fprintf(out, "  secret/%s in %s and connection/%s go\n", ref.Name, ref.Namespace, connection.Name)
	}
	switch {
	case !in.All:
		fmt.Fprintln(out, "  the konnector stays installed (--all removes it, too)")
	case len(keeps) > 0:
		fmt.Fprintln(out, "  gitbind's kinds, rights and policies and the konnector go")
		fmt.Fprintf(out, "  namespace/%s stays, with %s\n", appcluster.SystemNamespace, strings.Join(keeps, ", "))
	default:
		fmt.Fprintf(out, "  gitbind's kinds, rights and policies, the konnector and its namespace %s go\n", appcluster.SystemNamespace)
	}
	if connection != nil {
		fmt.Fprintf(out, "  the repository stays: %s\n", connection.Spec.RepositoryURL)
	}
}

func at(connection *v1alpha1.Connection) string {
	if connection.Spec.BackendURL != "" {
		return connection.Spec.BackendURL
	}
	return connection.Spec.RepositoryURL
}

// disconnect removes the Connection last: it says where the others are. An API may have been
// bound since the person was asked.
func (in Input) disconnect(ctx context.Context, connection *v1alpha1.Connection, say func(string)) error {
	if err := in.checkBound(ctx, connection); err != nil {
		return err
	}
	if !in.KeepCredential && connection.Spec.BackendURL != "" {
		backend, err := in.Of(ctx, connection)
		if err == nil {
			err = backend.Revoke(ctx, connection.Spec.ClusterID)
		}
		if err != nil {
			return fmt.Errorf("end the credential: %w. If the control plane is gone, add --keep-credential", err)
		}
		say("credential revoked")
	}
	ref := connection.Spec.SecretRef
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	shared, err := in.shared(ctx, connection)
	if err != nil {
		return err
	}
	if shared {
		say("secret/" + ref.Name + " stays: another Connection uses it")
	} else if err := in.Cluster.Remove(ctx, secret, "secret/"+ref.Name+" in "+ref.Namespace, say); err != nil {
		return err
	}
	name := v1alpha1.CredentialRole(connection.Name)
	meta := metav1.ObjectMeta{Namespace: ref.Namespace, Name: name}
	if err := in.Cluster.Remove(ctx, &rbacv1.RoleBinding{ObjectMeta: meta}, "rolebinding/"+name, say); err != nil {
		return err
	}
	if err := in.Cluster.Remove(ctx, &rbacv1.Role{ObjectMeta: meta}, "role/"+name, say); err != nil {
		return err
	}
	if err := in.Cluster.Remove(ctx, connection, "connection/"+connection.Name, say); err != nil {
		return err
	}
	return in.gone(ctx, connection.Name)
}

// shared tells whether another Connection uses the same Secret.
func (in Input) shared(ctx context.Context, connection *v1alpha1.Connection) (bool, error) {
	all, err := in.Cluster.Connections(ctx)
	return slices.ContainsFunc(all, func(c v1alpha1.Connection) bool {
		return c.Name != connection.Name && c.Spec.SecretRef == connection.Spec.SecretRef
	}), err
}

// gone waits until the konnector has let the Connection go.
func (in Input) gone(ctx context.Context, name string) error {
	watched := appcluster.Watched{Kind: v1alpha1.GroupVersion.WithKind("Connection"), Key: client.ObjectKey{Name: name}}
	err := in.Cluster.Until(ctx, watched, in.Timeout, func(u *unstructured.Unstructured) (bool, *metav1.Condition) { return u == nil, nil })
	var late *appcluster.NotReady
	if errors.As(err, &late) {
		return fmt.Errorf("connection %s is not gone after %s: is a konnector running? Run the same again to watch it", name, in.Timeout)
	}
	return err
}

// uninstall removes what connect installed, and last the namespace, if that is to go. An API may
// have been bound as long as there was a Connection.
func (in Input) uninstall(ctx context.Context, namespace bool, say func(string)) error {
	if err := in.checkBound(ctx, nil); err != nil {
		return err
	}
	objects, err := install.Objects(install.Options{})
	if err != nil {
		return err
	}
	slices.Reverse(objects)
	for _, o := range objects {
		if o.GetKind() == "Namespace" && !namespace {
			continue
		}
		if o.GetKind() == "CustomResourceDefinition" {
			// The policy that protects it is gone, but not at once for the API server.
			err := in.Cluster.Annotate(ctx, o, map[string]string{protection.AllowAnnotation: "true"})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("allow to delete %s: %w", appcluster.Describe(o), err)
			}
		}
		if err := in.Cluster.Remove(ctx, o, appcluster.Describe(o), say); err != nil {
			return err
		}
	}
	return nil
}
