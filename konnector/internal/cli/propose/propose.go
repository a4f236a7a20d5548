// Package propose commits changes of claims to branches of their own, for others to
// approve. It touches neither main nor the app cluster.
package propose

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Files have manifests, and Remove are KIND/NAME of claims to cancel.
	Files, Remove []string
	Message       string
	// Branch has its prefix; "" is called after the first claim.
	Branch string
}

// item is a claim that would be other than it is; claim is nil for one to cancel.
type item struct {
	name  appcluster.ClaimName
	claim *contract.Claim
}

// Do proposes.
func Do(ctx context.Context, in Input) error {
	items, err := in.items(ctx)
	if err != nil {
		return err
	}
	connection, err := in.connection(ctx, items)
	if err != nil {
		return err
	}
	p := clone.Proposal{Branch: in.branch(items), Message: in.Message + "\n", Files: map[string][]byte{}}
	for _, i := range items {
		path := i.name.Key.Path()
		if _, twice := p.Files[path]; twice {
			return usage.Errorf("%s is named twice", i.name.Key)
		}
		if p.Files[path] = nil; i.claim != nil {
			if p.Files[path], err = contract.Encode(i.claim); err != nil {
				return err
			}
		}
	}
	repo, err := clone.Of(ctx, in.Access, connection)
	if err != nil {
		return err
	}
	head, begun, err := repo.Propose(ctx, p)
	switch {
	case errors.Is(err, clone.ErrUnchanged):
		return errors.New("nothing is proposed: main, or the branch, says so already")
	case errors.Is(err, clone.ErrNoFile):
		return fmt.Errorf("nothing is proposed: %w on main or on the branch", err)
	case err != nil:
		return err
	}
	return in.tell(connection, items, p.Branch, head, begun)
}

// branch is what the person named, or the claim's own, on which the konnector proposes, too.
func (in Input) branch(items []item) string {
	return cmp.Or(in.Branch, contract.ChangeBranch(items[0].name.Key))
}

// items reads what the person named.
func (in Input) items(ctx context.Context) ([]item, error) {
	var items []item
	if len(in.Files) > 0 {
		infos, err := resource.NewLocalBuilder().Unstructured().NamespaceParam(in.Cluster.Namespace).DefaultNamespace().
			FilenameParam(false, &resource.FilenameOptions{Filenames: in.Files}).Flatten().Do().Infos()
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		for _, info := range infos {
			i, err := in.item(ctx, info)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", info.Source, err)
			}
			items = append(items, i)
		}
	}
	for _, arg := range in.Remove {
		name, err := in.Cluster.Name(arg)
		if err != nil {
			return nil, err
		}
		items = append(items, item{name: name})
	}
	if len(items) == 0 {
		return nil, usage.Errorf("there is no manifest in %s", strings.Join(in.Files, ", "))
	}
	return items, nil
}

// item reads a manifest as a claim.
func (in Input) item(ctx context.Context, info *resource.Info) (item, error) {
	u, ok := info.Object.(*unstructured.Unstructured)
	if !ok || u.GetName() == "" || u.GroupVersionKind().Group == "" {
		return item{}, errors.New("this is no claim: it needs apiVersion, kind and metadata.name")
	}
	gvk := u.GroupVersionKind()
	name, err := in.Cluster.Name(gvk.Kind + "." + gvk.Group + "/" + u.GetName())
	if err != nil {
		return item{}, err
	}
	if name.Key.Namespace = u.GetNamespace(); name.Key.Namespace == "" {
		name.Key.Namespace = in.Cluster.Namespace
	}
	u.SetNamespace(name.Key.Namespace)
	keys, err := in.Cluster.MetadataKeys(ctx, name.Key.Binding)
	if err != nil {
		return item{}, err
	}
	claim := keys.Of(contract.FromObject(u))
	data, err := contract.Encode(claim)
	if err != nil {
		return item{}, err
	}
	// What no file on main may be is said here, and not to who approves it.
	_, err = contract.Decode(contract.File{Path: name.Key.Path(), Data: data}, gvk.Kind)
	return item{name, claim}, err
}

// connection is the one whose repository has all of the claims.
func (in Input) connection(ctx context.Context, items []item) (*v1alpha1.Connection, error) {
	var of []string
	for _, i := range items {
		binding, err := in.Cluster.Binding(ctx, i.name.Key.Binding)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(of, binding.Spec.Connection) {
			of = append(of, binding.Spec.Connection)
		}
	}
	if len(of) > 1 {
		return nil, usage.Errorf("these claims are of several control planes (connections %s): propose them one by one", strings.Join(of, " and "))
	}
	return in.Cluster.Connection(ctx, of[0])
}

func (in Input) tell(connection *v1alpha1.Connection, items []item, branch, head string, begun bool) error {
	var b strings.Builder
	what := "Proposed"
	if !begun {
		what = "Added to what is proposed"
	}
	fmt.Fprintf(&b, "%s, as %s at %s:\n", what, output.Line(branch), store.Hash(head).Short())
	ordered, held := map[string]bool{}, false
	for _, i := range items {
		ordered[i.name.Key.Binding] = ordered[i.name.Key.Binding] || i.claim != nil
	}
	for _, i := range items {
		does := "orders or changes"
		if i.claim == nil {
			does = "cancels, and so deletes the service of,"
			held = held || ordered[i.name.Key.Binding]
		}
		fmt.Fprintf(&b, "  %s %s\n", does, i.name.Key)
	}
	if held {
		b.WriteString("Where a claim is new, a service of its kind that is cancelled beside it stays, held, until somebody decides.\n")
	}
	name := strings.TrimPrefix(branch, contract.ChangesPrefix)
	if connection.IsOnBackend() {
		fmt.Fprintf(&b, "Somebody else approves it: kubectl gitbind review %s\n", output.Line(name))
		fmt.Fprintf(&b, "or %s/clusters/%s/%s\n", output.Line(strings.TrimRight(connection.Spec.BackendURL, "/")), output.Line(connection.Spec.ClusterID), output.Line(branch))
	} else {
		fmt.Fprintln(&b, output.Line(place(connection.Spec.RepositoryURL, branch)))
	}
	_, err := fmt.Fprint(in.Terminal.Out, b.String())
	return err
}

// webHosts are the hosts with pages for people of those that are reached over SSH.
var webHosts = map[string]string{
	"github.com": "github.com", "ssh.github.com": "github.com",
	"gitlab.com": "gitlab.com", "altssh.gitlab.com": "gitlab.com",
}

// place says where a pull request for a branch is opened. What is reached over SSH may have its
// pages anywhere.
func place(repositoryURL, branch string) string {
	page := strings.TrimSuffix(repositoryURL, ".git")
	if u, err := url.Parse(page); err == nil && u.Scheme == "ssh" {
		host, path := strings.ToLower(u.Hostname()), strings.Trim(u.Path, "/")
		if webHosts[host] == "" {
			return fmt.Sprintf("Open a pull request on %s, in the repository %s, from %s to main.", host, path, branch)
		}
		page = "https://" + webHosts[host] + "/" + path
	}
	return "Open a pull request from it to main: " + page
}
