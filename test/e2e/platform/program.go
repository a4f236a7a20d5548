package platform

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
)

// BackendProgram is the backend: its first port is for its API, Git host and web page,
// the second one for its health.
func (p *Platform) BackendProgram(ctx context.Context) (env.Program, error) {
	kubeconfig, err := p.kubeconfigFor(ctx, env.Control, "gitbind-backend", "backend")
	return env.Program{
		Name: "backend", Path: filepath.Join(p.Bin, "backend"), Env: p.variables, Ports: 2,
		Args: func(ports []int) []string {
			return append([]string{
				"--kubeconfig=" + kubeconfig, "--git-dir=" + p.GitDir,
				"--listen=" + address(ports[0]), "--public-url=" + p.publicURL(ports[0]),
				"--health-listen=" + address(ports[1]),
				"--oidc-issuer=" + p.Dex.Issuer, "--oidc-client-id=" + p.Dex.ClientID,
			}, p.backendArgs...)
		},
		Ready: func(ports []int) string { return "http://" + address(ports[1]) + "/readyz" },
	}, err
}

// BridgeProgram is the bridge; its ports are as those of KonnectorProgram.
func (p *Platform) BridgeProgram(ctx context.Context) (env.Program, error) {
	return p.agentProgram(ctx, p.bridge(v1alpha1.DefaultShard))
}

// KonnectorProgram is the konnector of an app cluster, once its manifests are installed
// there. Its first port is for its health, the second one for its profiles.
func (p *Platform) KonnectorProgram(ctx context.Context, cluster string) (env.Program, error) {
	return p.agentProgram(ctx, konnector(cluster))
}

// An agent is one replica of a bridge or konnector.
type agent struct {
	name, cluster, account, binary string
	args                           []string
}

func (p *Platform) bridge(shard string) agent {
	name := "gitbridge"
	if shard != v1alpha1.DefaultShard {
		name += "-" + shard
	}
	return agent{name, env.Control, "gitbind-gitbridge", "gitbridge", []string{"--backend-url=" + p.BackendURL, "--shard=" + shard}}
}

// shards are the names of n shards, or of one.
func shards(n int) []string {
	names := []string{v1alpha1.DefaultShard}
	for i := 2; i <= n; i++ {
		names = append(names, fmt.Sprintf("shard-%d", i))
	}
	return names
}

func konnector(cluster string) agent {
	return agent{"konnector-" + cluster, cluster, "konnector", "konnector", nil}
}

func (p *Platform) agentProgram(ctx context.Context, a agent) (env.Program, error) {
	kubeconfig, err := p.kubeconfigFor(ctx, a.cluster, a.account, a.name)
	return env.Program{
		Name: a.name, Path: filepath.Join(p.Bin, a.binary), Env: p.variables, Ports: 2,
		Args: func(ports []int) []string {
			args := slices.Concat([]string{"--kubeconfig=" + kubeconfig, "--health-listen=" + address(ports[0])}, a.args, p.agentArgs,
				// As a pod's name: what restarts in its place goes on with its Lease.
				[]string{"--lease-identity=" + a.name})
			if p.profile {
				args = append(args, "--pprof-listen="+address(ports[1]))
			}
			return args
		},
		Ready: func(ports []int) string { return "http://" + address(ports[0]) + "/healthz" },
	}, err
}

// Attach is the platform that another process has begun in a directory with
// NoComponents, for one that runs its components, or uses them, with programs from bin
// and the backend on a port. It is not stopped.
func Attach(dir, bin string, backendPort int) (*Platform, error) {
	e, err := env.Attach(dir)
	if err != nil {
		return nil, err
	}
	p := &Platform{Env: e, Bin: bin, GitDir: filepath.Join(e.Dir, "git"), attached: true}
	p.BackendURL = p.publicURL(backendPort)
	return p, nil
}
