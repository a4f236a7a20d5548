// Package share lets others at a cluster's repository, shows who they are, and takes that
// back. The rights are RBAC objects of the control plane, which the backend writes.
package share

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	// BackendURL has the form of session.BackendURL, and ClusterRef is a cluster's
	// id or name there.
	BackendURL, ClusterRef string

	// Role is empty to show the shares, and for Undo to mean all of somebody's.
	Role          restapi.RepositoryRole
	Users, Groups []string
	// Binding and Namespace limit the share, or which ones are meant; "" is all.
	Binding, Namespace string

	Yes    bool
	Format output.Format
}

// Do shares, or shows who has shares.
func Do(ctx context.Context, in Input) error {
	backend, cluster, err := in.OpenCluster(ctx, in.BackendURL, in.Connection, in.ClusterRef)
	if err != nil {
		return err
	}
	if in.Role == "" {
		shares, err := backend.Shares(ctx, cluster.ID)
		if err != nil {
			return err
		}
		return listing(shares).Print(in.Terminal, in.Format)
	}
	out := in.Terminal.Out
	fmt.Fprintf(out, `Cluster %s, its whole repository, can then be read by %s: the claims of all
bindings and namespaces with their history and status, and which keys their Secrets
have. Values of Secrets are encrypted.
`, cluster, strings.Join(slices.Concat(in.Users, in.Groups), ", "))
	if in.Role != restapi.RepositoryView {
		fmt.Fprintf(out, "They can %s %s.\n", map[restapi.RepositoryRole]string{
			restapi.RepositoryPropose: "propose changes, on branches changes/…, of",
			restapi.RepositoryApprove: "propose changes, and approve those of others, of",
			restapi.RepositoryWrite:   "change, by pushing to main,",
		}[in.Role], part(in.Binding, in.Namespace))
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	for _, s := range in.wanted() {
		given, err := backend.Share(ctx, cluster.ID, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s may %s %s.\n", who(given), given.Role, part(given.Binding, given.Namespace))
	}
	return nil
}

// wanted are the shares that the person asked for, one for each of the others.
func (in Input) wanted() []restapi.Share {
	var all []restapi.Share
	for _, user := range in.Users {
		all = append(all, restapi.Share{Role: in.Role, User: user, Binding: in.Binding, Namespace: in.Namespace})
	}
	for _, group := range in.Groups {
		all = append(all, restapi.Share{Role: in.Role, Group: group, Binding: in.Binding, Namespace: in.Namespace})
	}
	return all
}

// Undo takes back what the person names.
func Undo(ctx context.Context, in Input) error {
	backend, cluster, err := in.OpenCluster(ctx, in.BackendURL, in.Connection, in.ClusterRef)
	if err != nil {
		return err
	}
	shares, err := backend.Shares(ctx, cluster.ID)
	if err != nil {
		return err
	}
	meant := slices.DeleteFunc(slices.Clone(shares), func(s restapi.Share) bool { return !in.means(s) })
	if len(meant) == 0 {
		return usage.Errorf("there is no such share: kubectl gitbind share lists those that there are")
	}
	out := in.Terminal.Out
	fmt.Fprintf(out, "Of cluster %s these are taken back:\n", cluster)
	for _, s := range meant {
		fmt.Fprintf(out, "  %s: %s %s\n", who(s), s.Role, part(s.Binding, s.Namespace))
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		return err
	}
	for _, s := range meant {
		if err := backend.Unshare(ctx, cluster.ID, s.ID); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s may no longer %s %s.\n", who(s), s.Role, part(s.Binding, s.Namespace))
	}
	return nil
}

// means tells whether a share is among those that the person names. Names may lack the
// prefix that the control plane puts before them.
func (in Input) means(s restapi.Share) bool {
	is := func(full string, given []string) bool {
		return full != "" && slices.ContainsFunc(given, func(name string) bool { return full == name || strings.HasSuffix(full, ":"+name) })
	}
	return (is(s.User, in.Users) || is(s.Group, in.Groups)) &&
		(in.Role == "" || in.Role == s.Role) &&
		(in.Binding == "" || restapi.MeansBinding(in.Binding, s.Binding, s.Offer)) &&
		(in.Namespace == "" || in.Namespace == s.Namespace)
}

func listing(shares []restapi.Share) output.Listing {
	l := output.Listing{
		Columns: append(output.Columns("WHO", "ROLE", "BINDING", "NAMESPACE"), output.Column{Name: "ID", Wide: true}),
		Empty:   "Nobody but you gets at the repository: kubectl gitbind share --help",
		Data:    output.Items(shares),
	}
	all := func(s string) string {
		if s == "" {
			return "all"
		}
		return s
	}
	for _, s := range shares {
		l.Rows = append(l.Rows, []string{who(s), string(s.Role), all(s.Binding), all(s.Namespace), s.ID})
		l.Names = append(l.Names, s.ID)
	}
	return l
}

func who(s restapi.Share) string {
	if s.Group != "" {
		return "group " + s.Group
	}
	return s.User
}

// part is what a share is about, in words.
func part(binding, namespace string) string {
	switch {
	case binding == "" && namespace == "":
		return "all of the repository"
	case binding == "":
		return "the claims of namespace " + namespace
	case namespace == "":
		return "the claims of " + binding
	}
	return "the claims of " + binding + " in namespace " + namespace
}
