// Package appcluster reads and writes an app cluster for a person, with the
// rights of the person's kubeconfig and no others.
package appcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// SystemNamespace is where the konnector and its credentials live.
const SystemNamespace = "gitbind-system"

// fieldOwner owns what the plugin applies.
const fieldOwner = client.FieldOwner("kubectl-gitbind")

// Cluster is an app cluster.
type Cluster struct {
	client.WithWatch
	// Server is the API server's address.
	Server string
	// Context is the kubeconfig's, and Namespace the one that it or a flag
	// names. NamespaceGiven tells a flag from the kubeconfig's default.
	Context        string
	Namespace      string
	NamespaceGiven bool

	mapper func() (meta.RESTMapper, error)
	// openAPI keeps what it has got; again forgets that.
	openAPI func(again bool) (openapi.Client, error)
}

// ErrNotConnected says that the cluster has no connection.
var ErrNotConnected = errors.New("this cluster is not connected to a control plane: kubectl gitbind connect URL")

// NamespaceAsked is the namespace that a flag names; "" for all.
func (c *Cluster) NamespaceAsked() string {
	if c.NamespaceGiven {
		return c.Namespace
	}
	return ""
}

// Open prepares to speak with the cluster that the flags and the kubeconfig
// name.
func Open(flags *genericclioptions.ConfigFlags) (*Cluster, error) {
	loader := flags.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("find the app cluster: %w", err)
	}
	// Otherwise the client would look for one at localhost:8080.
	if clientcmdapi.IsConfigEmpty(&raw) && *flags.APIServer == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, errors.New("find the app cluster: there is no kubeconfig: name one with --kubeconfig or KUBECONFIG")
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the app cluster: %w", err)
	}
	config.QPS = -1
	out := &Cluster{Server: config.Host, Context: raw.CurrentContext, mapper: flags.ToRESTMapper}
	out.openAPI = func(again bool) (openapi.Client, error) {
		discovery, err := flags.ToDiscoveryClient()
		if err != nil {
			return nil, err
		}
		if again {
			discovery.Invalidate()
		}
		return discovery.OpenAPIV3(), nil
	}
	if *flags.Context != "" {
		out.Context = *flags.Context
	}
	out.NamespaceGiven = *flags.Namespace != ""
	if out.Namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	if out.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("reach the app cluster: %w", err)
	}
	return out, nil
}

// UID identifies the cluster: it is that of the namespace kube-system.
func (c *Cluster) UID(ctx context.Context) (string, error) {
	var ns corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", fmt.Errorf("read the cluster's identity: %w", err)
	}
	return string(ns.UID), nil
}

// Connections are all of the cluster's, by name; none when gitbind is not
// installed.
func (c *Cluster) Connections(ctx context.Context) ([]v1alpha1.Connection, error) {
	var list v1alpha1.ConnectionList
	if err := c.List(ctx, &list); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list connections: %w", err)
	}
	return list.Items, nil
}

// Connection is the one of that name, or the only one when the name is empty.
func (c *Cluster) Connection(ctx context.Context, name string) (*v1alpha1.Connection, error) {
	all, err := c.Connections(ctx)
	if err != nil {
		return nil, err
	}
	return choose(all, name)
}

func choose(all []v1alpha1.Connection, name string) (*v1alpha1.Connection, error) {
	switch {
	case len(all) == 0:
		return nil, ErrNotConnected
	case name == "" && len(all) == 1:
		return &all[0], nil
	}
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	slices.Sort(names)
	if name == "" {
		return nil, fmt.Errorf("this cluster has the connections %s: choose one with --connection", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("this cluster has no connection %q; it has %s", name, strings.Join(names, ", "))
}
