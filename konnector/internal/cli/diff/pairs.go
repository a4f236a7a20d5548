package diff

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/output"
)

// pairs are the claims to compare.
func (in Input) pairs(ctx context.Context) ([]pair, error) {
	switch {
	case len(in.Files) > 0:
		return in.ofFiles(ctx)
	case len(in.Names) > 0:
		return in.named(ctx)
	}
	return in.all(ctx)
}

// named are those that the person named.
func (in Input) named(ctx context.Context) ([]pair, error) {
	var out []pair
	repos := map[string]*clone.Clone{}
	for _, arg := range in.Names {
		word, _, one := strings.Cut(arg, "/")
		kind, b, err := in.Cluster.API(word)
		if err != nil {
			return nil, err
		}
		if repos[b] == nil {
			if repos[b], err = clone.OfBinding(ctx, in.Access, b); err != nil {
				return nil, err
			}
		}
		if !one {
			of, err := in.ofBinding(ctx, b, kind, repos[b])
			if err != nil {
				return nil, err
			}
			out = append(out, of...)
			continue
		}
		name, err := in.Cluster.Name(arg)
		if err != nil {
			return nil, err
		}
		p, err := in.pair(ctx, name)
		if err != nil {
			return nil, err
		}
		files, err := filesAt(ctx, repos[b], name.Key.Path())
		if err != nil {
			return nil, err
		}
		p.file = files[name.Key.Path()]
		if p.file == nil && p.live == nil {
			return nil, fmt.Errorf("there is no %s, neither in this cluster nor on main", name.Key)
		}
		out = append(out, p)
	}
	return out, nil
}

// pair is the cluster's side of a claim.
func (in Input) pair(ctx context.Context, name appcluster.ClaimName) (pair, error) {
	p := pair{key: name.Key, kind: name.Kind.Kind, side: "main/" + name.Key.Path()}
	u, err := in.Cluster.Object(ctx, name)
	if err != nil {
		return p, err
	}
	if u != nil {
		p.live = contract.FromObject(u)
	}
	p.schema, err = in.Cluster.Schema(ctx, name.Key.Binding, name.Kind)
	return p, err
}

// all are those of all bindings, on either side. With an error it gives those
// that can be compared.
func (in Input) all(ctx context.Context) ([]pair, error) {
	bindings, err := in.Cluster.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := in.Cluster.KindOf("apiservicebindings." + v1alpha1.GroupVersion.Group); meta.IsNoMatchError(err) {
		return nil, appcluster.ErrNotConnected
	}
	var out []pair
	var bad []string
	repos := map[string]*clone.Clone{}
	for _, b := range bindings {
		of, err := in.ofInstalled(ctx, &b, repos)
		if err != nil {
			// The other APIs may lie in another repository.
			bad = append(bad, b.Name)
			fmt.Fprintf(in.Notes, "%s: %s\n", b.Name, output.Line(err.Error()))
		}
		out = append(out, of...)
	}
	if len(bad) > 0 {
		return out, fmt.Errorf("these could not be compared: %s", strings.Join(bad, ", "))
	}
	return out, nil
}

// ofInstalled are the claims of a bound API; none while it is not installed.
func (in Input) ofInstalled(ctx context.Context, b *v1alpha1.APIServiceBinding, repos map[string]*clone.Clone) ([]pair, error) {
	kind, err := in.Cluster.KindOf(b.Name)
	if meta.IsNoMatchError(err) {
		fmt.Fprintf(in.Notes, "The API %s is not installed in this cluster yet.\n", b.Name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the API: %w", err)
	}
	if repos[b.Spec.Connection] == nil {
		if repos[b.Spec.Connection], err = clone.OfBinding(ctx, in.Access, b.Name); err != nil {
			return nil, err
		}
	}
	return in.ofBinding(ctx, b.Name, kind, repos[b.Spec.Connection])
}

// ofBinding are the claims of one API, on either side.
func (in Input) ofBinding(ctx context.Context, binding string, kind schema.GroupVersionKind, repo *clone.Clone) ([]pair, error) {
	namespace := in.Cluster.NamespaceAsked()
	files, err := filesAt(ctx, repo, path.Join(contract.ClaimsPath(binding), namespace))
	if err != nil {
		return nil, err
	}
	claims, err := in.Cluster.Claims(ctx, binding, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	known, err := in.Cluster.Schema(ctx, binding, kind)
	if err != nil {
		return nil, err
	}
	var out []pair
	for i := range claims {
		u := &claims[i]
		key := contract.Key{Binding: binding, Namespace: u.GetNamespace(), Name: u.GetName()}
		out = append(out, pair{key: key, live: contract.FromObject(u), schema: known, kind: kind.Kind, side: "main/" + key.Path(), file: files[key.Path()]})
		delete(files, key.Path())
	}
	for path, file := range files {
		key, err := contract.ParsePath(path)
		if err != nil {
			key = contract.Key{Binding: binding}
		}
		out = append(out, pair{key: key, schema: known, kind: kind.Kind, side: "main/" + path, file: file})
	}
	return out, nil
}

// filesAt reads the files at a path of main, or below it.
func filesAt(ctx context.Context, repo *clone.Clone, path string) (map[string]*contract.File, error) {
	entries, err := repo.Files(ctx, path)
	if err != nil {
		return nil, err
	}
	var blobs []string
	for _, e := range entries {
		blobs = append(blobs, e.Blob)
	}
	contents, err := repo.Read(ctx, blobs)
	if err != nil {
		return nil, err
	}
	out := map[string]*contract.File{}
	for _, e := range entries {
		data := contents[e.Blob]
		out[e.Path] = &contract.File{Path: e.Path, Mode: e.Mode, Data: data}
	}
	return out, nil
}

// ofFiles are the person's own files, each as it would be on main.
func (in Input) ofFiles(ctx context.Context) ([]pair, error) {
	var out []pair
	for _, name := range in.Files {
		data, err := in.read(name)
		if err != nil {
			return nil, err
		}
		var u unstructured.Unstructured
		if err := yaml.Unmarshal(data, &u.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		gvk := u.GroupVersionKind()
		if gvk.Group == "" || gvk.Kind == "" || u.GetName() == "" || u.GetNamespace() == "" {
			return nil, fmt.Errorf("%s is no claim: it needs apiVersion, kind, metadata.name and metadata.namespace", name)
		}
		of, err := in.Cluster.Name(gvk.Kind + "." + gvk.Group + "/" + u.GetName())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		of.Key.Namespace = u.GetNamespace()
		p, err := in.pair(ctx, of)
		if err != nil {
			return nil, err
		}
		p.side = name
		p.file = &contract.File{Path: of.Key.Path(), Data: data}
		out = append(out, p)
	}
	return out, nil
}

func (in Input) read(name string) ([]byte, error) {
	if name == "-" {
		data, err := io.ReadAll(in.Terminal.In)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	return data, nil
}
