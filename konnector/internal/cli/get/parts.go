package get

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

// connections prints the cluster's connections.
func connections(ctx context.Context, in Input) error {
	all, err := in.read(ctx)
	if err != nil {
		return err
	}
	if all.connections, err = pick(in.Names, all.connections, "connection", func(c v1alpha1.Connection) string { return c.Name }); err != nil {
		return err
	}
	all.bindings = nil
	return in.print(all, all.connectionList())
}

// bindings prints the bound APIs.
func bindings(ctx context.Context, in Input) error {
	all, err := in.read(ctx)
	if err != nil {
		return err
	}
	all.bindings = slices.DeleteFunc(all.bindings, func(b v1alpha1.APIServiceBinding) bool { return !in.Selector.Matches(labels.Set(b.Labels)) })
	if all.bindings, err = pick(in.Names, all.bindings, "binding", func(b v1alpha1.APIServiceBinding) string { return b.Name }); err != nil {
		return err
	}
	all.connections = nil
	return in.print(all, all.bindingList())
}

// pick takes those that were named, in that order; all without names.
func pick[T any](names []string, from []T, noun string, name func(T) string) ([]T, error) {
	if len(names) == 0 {
		return from, nil
	}
	var out []T
	for _, n := range names {
		i := slices.IndexFunc(from, func(t T) bool { return name(t) == n })
		if i < 0 {
			return nil, fmt.Errorf("this cluster has no %s %q: kubectl gitbind get %ss lists them", noun, n, noun)
		}
		out = append(out, from[i])
	}
	return out, nil
}

// claims prints the claims, and goes on with each change when it should.
func claims(ctx context.Context, in Input) error {
	all, err := in.read(ctx)
	if err != nil {
		return err
	}
	bindings := all.bindings
	var where map[string]string
	if len(in.Names) == 0 {
		all.claims, where, err = in.claims(ctx, bindings)
	} else {
		all.claims, err = in.chosen(ctx, bindings)
	}
	if err != nil {
		return err
	}
	if in.Format == output.Wide && !in.Watch {
		all.who = in.whoChanged(ctx, all)
	}
	all.connections, all.bindings = nil, nil
	list := all.claimList(in.Format == output.Wide)
	if in.Watch {
		return in.follow(ctx, all, list, where)
	}
	return in.print(all, list)
}

// chosen are the claims that were named.
func (in Input) chosen(ctx context.Context, bindings []v1alpha1.APIServiceBinding) ([]claim, error) {
	var out []claim
	for _, n := range in.Names {
		if !strings.Contains(n, "/") {
			_, binding, err := in.Cluster.API(n)
			if err != nil {
				return nil, err
			}
			items, _, err := in.claimsOf(ctx, binding)
			if err != nil && !apierrors.IsForbidden(err) {
				return nil, err
			}
			for i := range items {
				out = append(out, claim{object: items[i], binding: binding})
			}
			continue
		}
		name, err := in.Cluster.Name(n)
		if err != nil {
			return nil, err
		}
		u, err := in.Cluster.Claim(ctx, name)
		if err != nil {
			return nil, err
		}
		out = append(out, claim{object: *u, binding: name.Key.Binding})
	}
	return together(out, offersOf(bindings)), nil
}

// historyTimeout is how long Git may take to say who changed claims.
const historyTimeout = 20 * time.Second

// whoChanged asks Git who changed each claim last, as far as nobody has to sign in
// for that.
func (in Input) whoChanged(ctx context.Context, all found) map[string]clone.Commit {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	in.How = signin.How{Silent: true}
	out := map[string]clone.Commit{}
	for i := range all.connections {
		c := &all.connections[i]
		serves := func(b v1alpha1.APIServiceBinding) bool {
			return b.Spec.Connection == c.Name && slices.ContainsFunc(all.claims, func(of claim) bool { return of.binding == b.Name })
		}
		if !slices.ContainsFunc(all.bindings, serves) {
			continue
		}
		repo, err := clone.Of(ctx, in.Access, c)
		if err == nil {
			err = repo.Last(ctx, contract.Root, out)
		}
		if err != nil {
			fmt.Fprintf(in.Notes, "Who changed the claims of %s cannot be seen: %s\n", c.Name, output.Line(signInFirst(err, c).Error()))
		}
	}
	return out
}

func signInFirst(err error, c *v1alpha1.Connection) error {
	if errors.Is(err, session.ErrNone) {
		return fmt.Errorf("you are not signed in: kubectl gitbind get clusters --connection %s", c.Name)
	}
	return err
}

// print prints one list in the form that was asked for.
func (in Input) print(all found, l output.Listing) error {
	if in.Format.IsData() {
		var err error
		if l.Data, err = all.list(); err != nil {
			return err
		}
	}
	if all.absent != "" && (in.Format == output.Table || in.Format == output.Wide) {
		fmt.Fprintf(in.Notes, "%s: this is what it said last.\n", all.absent)
	}
	return l.Print(in.Terminal, in.Format)
}

// lastSeen says when a konnector was seen.
func lastSeen(now time.Time, at *time.Time) string {
	if at == nil {
		return "never"
	}
	return strings.TrimSpace(ago(now, *at) + " ago")
}
