package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Addresses are those that RFC 5737 keeps free for examples. They are seen in the network
// namespace of the test only.
const (
	hubAddress  = "192.0.2.1"
	hubDevice   = "gitbind0"
	podRange    = "10.244.0.0/16"
	firstNode   = 10 // 192.0.2.10 is the first node's
	firstPods   = 1  // 10.244.1.0/24 are its pods
	namespaces  = "/run/netns"
	addressBits = "/24"

	firstService = "10.0.0.1"  // of the API server
	dnsService   = "10.0.0.10" // of CoreDNS
)

// network connects the nodes with each other and with this process: a bridge with an
// address of ours, and a network namespace for each node.
type network struct {
	mu    sync.Mutex
	nodes []*Node
}

func newNetwork(ctx context.Context) (*network, error) {
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, err
	}
	return &network{}, ip(ctx,
		"link add "+hubDevice+" type bridge",
		"addr add "+hubAddress+addressBits+" dev "+hubDevice,
		"link set "+hubDevice+" up",
	)
}

// add gives a node its namespace, with a way to all others and to their pods.
func (n *network) add(ctx context.Context, node *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	number := len(n.nodes)
	node.Address = fmt.Sprintf("192.0.2.%d", firstNode+number)
	node.pods = fmt.Sprintf("10.244.%d.0/24", firstPods+number)
	outside, inside := fmt.Sprintf("node%d", number), "eth0"
	if err := ip(ctx,
		"netns add "+node.Name,
		"link add "+outside+" type veth peer name "+inside+" netns "+node.Name,
		"link set "+outside+" master "+hubDevice+" up",
		"-n "+node.Name+" link set lo up",
		"-n "+node.Name+" addr add "+node.Address+addressBits+" dev "+inside,
		"-n "+node.Name+" link set "+inside+" up",
		"-n "+node.Name+" route add default via "+hubAddress,
	); err != nil {
		return err
	}
	for _, other := range n.nodes {
		if other.cluster != node.cluster {
			continue
		}
		if err := ip(ctx,
			"-n "+node.Name+" route add "+other.pods+" via "+other.Address,
			"-n "+other.Name+" route add "+node.pods+" via "+node.Address,
		); err != nil {
			return err
		}
	}
	n.nodes = append(n.nodes, node)
	return nil
}

// ip runs commands of ip one after the other.
func ip(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, out)
		}
	}
	return nil
}

// inNamespace is what starts a program in the network of a node, and in all else where
// this process is. (ip netns exec would hide the control groups.)
func (n *Node) inNamespace(program string, args ...string) (string, []string, error) {
	nsenter, err := exec.LookPath("nsenter")
	return nsenter, append([]string{"--net=" + filepath.Join(namespaces, n.Name), "--", program}, args...), err
}
