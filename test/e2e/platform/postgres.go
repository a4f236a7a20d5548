package platform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gitbind.dev/test/env"
)

// startOperator installs the a8s kinds on the control plane and runs what serves them.
// It is not one of ours: it is built even where the components are given.
func (p *Platform) startOperator(ctx context.Context) error {
	control := p.Cluster(env.Control)
	if err := control.Apply(ctx, "test/postgres/crds"); err != nil {
		return err
	}
	binary := filepath.Join(p.Dir, "postgres-operator")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, "./test/postgres/cmd/postgres-operator")
	cmd.Dir = p.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the operator of PostgreSQL: %w\n%s", err, out)
	}
	data, err := p.Shared()
	if err != nil {
		return err
	}
	p.databases = data
	p.Operator, _, err = p.Run(ctx, env.Program{
		Name: "postgres-operator", Path: binary, Ports: 1,
		Args: func(ports []int) []string {
			return []string{"--kubeconfig=" + control.Kubeconfig, "--data-dir=" + data, "--health-listen=" + address(ports[0])}
		},
		Ready: func(ports []int) string { return "http://" + address(ports[0]) + "/readyz" },
	})
	return err
}

// DatabasePorts are those of all servers of PostgreSQL: of an instance with standbys, the
// primary's is one of three.
func (p *Platform) DatabasePorts() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(p.databases, "instances", "*", "*", "port"))
	if err != nil {
		return nil, err
	}
	var ports []string
	for _, file := range files {
		port, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		ports = append(ports, strings.TrimSpace(string(port)))
	}
	return ports, nil
}
