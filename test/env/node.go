package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Images that nodes cannot do without. No registry has them.
const (
	PauseImage   = "gitbind-test-pause:1"
	CoreDNSImage = "gitbind-test-coredns:1"
)

const (
	kubeletPort       = 10250
	kubeletHealthPort = 10248
	proxyHealthPort   = 10256
	cgroupPrefix      = "gitbind-node-"
	bridgePlugin      = "/usr/lib/cni/bridge" // where Debian has it
)

// NodeParts are the parts that environments with nodes need beside others, to be built beforehand.
func NodeParts() []string { return []string{kubelet, scheduler, kubeProxy, coreDNS, certManager} }

// A Node runs the pods of a cluster: a kubelet with containerd, in a network namespace of
// their own. Its processes can be stopped and started again; containers outlive both.
type Node struct {
	Name    string
	Address string // at which it is reached by this process, by other nodes and by pods

	Containerd, Kubelet, Proxy *Process

	cluster *Cluster
	dir     string
	pods    string // range of their addresses
}

// startNodes starts the nodes of a cluster, its scheduler and its DNS.
func (c *Cluster) startNodes(ctx context.Context) error {
	if c.nodes == 0 {
		return nil
	}
	defer c.env.phase(c.Name + ": nodes")()
	for i := range c.nodes {
		name := fmt.Sprintf("%s-%d", c.Name, i+1)
		c.Nodes = append(c.Nodes, &Node{Name: name, cluster: c, dir: filepath.Join(c.dir, "nodes", name)})
	}
	group, gctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		group.Go(func() error { return n.start(gctx) })
	}
	group.Go(func() error { return c.startScheduler(gctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return c.Apply(ctx, "test/env/coredns.yaml")
}

func (c *Cluster) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.certificateKubeconfig("scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	return c.env.process(c.Name+"-"+scheduler, scheduler, []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0",
	}, nil).Start(ctx)
}

func (n *Node) start(ctx context.Context) error {
	if err := n.cluster.env.network.add(ctx, n); err != nil {
		return err
	}
	for _, dir := range []string{"cni", "kubelet", "logs", "plugins"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	for _, archive := range n.cluster.env.images {
		if err := n.Import(ctx, archive); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.startKubelet(ctx) })
	group.Go(func() error { return n.startProxy(ctx) })
	return group.Wait()
}

// process is one of the node's own programs, in its network.
func (n *Node) process(name, program string, args []string, ready func(context.Context) error) (*Process, error) {
	path, args, err := n.inNamespace(program, args...)
	if err != nil {
		return nil, err
	}
	p := n.cluster.env.process(n.Name+"-"+name, name, args, ready)
	p.path = path
	return p, nil
}

const containerdConfig = `version = 2
root = %[1]q
state = %[2]q
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.tracing"]
[grpc]
  address = %[3]q
[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/` + PauseImage + `"
  # A process in a container of its own may not lower it.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[5]q
    conf_dir = %[6]q
`

func (n *Node) state() string  { return filepath.Join("/run", "containerd-"+n.Name) }
func (n *Node) socket() string { return filepath.Join(n.state(), "containerd.sock") }

func (n *Node) startContainerd(ctx context.Context) error {
	network, err := json.Marshal(map[string]any{
		"cniVersion": "0.4.0", "name": "pods",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": filepath.Join(n.state(), "addresses"),
					"ranges": []any{[]any{map[string]any{"subnet": n.pods}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	})
	if err != nil {
		return err
	}
	config := filepath.Join(n.dir, "containerd.toml")
	cni := filepath.Join(n.dir, "cni")
	if err := os.WriteFile(filepath.Join(cni, "pods.conflist"), network, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig,
		filepath.Join(n.dir, "containerd"), n.state(), n.socket(), filepath.Join(n.dir, "opt"), filepath.Dir(bridgePlugin), cni), 0o600); err != nil {
		return err
	}
	path, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	n.Containerd, err = n.process("containerd", path, []string{"--config", config}, func(ctx context.Context) error {
		_, err := n.ctr(ctx, "version")
		return err
	})
	if err != nil {
		return err
	}
	return n.Containerd.Start(ctx)
}

// ctr runs containerd's own client.
func (n *Node) ctr(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", n.socket(), "--namespace", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s on %s: %w: %s", args[0], n.Name, err, out)
	}
	return string(out), nil
}

// Import gives the node the images of an archive, as where there is no registry.
func (n *Node) Import(ctx context.Context, archive string) error {
	_, err := n.ctr(ctx, "images", "import", archive)
	return err
}

func (n *Node) startKubelet(ctx context.Context) error {
	kubeconfig, err := n.cluster.certificateKubeconfig(n.Name, "system:node:"+n.Name, "system:nodes")
	if err != nil {
		return err
	}
	group := cgroupPrefix + os.Getenv(isolated) + "-" + n.Name
	if err := makeControlGroup(group); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": n.Address, "port": kubeletPort, "healthzBindAddress": n.Address, "healthzPort": kubeletHealthPort,
		"containerRuntimeEndpoint": "unix://" + n.socket(),
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" + group, "failCgroupV1": false,
		"enforceNodeAllocatable": []string{}, "failSwapOn": false,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": filepath.Join(n.cluster.dir, "ca.crt")},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDNS":    []string{dnsService}, "clusterDomain": "cluster.local", "resolvConf": "",
		"podLogsDir": filepath.Join(n.dir, "logs"), "volumePluginDir": filepath.Join(n.dir, "plugins"),
		// The disk is the machine's, and others fill it.
		"evictionHard":                map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
		"imageGCHighThresholdPercent": 100,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(n.dir, "kubelet.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	n.Kubelet, err = n.process(kubelet, n.cluster.env.programs[kubelet], []string{
		"--config=" + path, "--kubeconfig=" + kubeconfig, "--hostname-override=" + n.Name, "--node-ip=" + n.Address,
		"--root-dir=" + filepath.Join(n.dir, "kubelet"), "--cert-dir=" + filepath.Join(n.dir, "pki"),
	}, n.isReady)
	if err != nil {
		return err
	}
	return n.Kubelet.Start(ctx)
}

// stop ends the node with its pods, and unmounts what they had.
func (n *Node) stop(ctx context.Context) error {
	var errs []error
	for _, p := range []*Process{n.Kubelet, n.Proxy} {
		if p != nil {
			errs = append(errs, p.Stop(ctx))
		}
	}
	if n.Containerd == nil {
		return errors.Join(errs...)
	}
	if n.Containerd.PID() != 0 {
		errs = append(errs, n.endContainers(ctx))
	}
	return errors.Join(append(errs, n.Containerd.Stop(ctx), unmountBelow(n.dir))...)
}

// Crash ends kubelet and containers as a power cut does. Started again, the kubelet makes
// of it a node that was restarted.
func (n *Node) Crash(ctx context.Context) error {
	if err := n.Kubelet.Kill(); err != nil {
		return err
	}
	return n.endContainers(ctx)
}

// endContainers ends all of them.
func (n *Node) endContainers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	return until(ctx, "the containers of "+n.Name+" to end", func(ctx context.Context) (bool, error) {
		tasks, err := n.ctr(ctx, "tasks", "list", "--quiet")
		for task := range strings.FieldsSeq(tasks) {
			// One that ends meanwhile is an error, too: what is left is seen the next time.
			_, _ = n.ctr(ctx, "tasks", "delete", "--force", task)
		}
		return err == nil && strings.TrimSpace(tasks) == "", err
	})
}

// isReady is nil when the API server says that pods may be scheduled on the node.
func (n *Node) isReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(n.cluster.config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", n.Name)
}

func (n *Node) startProxy(ctx context.Context) error {
	kubeconfig, err := n.cluster.certificateKubeconfig(n.Name+"-proxy", "system:kube-proxy")
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "iptables", "clusterCIDR": podRange, "hostnameOverride": n.Name,
		"clientConnection":   map[string]any{"kubeconfig": kubeconfig},
		"healthzBindAddress": fmt.Sprintf("%s:%d", n.Address, proxyHealthPort),
		"metricsBindAddress": "127.0.0.1:10249",
		// Those of a namespace cannot be set.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return err
	}
	path := filepath.Join(n.dir, "kube-proxy.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	n.Proxy, err = n.process(kubeProxy, n.cluster.env.programs[kubeProxy], []string{"--config=" + path},
		httpReady(fmt.Sprintf("http://%s:%d/livez", n.Address, proxyHealthPort), nil))
	if err != nil {
		return err
	}
	return n.Proxy.Start(ctx)
}

// makeControlGroup makes a control group in each hierarchy, or in the one there is.
func makeControlGroup(name string) error {
	const top = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(top, "cgroup.controllers")); err == nil {
		return os.MkdirAll(filepath.Join(top, name), 0o755)
	}
	hierarchies, err := os.ReadDir(top)
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		dir := filepath.Join(top, h.Name(), name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		// A new one may use no processor until it says which.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if of, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), of, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
