package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"

	"gitbind.dev/test/env"
)

// The components, which are also the names of their main ports: of what the backend
// serves, and of the agents' health.
const (
	backend   = "backend"
	gitbridge = "gitbridge"
	konnector = "konnector"
)

// The other ports.
const (
	clusters      = "clusters" // whether they are ready
	backendHealth = backend + "-health"
	metrics       = "-metrics" // of an agent
)

// ports are by name.
type ports map[string]int

// printPorts prints those of the last time, so that addresses stay; but for those that
// another process has taken meanwhile.
func (l *loop) printPorts(w io.Writer) error {
	chosen, err := l.readPorts()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if chosen, err = choose(chosen, env.Runs(l.dir)); err != nil {
		return err
	}
	data, err := json.Marshal(chosen)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.portsFile(), data, 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// choose keeps ports that are free, and all of a loop that runs: it is its own.
func choose(last ports, runs bool) (ports, error) {
	chosen, taken := ports{}, map[int]bool{}
	for _, name := range []string{clusters, backend, backendHealth, gitbridge, gitbridge + metrics, konnector, konnector + metrics} {
		port := last[name]
		for port == 0 || taken[port] || !runs && !free(port) {
			var err error
			if port, err = freePort(); err != nil {
				return nil, err
			}
		}
		chosen[name], taken[port] = port, true
	}
	return chosen, nil
}

// The environment takes its ports from above these, after a component's were chosen and
// before the component listens.
const firstPort, lastPort = 12000, 20000

func freePort() (int, error) {
	for range 100 {
		if port := firstPort + rand.IntN(lastPort-firstPort); free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port between %d and %d on 127.0.0.1", firstPort, lastPort)
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (l *loop) portsFile() string { return filepath.Join(l.bin, "ports.json") }

func (l *loop) readPorts() (ports, error) {
	data, err := os.ReadFile(l.portsFile())
	if err != nil {
		return nil, err
	}
	var p ports
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", l.portsFile(), err)
	}
	return p, nil
}
