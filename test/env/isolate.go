package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// isolated is set for a process that Isolate has started: a name that no other one has.
const isolated = "GITBIND_ISOLATED"

// IsIsolated reports whether this process has namespaces of its own.
func IsIsolated() bool { return os.Getenv(isolated) != "" && os.Getppid() == 1 }

// isolate makes of the new namespaces what nodes need: a network with nothing but itself,
// and folders with fixed names that nobody else sees. The shell is the first process, which
// takes over those whose parents have ended.
const isolate = `
ip link set lo up
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mount -t tmpfs -o mode=755 tmpfs /var/lib/kubelet
"$@" || exit $?
`

// nodeTools are the programs that nodes need, by the Debian package that has them.
var nodeTools = map[string]string{
	"containerd": "containerd", "ctr": "containerd", "runc": "runc", "iptables": "iptables", "ip": "iproute2",
	"unshare": "util-linux", "nsenter": "util-linux", bridgePlugin: "containernetworking-plugins",
}

// Isolate runs this program again, with the same arguments, in network, mount and process
// namespaces of its own, and returns its exit code. With it all ends that it has started,
// containers too. Only root can do that.
func Isolate() (code int, err error) {
	if os.Getuid() != 0 {
		return 1, errors.New("nodes need root: they make namespaces, mounts and control groups")
	}
	var missing []string
	for tool, pkg := range nodeTools {
		if _, err := exec.LookPath(tool); err != nil && !slices.Contains(missing, pkg) {
			missing = append(missing, pkg)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return 1, fmt.Errorf("nodes need programs that are not here: apt-get install --no-install-recommends %s", strings.Join(missing, " "))
	}
	// What nodes mount there is not seen here.
	if err := os.Mkdir(kubeletDir, 0o755); err == nil {
		defer os.Remove(kubeletDir)
	} else if !errors.Is(err, fs.ErrExist) {
		return 1, err
	}
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command("unshare", append([]string{
		"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation=private",
		"sh", "-ec", isolate, "sh", program,
	}, os.Args[1:]...)...)
	name := strconv.Itoa(os.Getpid())
	cmd.Env = append(os.Environ(), isolated+"="+name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	spawner := NewSpawner()
	defer spawner.Close()
	cmd.SysProcAttr = ChildAttributes()
	defer restoreTunables(readTunables())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := spawner.Start(cmd); err != nil {
		return 1, err
	}
	// An interrupt is to end it; its namespaces end with it.
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err = cmd.Wait()
	removeControlGroups(cgroupPrefix + name + "-")
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) && ended.Exited() {
		return ended.ExitCode(), nil
	}
	if err != nil {
		return 1, fmt.Errorf("run in namespaces of its own: %w", err)
	}
	return 0, nil
}

const kubeletDir = "/var/lib/kubelet"

// tunables are settings of the kernel that a kubelet changes for the whole machine.
var tunables = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

func readTunables() map[string][]byte {
	values := map[string][]byte{}
	for _, name := range tunables {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			values[name] = value
		}
	}
	return values
}

func restoreTunables(values map[string][]byte) {
	for name, value := range values {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), value, 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "set %s back to %s: %v\n", name, value, err)
		}
	}
}

// removeControlGroups removes those of nodes, whose processes have ended.
func removeControlGroups(prefix string) {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + prefix + "*")
	more, _ := filepath.Glob("/sys/fs/cgroup/" + prefix + "*")
	for _, top := range append(tops, more...) {
		var all []string
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		// Those within come after what they are in.
		for _, dir := range slices.Backward(all) {
			_ = os.Remove(dir)
		}
	}
}
