package env

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports are taken from below the range that the kernel takes the ports of
// outgoing connections from. Otherwise a client that tries to reach a stopped
// API server might sit on the very port that the server wants back.
const firstPort, lastPort = 20000, 32000

// errPortTaken is why a process did not start that found its port in use.
var errPortTaken = errors.New("the port was taken by another process meanwhile")

// FreePort is a port of 127.0.0.1 that nobody listens on at this moment, and that no other
// test's process gets as long as this one lives.
func FreePort() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !reserve(port) {
			continue
		}
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("find a free port between %d and %d on 127.0.0.1", firstPort, lastPort)
}

// reserved are the locks of ports, which are held until the process ends.
var reserved struct {
	sync.Mutex
	unlock []func()
}

// reserve keeps a port for this process until it ends. It reports false where another
// process, or an earlier call, has it. Without a folder for locks every port is reserved.
// The files are empty and stay: another process may hold the lock of one that is removed.
func reserve(port int) bool {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("gitbind-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return true
	}
	unlock, err := tryLock(filepath.Join(dir, strconv.Itoa(port)))
	if err != nil {
		return !errors.Is(err, syscall.EWOULDBLOCK)
	}
	reserved.Lock()
	defer reserved.Unlock()
	reserved.unlock = append(reserved.unlock, unlock)
	return true
}

// FreeAddress is where a server of the test's own process may listen.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// withPorts calls start with n free ports. Between choosing a port and
// listening on it another process may take it; then start is called again,
// with other ports, and may find what it left behind.
func withPorts(ctx context.Context, n int, start func(ctx context.Context, ports []int) error) error {
	for attempt := 1; ; attempt++ {
		ports := make([]int, n)
		for i := range ports {
			var err error
			if ports[i], err = FreePort(); err != nil {
				return err
			}
		}
		err := start(ctx, ports)
		if attempt == 5 || !errors.Is(err, errPortTaken) {
			return err
		}
	}
}
