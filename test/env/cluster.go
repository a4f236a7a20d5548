package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A Cluster is an API server with its etcd and, usually, its controller
// manager. It has no nodes unless they were asked for.
type Cluster struct {
	Name       string
	URL        string // of the API server
	Kubeconfig string // path of the administrator's (system:masters)

	// Each can be stopped and started again, on the same port and with its
	// data. Stop the API server before its etcd: without etcd it takes long to
	// end. ControllerManager is nil when it was left out.
	Etcd, APIServer, ControllerManager *Process

	// Nodes are in the order of their names; none unless they were asked for.
	Nodes []*Node

	nodes   int
	audit   bool
	env     *Env
	dir     string
	etcdURL string
	ca      *authority
	config  *rest.Config
	serving chan struct{} // closed when the API server has become ready
}

// Config is the administrator's configuration, without a limit of requests per
// second. The caller may change it.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// start starts the processes one after the other, each as soon as the one that
// it needs is ready.
func (c *Cluster) start(ctx context.Context, withControllerManager bool) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.writeKeys(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	close(c.serving)
	if !withControllerManager {
		return c.waitForDefaultNamespace(ctx)
	}
	if err := c.startControllerManager(ctx); err != nil {
		return err
	}
	return c.startNodes(ctx)
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	defer c.env.phase(c.Name + ": etcd")()
	return withPorts(ctx, 2, func(ctx context.Context, ports []int) error {
		// A member that could not listen has written the ports down.
		data := c.etcdData()
		if err := os.RemoveAll(data); err != nil {
			return err
		}
		c.etcdURL = "http://" + address(ports[0])
		peerURL := "http://" + address(ports[1])
		c.Etcd = c.env.process(c.Name+"-"+etcd, etcd, []string{
			"--name=default", "--data-dir=" + data,
			"--listen-client-urls=" + c.etcdURL, "--advertise-client-urls=" + c.etcdURL,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=default=" + peerURL,
			// The only member has nobody to wait for before it leads.
			"--heartbeat-interval=50", "--election-timeout=250",
			"--unsafe-no-fsync", "--log-level=warn",
		}, httpReady(c.etcdURL+"/readyz", nil))
		return c.Etcd.Start(ctx)
	})
}

// writeKeys writes what the API server and the controller manager share.
func (c *Cluster) writeKeys() error {
	var err error
	if c.ca, err = newAuthority("gitbind-test-" + c.Name); err != nil {
		return err
	}
	serving, err := c.ca.server("kubernetes", "kubernetes.default", "kubernetes.default.svc", c.env.host(), firstService)
	if err != nil {
		return err
	}
	if err := writeTLS(c.dir, serving, c.ca); err != nil {
		return err
	}
	if err := c.ca.write(c.dir); err != nil {
		return err
	}
	key, public, err := newSigningKey()
	if err != nil {
		return err
	}
	return writeFiles(c.dir, map[string][]byte{"sa.key": key, "sa.pub": public})
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	defer c.env.phase(c.Name + ": kube-apiserver")()
	file := func(name string) string { return filepath.Join(c.dir, name) }
	return withPorts(ctx, 1, func(ctx context.Context, ports []int) error {
		c.URL = fmt.Sprintf("https://%s:%d", c.env.host(), ports[0])
		if err := c.configureAdmin(); err != nil {
			return err
		}
		client, err := rest.HTTPClientFor(c.config)
		if err != nil {
			return err
		}
		forNodes, err := c.apiServerForNodes()
		if err != nil {
			return err
		}
		auditing, err := c.auditing()
		if err != nil {
			return err
		}
		c.APIServer = c.env.process(c.Name+"-"+apiServer, apiServer, slices.Concat([]string{
			"--etcd-servers=" + c.etcdURL,
			"--bind-address=" + c.env.host(), fmt.Sprintf("--secure-port=%d", ports[0]),
			"--advertise-address=" + c.env.host(),
			"--service-cluster-ip-range=10.0.0.0/24",
			"--tls-cert-file=" + file("tls.crt"), "--tls-private-key-file=" + file("tls.key"),
			"--client-ca-file=" + file("ca.crt"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
			"--cert-dir=" + c.dir,
			// Without it a stop waits a minute for clients to end their watches.
			"--shutdown-send-retry-after",
		}, forNodes, auditing), httpReady(c.URL+"/readyz", client))
		return c.APIServer.Start(ctx)
	})
}

func (c *Cluster) configureAdmin() error {
	path, err := c.certificateKubeconfig("admin", "admin", "system:masters")
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return err
	}
	config.QPS = -1
	c.Kubeconfig, c.config = path, config
	return nil
}

// apiServerForNodes are the flags of an API server that depend on whether there are nodes.
func (c *Cluster) apiServerForNodes() ([]string, error) {
	if c.nodes == 0 {
		// The endpoints of the Service "kubernetes" must not be loopback addresses, and
		// there is nobody to use them.
		return []string{"--endpoint-reconciler-type=none", "--authorization-mode=RBAC"}, nil
	}
	// For logs, and commands in containers.
	client, err := c.ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.dir, "kubelet-client")
	return []string{
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + filepath.Join(dir, "tls.crt"), "--kubelet-client-key=" + filepath.Join(dir, "tls.key"),
	}, writeTLS(dir, client, c.ca)
}

func (c *Cluster) controllers() string {
	if c.nodes > 0 {
		return "--controllers=*"
	}
	return controllersWithoutNodes
}

// controllersWithoutNodes are those of the controller manager that mean something without
// nodes: the others would only take memory from the things under test.
const controllersWithoutNodes = "--controllers=namespace-controller,garbage-collector-controller," +
	"serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller," +
	"clusterrole-aggregation-controller,resourcequota-controller,validatingadmissionpolicy-status-controller," +
	"deployment-controller,replicaset-controller,statefulset-controller,job-controller,cronjob-controller," +
	"ttl-after-finished-controller,persistentvolumeclaim-protection-controller"

func (c *Cluster) startControllerManager(ctx context.Context) error {
	defer c.env.phase(c.Name + ": kube-controller-manager")()
	kubeconfig, err := c.certificateKubeconfig("controller-manager", "system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	c.ControllerManager = c.env.process(c.Name+"-"+controllerManager, controllerManager, []string{
		"--kubeconfig=" + kubeconfig, c.controllers(),
		"--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + filepath.Join(c.dir, "sa.key"),
		"--root-ca-file=" + filepath.Join(c.dir, "ca.crt"),
		"--kube-api-qps=200", "--kube-api-burst=400",
	}, c.hasDefaultServiceAccount)
	return c.ControllerManager.Start(ctx)
}

// KubectlCommand is kubectl with a kubeconfig. It collects garbage as seldom as the other
// parts, which takes a fifth less CPU.
func (e *Env) KubectlCommand(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.Kubectl, append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), collectSeldom)
	return cmd
}

// Apply applies manifests of the checkout with kubectl, on the server's side: a file, or
// a folder with a kustomization. The path is below the checkout's top folder.
func (c *Cluster) Apply(ctx context.Context, path string) error {
	kind := "--filename="
	if info, err := os.Stat(filepath.Join(c.env.Root, path)); err == nil && info.IsDir() {
		kind = "--kustomize="
	}
	cmd := c.env.KubectlCommand(ctx, c.Kubeconfig, "apply", "--server-side", "--force-conflicts", kind+path)
	cmd.Dir = c.env.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s to %s: %w: %s", path, c.Name, err, out)
	}
	return nil
}

// Rediscover makes the controller manager look for new kinds of objects, by
// restarting it. By itself its garbage collector does so every 30 seconds
// only, and until then no object of a new kind goes away that was deleted in the
// foreground or whose owner was deleted.
func (c *Cluster) Rediscover(ctx context.Context) error {
	if c.ControllerManager == nil {
		return fmt.Errorf("rediscover the kinds of %s: it has no controller manager", c.Name)
	}
	if err := c.ControllerManager.Kill(); err != nil {
		return err
	}
	return c.ControllerManager.Start(ctx)
}

// hasDefaultServiceAccount tells that the controllers have begun their work.
// Without a port the controller manager has no other way to say so.
func (c *Cluster) hasDefaultServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// waitForDefaultNamespace waits for what the API server makes by itself after
// it says that it is ready.
func (c *Cluster) waitForDefaultNamespace(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	return until(ctx, "namespace default of "+c.Name, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
