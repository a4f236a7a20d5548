package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// FunctionName is what a Composition calls function-patch-and-transform in
	// its functionRef.
	FunctionName = function
	// ProviderConfigName is the name of the ProviderConfig, for cluster-scoped
	// Objects (kubernetes.crossplane.io), and of the ClusterProviderConfig, for
	// namespaced ones (kubernetes.m.crossplane.io). Both lead to the cluster
	// that Crossplane runs on.
	ProviderConfigName = "kubernetes-provider"

	crossplaneNamespace = "crossplane-system"
	rootCASecret        = "crossplane-root-ca"
	clientTLSSecret     = "crossplane-tls-client"
)

// Crossplane runs on a cluster, with function-patch-and-transform and
// provider-kubernetes, all as administrators. It runs without its webhooks, so
// Usages do not keep anything from being deleted, and without its RBAC manager,
// so an XRD makes no ClusterRoles.
type Crossplane struct {
	Core, Function, Provider *Process

	env     *Env
	cluster *Cluster
	dir     string
	poll    time.Duration
	ca      *authority
	client  client.Client

	discovery discovery.DiscoveryInterface
}

func (e *Env) startCrossplane(ctx context.Context, c *Cluster, poll time.Duration) (*Crossplane, error) {
	x := &Crossplane{env: e, cluster: c, dir: filepath.Join(e.Dir, "crossplane"), poll: poll}
	var err error
	if x.ca, err = newRSAAuthority("crossplane"); err != nil {
		return nil, err
	}
	endpoint, err := x.startFunction(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.serving:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if x.client, err = client.New(c.Config(), client.Options{Scheme: installScheme()}); err != nil {
		return nil, err
	}
	if x.discovery, err = discovery.NewDiscoveryClientForConfig(c.Config()); err != nil {
		return nil, err
	}
	if err := x.createNamespace(ctx); err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return x.installProvider(ctx) })
	group.Go(func() error { return x.installCore(ctx, endpoint) })
	return x, group.Wait()
}

// createNamespace makes the namespace with the Secrets that "crossplane core
// init" would fill in if they were empty.
func (x *Crossplane) createNamespace(ctx context.Context) error {
	clientCert, err := x.ca.client("crossplane")
	if err != nil {
		return err
	}
	if err := writeTLS(filepath.Join(x.dir, "client"), clientCert, x.ca); err != nil {
		return err
	}
	return x.create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crossplaneNamespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: crossplaneNamespace, Name: rootCASecret},
			Data:       map[string][]byte{"tls.crt": x.ca.certPEM, "tls.key": x.ca.pkcs1KeyPEM},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: crossplaneNamespace, Name: clientTLSSecret},
			Data:       map[string][]byte{"tls.crt": clientCert.cert, "tls.key": clientCert.key, "ca.crt": x.ca.certPEM},
		},
	)
}

// installCore installs Crossplane's CRDs, lets it initialize the cluster and
// starts it.
func (x *Crossplane) installCore(ctx context.Context, functionEndpoint string) error {
	end := x.env.phase("Crossplane: CRDs")
	if err := x.createCRDs(ctx, x.env.programs.files(crossplane, "cluster/crds")); err != nil {
		return err
	}
	end()
	kubeconfig, err := x.cluster.certificateKubeconfig("crossplane", "crossplane", "system:masters")
	if err != nil {
		return err
	}
	environment := []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + crossplaneNamespace}
	defer x.env.phase("Crossplane: init and core")()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return x.registerFunction(ctx, functionEndpoint) })
	// What it makes is for packages, which we have none of: Crossplane need not
	// wait for it.
	group.Go(func() error { return x.initialize(ctx, environment) })
	group.Go(func() error { return x.startCore(ctx, environment) })
	return group.Wait()
}

func (x *Crossplane) initialize(ctx context.Context, environment []string) error {
	// The CRDs are there already. Given them once more, it would spend seconds
	// on finding that nothing is to do.
	none := filepath.Join(x.dir, "no-crds")
	if err := os.MkdirAll(none, 0o700); err != nil {
		return err
	}
	p := x.env.oneOff(x.cluster.Name+"-crossplane-init", crossplane,
		"core", "init", "--enable-webhooks=false", "--activation=*")
	p.env = append(slices.Clone(environment),
		"CRDS_PATH="+none, "WEBHOOK_CONFIGS_PATH="+x.env.programs.files(crossplane, "cluster/webhookconfigurations"),
		"TLS_CA_SECRET_NAME="+rootCASecret, "TLS_CLIENT_SECRET_NAME="+clientTLSSecret)
	return p.runToEnd(ctx)
}

func (x *Crossplane) startCore(ctx context.Context, environment []string) error {
	if err := withPorts(ctx, 1, func(ctx context.Context, ports []int) error {
		x.Core = x.env.process(x.cluster.Name+"-"+crossplane, crossplane, []string{
			"core", "start", "--package-runtime=External", "--enable-webhooks=false",
			"--xpkg-cache-dir=" + filepath.Join(x.dir, "xpkg"),
			"--tls-client-certs-dir=" + filepath.Join(x.dir, "client"),
			"--poll-interval=" + x.poll.String(),
			// 0 is any port: nobody reads the metrics.
			"--metrics-port=0", fmt.Sprintf("--health-probe-port=%d", ports[0]),
		}, httpReady("http://"+address(ports[0])+"/readyz", nil))
		x.Core.env = environment
		return x.Core.Start(ctx)
	}); err != nil {
		return err
	}
	return x.waitForCore(ctx)
}

// waitForCore waits until Crossplane's controllers are at work, which its
// readiness probe does not tell: the package manager says of our
// FunctionRevision that it is paused.
func (x *Crossplane) waitForCore(ctx context.Context) error {
	return until(ctx, "Crossplane's controllers", func(ctx context.Context) (bool, error) {
		revision := object(functionRevision, FunctionName)
		if err := x.client.Get(ctx, client.ObjectKeyFromObject(revision), revision); err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(revision.Object, "status", "conditions")
		return len(conditions) > 0, err
	})
}

var functionRevision = schema.GroupVersionKind{Group: "pkg.crossplane.io", Version: "v1", Kind: "FunctionRevision"}

// startFunction starts the composition function and says where it listens.
func (x *Crossplane) startFunction(ctx context.Context) (endpoint string, err error) {
	defer x.env.phase("function-patch-and-transform")()
	cert, err := x.ca.server()
	if err != nil {
		return "", err
	}
	certs := filepath.Join(x.dir, "function")
	if err := writeTLS(certs, cert, x.ca); err != nil {
		return "", err
	}
	err = withPorts(ctx, 1, func(ctx context.Context, ports []int) error {
		endpoint = address(ports[0])
		x.Function = x.env.process(x.cluster.Name+"-"+function, function,
			[]string{"--address=" + endpoint, "--tls-certs-dir=" + certs}, listens(endpoint))
		return x.Function.Start(ctx)
	})
	return endpoint, err
}

// registerFunction tells Crossplane where the function is. The package manager
// is kept from it: it would look for an image.
func (x *Crossplane) registerFunction(ctx context.Context, endpoint string) error {
	revision := object(functionRevision, FunctionName)
	revision.SetLabels(map[string]string{"pkg.crossplane.io/package": FunctionName})
	revision.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})
	revision.Object["spec"] = map[string]any{
		"desiredState": "Active", "image": FunctionName, "revision": int64(1),
	}
	if err := x.create(ctx, revision); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"status": {"endpoint": %q, "capabilities": ["composition"]}}`, endpoint)
	if err := x.client.Status().Patch(ctx, revision, mergePatch(patch)); err != nil {
		return fmt.Errorf("register the function: %w", err)
	}
	return nil
}
