// Package platform runs all of gitbind on real parts: the components as
// processes, each with its own least rights, in an environment of package env.
// The demo and the end-to-end tests stand on it.
package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/test/env"
	"gitbind.dev/test/postgres/server"
	"gitbind.dev/test/proxy"
)

// DeployedMemory is the variable by which the deployments
// (kustomize/deployments) have Go collect before their memory limit.
const DeployedMemory = "GOMEMLIMIT=640MiB"

// Options say what to run.
type Options struct {
	// AppClusters are the names of the app clusters; env.App when empty.
	AppClusters []string
	// Dir holds everything and is kept; a temporary one is used when empty.
	Dir string
	// Bin holds the built components; they are built when it is empty.
	Bin string
	// Plain leaves Crossplane out: the API on offer is a namespaced
	// CustomResourceDefinition, to whose objects nothing happens. It is what
	// gitbind itself costs.
	Plain bool
	// Postgres runs an operator of the a8s kinds, with real PostgreSQL servers, on the
	// control plane, and offers all that is made of these kinds. Without it an instance is
	// a ConfigMap with the order.
	Postgres bool
	// Gitea has the repositories on a Gitea, in place of the embedded host.
	Gitea bool
	// Profile has the agents serve their profiles.
	Profile bool
	// Audit has the API servers log each request (env.Options).
	Audit bool
	// Network puts proxies between the components and the servers they use.
	Network bool
	// Replicas is how many of each agent run, of which one works: one by default.
	Replicas int
	// Shards divide the app clusters among them, each with bridges of its own: one shard by default.
	Shards int
	// Clocks says that the components in Bin were built by BuildWithClocks, and has their
	// clocks be what SetClock sets.
	Clocks bool
	// Pods has the components run as pods on nodes, in place of processes; it needs
	// env.Isolate.
	Pods *Pods
	// NoComponents leaves out backend and bridge: others run them (Attach).
	NoComponents bool
	// AgentArgs are further arguments of both agents.
	AgentArgs []string
	// BackendArgs are further arguments of the backend.
	BackendArgs []string
	// Env are variables of the components, "NAME=value", besides this process's own.
	Env []string
	// Progress is told what is going on; nobody when nil.
	Progress io.Writer
}

// Platform is a control plane with gitbind, and app clusters that may connect.
type Platform struct {
	*env.Env
	// Bin holds the components.
	Bin string
	// BackendURL is the backend's base URL.
	BackendURL string
	// GitDir holds the repositories of the embedded host.
	GitDir string

	Backend, Bridge *env.Process
	// Bridges are all replicas of all shards, the one that began first among them.
	Bridges []*env.Process
	// Network is nil unless it was asked for.
	Network *Network

	// Operator is the one of the a8s kinds; nil unless it was asked for.
	Operator *env.Process

	plain       bool
	postgres    bool
	pods        *Pods
	attached    bool
	profile     bool
	replicas    int
	shards      []string
	clocks      bool
	agentArgs   []string
	backendArgs []string
	variables   []string
	// Profiles are where, by the process' name.
	Profiles map[string]string
	// metrics are where, by the process' name.
	metrics map[string]string
	// databases is the folder of PostgreSQL's servers, "" without them.
	databases  string
	mu         sync.Mutex
	konnectors map[string][]*env.Process
}

// Start starts the environment, installs gitbind's manifests and the first API
// on the control plane, and runs backend and bridge.
func Start(ctx context.Context, o Options) (*Platform, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	options := env.Options{
		Dir: o.Dir, Clusters: append([]string{env.Control}, o.AppClusters...),
		Crossplane: !o.Plain, Dex: true, Gitea: o.Gitea, Audit: o.Audit, Progress: o.Progress,
	}
	repositories := ""
	if o.Pods != nil {
		options.Nodes, options.Images, options.CertManager = o.Pods.Nodes, o.Pods.Images, true
		repositories = o.Pods.Repositories
	}
	e, err := env.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	p := &Platform{
		Env: e, Bin: o.Bin, plain: o.Plain, postgres: o.Postgres, pods: o.Pods, profile: o.Profile, replicas: max(1, o.Replicas), shards: shards(o.Shards), clocks: o.Clocks, agentArgs: o.AgentArgs, backendArgs: o.BackendArgs,
		GitDir: cmp.Or(repositories, filepath.Join(e.Dir, "git")), Profiles: map[string]string{}, metrics: map[string]string{}, konnectors: map[string][]*env.Process{},
	}
	// What the components put into temporary files is found there.
	temporary := filepath.Join(p.Dir, "tmp")
	p.variables = append(slices.Clone(o.Env), "TMPDIR="+temporary)
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	if o.Network {
		git, err := proxy.StartHTTP("")
		if err != nil {
			return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
		p.Network = &Network{git: git, api: map[string]*proxy.Proxy{}}
	}
	start := p.start
	switch {
	case o.NoComponents:
		start = p.install
	case o.Pods != nil:
		start = p.startPods
	}
	if err := start(ctx); err != nil {
		return nil, errors.Join(err, p.Stop(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// complete fills in what was left empty. Bin may be relative to this process'
// folder, and the components run in others.
func (o *Options) complete() (err error) {
	if o.Postgres {
		// Before anything is started, so that what is missing is said at once.
		if _, err := server.Find(); err != nil {
			return err
		}
	}
	if len(o.AppClusters) == 0 {
		o.AppClusters = []string{env.App}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Bin != "" {
		o.Bin, err = filepath.Abs(o.Bin)
	}
	return err
}

// Stop ends everything.
func (p *Platform) Stop(ctx context.Context) error {
	err := p.Env.Stop(ctx)
	if p.Network != nil {
		p.Network.close()
	}
	return err
}

func (p *Platform) start(ctx context.Context) error {
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.install(gctx) })
	group.Go(func() error { return p.build(gctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := p.startBackend(ctx); err != nil {
		return err
	}
	return p.startBridge(ctx)
}

func (p *Platform) startPods(ctx context.Context) error {
	if err := p.install(ctx); err != nil {
		return err
	}
	return p.AwaitOffer(ctx)
}

// build builds the components, unless they were given.
func (p *Platform) build(ctx context.Context) error {
	if p.Bin == "" {
		p.Bin = env.Built()
	}
	if p.Bin != "" {
		return nil
	}
	p.Bin = filepath.Join(p.Dir, "bin")
	return Build(ctx, p.Bin)
}

// Build builds the components into a folder.
func Build(ctx context.Context, bin string) error { return build(ctx, bin, "CGO_ENABLED=0") }

// BuildWithRaceDetector does the same with the race detector, which needs cgo.
func BuildWithRaceDetector(ctx context.Context, bin string) error {
	return build(ctx, bin, "CGO_ENABLED=1", "-race")
}

func build(ctx context.Context, bin, cgo string, flags ...string) error {
	root, err := env.Root()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-o", bin + string(filepath.Separator)}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./konnector/cmd/...", "./gitbridge/cmd/...", "./backend/cmd/...")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the components: %w\n%s", err, out)
	}
	return nil
}

// install installs on the control plane what an operator installs there.
func (p *Platform) install(ctx context.Context) error {
	control := p.Cluster(env.Control)
	group, gctx := errgroup.WithContext(ctx)
	if p.postgres {
		group.Go(func() error { return p.startOperator(gctx) })
	}
	group.Go(func() error {
		paths := []string{"test/e2e/platform/who-may-bind.yaml", p.apis()}
		if p.pods == nil {
			paths = append([]string{"kustomize/processes/control-plane"}, paths...)
		} else if err := p.installPods(gctx); err != nil {
			return err
		}
		for _, path := range paths {
			if err := control.Apply(gctx, path); err != nil {
				return err
			}
		}
		if p.plain {
			return nil
		}
		_, err := p.Kubectl(gctx, control.Kubeconfig, "wait", "--for=condition=Offered", "--timeout=2m", "xrd", "--all")
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	// Otherwise the first deletes may wait for half a minute.
	return control.Rediscover(ctx)
}

// apis has the APIs on offer, and what is made of their claims.
func (p *Platform) apis() string {
	switch {
	case p.plain:
		return "test/e2e/platform/plain-api.yaml"
	case p.postgres:
		return "kustomize/crossplane-api"
	}
	return "test/crossplane-api"
}

func (p *Platform) startBackend(ctx context.Context) error {
	if len(p.shards) > 1 {
		p.backendArgs = append(p.backendArgs, "--shards="+strings.Join(p.shards, ","))
	}
	if p.Gitea != nil {
		token, err := p.Gitea.Token(ctx)
		if err != nil {
			return err
		}
		file := filepath.Join(p.Dir, "gitea-token")
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			return err
		}
		p.backendArgs = append(p.backendArgs, "--gitea-url="+p.Gitea.URL, "--gitea-token-file="+file)
	}
	program, err := p.BackendProgram(ctx)
	if err != nil {
		return err
	}
	var ports []int
	if p.Backend, ports, err = p.run(ctx, program); err != nil {
		return err
	}
	p.BackendURL = p.publicURL(ports[0])
	return p.AwaitOffer(ctx)
}

// AwaitOffer returns when the APIs can be bound.
func (p *Platform) AwaitOffer(ctx context.Context) error {
	_, err := p.Kubectl(ctx, p.Control(), "wait", "--for=condition=Offered", "--timeout=2m", "apiserviceexporttemplate", "--all")
	return err
}

func (p *Platform) startBridge(ctx context.Context) error {
	for _, shard := range p.shards {
		bridges, err := p.runAgents(ctx, p.bridge(shard))
		if err != nil {
			return err
		}
		p.Bridges = append(p.Bridges, bridges...)
	}
	p.Bridge = p.Bridges[0]
	return nil
}

// StartKonnector runs the konnector of an app cluster, once its manifests are
// installed there.
func (p *Platform) StartKonnector(ctx context.Context, cluster string) (*env.Process, error) {
	all, err := p.runAgents(ctx, konnector(cluster))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.konnectors[cluster] = all
	return all[0], nil
}

// Konnector is the first one of an app cluster, nil before StartKonnector.
func (p *Platform) Konnector(cluster string) *env.Process {
	if all := p.Konnectors(cluster); len(all) > 0 {
		return all[0]
	}
	return nil
}

// Konnectors are all replicas of an app cluster's.
func (p *Platform) Konnectors(cluster string) []*env.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.konnectors[cluster]
}

// runAgents runs the replicas of an agent. The first one's name is the agent's.
func (p *Platform) runAgents(ctx context.Context, a agent) ([]*env.Process, error) {
	var all []*env.Process
	for i := range p.replicas {
		replica := a
		if i > 0 {
			replica.name += fmt.Sprintf("-%d", i+1)
		}
		one, err := p.runAgent(ctx, replica)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (p *Platform) runAgent(ctx context.Context, a agent) (*env.Process, error) {
	program, err := p.agentProgram(ctx, a)
	if err != nil {
		return nil, err
	}
	process, ports, err := p.run(ctx, program)
	if err == nil && p.profile {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.Profiles[a.name] = "http://" + address(ports[1]) + "/debug/pprof/"
	}
	return process, err
}

// MetricsURL is where a component serves its metrics.
func (p *Platform) MetricsURL(process string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.metrics[process]
}

// run runs a component, which serves its metrics on one port more.
func (p *Platform) run(ctx context.Context, program env.Program) (*env.Process, []int, error) {
	args := program.Args
	program.Args = func(ports []int) []string {
		return append(args(ports), "--metrics-listen="+address(ports[program.Ports-1]))
	}
	program.Ports++
	process, ports, err := p.Run(ctx, p.withClock(program))
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.metrics[program.Name] = "http://" + address(ports[len(ports)-1]) + "/metrics"
	}
	return process, ports, err
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Home is a user's home directory, where the kubectl plugin keeps its tokens.
func (p *Platform) Home(user string) string {
	home := filepath.Join(p.Dir, "home", user)
	_ = os.MkdirAll(home, 0o700)
	return home
}
