package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// App and Control are the names of the clusters that are started by default.
// Crossplane runs on the one named Control.
const (
	App     = "app"
	Control = "control"
)

// Options say what to start. The zero value is what most tests need: the two
// clusters, each with its controller manager, and nothing else.
type Options struct {
	// Dir holds the data, logs and kubeconfigs, and is kept by Stop; the data of
	// an earlier start in it are removed. Without it a temporary directory is
	// used, which Stop removes.
	Dir string
	// Clusters are the names of the clusters: App and Control when it is nil,
	// and none when it is empty.
	Clusters []string
	// NoControllerManager leaves out the controller managers: namespaces are
	// never gone, owned objects stay, service accounts get no tokens.
	NoControllerManager bool
	// Crossplane starts Crossplane, a function and a provider on Control.
	Crossplane bool
	// Dex starts an OpenID Connect provider.
	Dex bool
	// Zitadel starts a second OpenID Connect provider, which is certified and not
	// like Dex.
	Zitadel bool
	// WebRedirect is the one address to which Zitadel sends browsers back for
	// its confidential client.
	WebRedirect string
	// Gitea starts a Git host. It is built where it is first asked for.
	Gitea bool
	// CertManager starts controllers of cert-manager on Control. They are built where they
	// are first asked for.
	CertManager bool
	// Nodes is how many nodes a cluster has, by its name. With any, clusters and Dex are
	// reached by pods, too, at an address that is not 127.0.0.1, and Dex by TLS. It needs
	// Isolate.
	Nodes map[string]int
	// Images are archives of images that all nodes have: PauseImage and CoreDNSImage are
	// among them.
	Images []string
	// Audit has the API servers log each request with the times of its begin and end.
	Audit bool
	// PollInterval is how often Crossplane and its provider look at an object
	// though nothing has told them of a change; 10 seconds by default. Longer
	// is better where thousands of objects are measured.
	PollInterval time.Duration
	// Progress is told what is built; os.Stderr by default.
	Progress io.Writer
}

// An Env is a running environment.
type Env struct {
	Dir        string
	Clusters   []*Cluster
	Crossplane *Crossplane // nil when it was not asked for
	Dex        *Dex        // nil when it was not asked for
	Zitadel    *Zitadel    // nil when it was not asked for
	// CAFile has the certificate, in PEM, of who signs for servers that people and pods
	// use; "" without nodes.
	CAFile  string
	Gitea   *Gitea // nil when it was not asked for
	Kubectl string // path of a kubectl
	Root    string // of the checkout

	network   *network   // of the nodes; nil without any
	images    []string   // that nodes have
	serverCA  *authority // signs for servers that people use; nil without nodes
	programs  programs
	spawner   *Spawner
	temporary bool
	unlock    func()
	began     time.Time

	mu        sync.Mutex
	processes []*Process
	phases    []Phase
	shared    []func() error // remove what Shared made
	stopped   bool
}

// A Phase is a part of the start. Phases overlap.
type Phase struct {
	Name  string
	After time.Duration // from the begin of the start to that of the phase
	Took  time.Duration
}

// Start builds what is not built yet, starts everything and returns when it can
// be used. When it fails nothing runs, and a temporary directory is gone.
func Start(ctx context.Context, o Options) (*Env, error) {
	if o.Clusters == nil {
		o.Clusters = []string{App, Control}
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	if o.PollInterval == 0 {
		o.PollInterval = 10 * time.Second
	}
	if len(o.Nodes) > 0 && !IsIsolated() {
		return nil, errors.New("start nodes: they need namespaces of their own: call Isolate first")
	}
	if (o.Crossplane || o.CertManager) && !slices.Contains(o.Clusters, Control) {
		return nil, fmt.Errorf("start Crossplane or cert-manager: they need a cluster named %q", Control)
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if err := readCheckout(root); err != nil {
		return nil, err
	}
	programs, err := build(ctx, o.Progress, o.needs)
	if err != nil {
		return nil, err
	}
	e := &Env{Kubectl: programs[kubectl], Root: root, programs: programs, began: time.Now()}
	if err := e.makeDir(o.Dir); err != nil {
		return nil, err
	}
	e.spawner = NewSpawner()
	if err := e.startAll(ctx, o); err != nil {
		return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	if err := e.writeAttachable(); err != nil {
		return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	return e, nil
}

// needs tells which parts are to be built.
func (o Options) needs(p part) bool {
	switch p.name {
	case kubelet, scheduler, kubeProxy, coreDNS:
		return len(o.Nodes) > 0
	case controllerManager:
		return !o.NoControllerManager && len(o.Clusters) > 0
	case crossplane, function, provider:
		return o.Crossplane
	case dex:
		return o.Dex
	case zitadel:
		return o.Zitadel
	case gitea:
		return o.Gitea
	case certManager:
		return o.CertManager
	default:
		return !p.extra && len(o.Clusters) > 0
	}
}

func (e *Env) startAll(ctx context.Context, o Options) error {
	if len(o.Nodes) > 0 {
		e.images = o.Images
		var err error
		if e.network, err = newNetwork(ctx); err != nil {
			return err
		}
		if err = e.certify(); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range o.Clusters {
		c := &Cluster{Name: name, env: e, dir: filepath.Join(e.Dir, name), nodes: o.Nodes[name], audit: o.Audit, serving: make(chan struct{})}
		e.Clusters = append(e.Clusters, c)
		group.Go(func() error { return c.start(ctx, !o.NoControllerManager) })
	}
	if o.Crossplane {
		group.Go(func() (err error) {
			e.Crossplane, err = e.startCrossplane(ctx, e.Cluster(Control), o.PollInterval)
			return err
		})
	}
	if o.Dex {
		group.Go(func() (err error) {
			e.Dex, err = e.startDex(ctx)
			return err
		})
	}
	if o.Zitadel {
		group.Go(func() (err error) {
			e.Zitadel, err = e.startZitadel(ctx, o.WebRedirect)
			return err
		})
	}
	if o.CertManager {
		group.Go(func() error { return e.startCertManager(ctx, e.Cluster(Control)) })
	}
	if o.Gitea {
		group.Go(func() (err error) {
			e.Gitea, err = e.startGitea(ctx)
			return err
		})
	}
	return group.Wait()
}

// host is the address at which clusters and Dex are reached.
func (e *Env) host() string {
	if e.network != nil {
		return hubAddress
	}
	return "127.0.0.1"
}

// Cluster is the cluster of that name, or nil.
func (e *Env) Cluster(name string) *Cluster {
	for _, c := range e.Clusters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Processes are all parts that were started, in no order.
func (e *Env) Processes() []*Process {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.processes)
}

// Phases are what the start consisted of, in the order in which they began.
func (e *Env) Phases() []Phase {
	e.mu.Lock()
	defer e.mu.Unlock()
	phases := slices.Clone(e.phases)
	slices.SortFunc(phases, func(a, b Phase) int { return cmp.Compare(a.After, b.After) })
	return phases
}

// phase begins a phase; what it returns ends it.
func (e *Env) phase(name string) (end func()) {
	began := time.Now()
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.phases = append(e.phases, Phase{Name: name, After: began.Sub(e.began), Took: time.Since(began)})
	}
}

// oneOff makes a process of a part, for something that ends by itself.
func (e *Env) oneOff(name, part string, args ...string) *Process {
	return &Process{
		Name: name, LogPath: filepath.Join(e.Dir, "logs", name+".log"),
		part: part, path: e.programs[part], args: args, dir: e.Dir, spawner: e.spawner,
	}
}

// process makes a process of a part that belongs to the environment from then
// on; it takes the place of one of the same name.
func (e *Env) process(name, part string, args []string, ready func(context.Context) error) *Process {
	p := e.oneOff(name, part, args...)
	p.ready = ready
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes = slices.DeleteFunc(e.processes, func(other *Process) bool { return other.Name == name })
	e.processes = append(e.processes, p)
	return p
}

// Stop ends everything and removes a temporary directory. Processes that do not
// end by themselves in time, or when ctx is done, are killed. Stopping twice is
// no error.
func (e *Env) Stop(ctx context.Context) error {
	e.mu.Lock()
	again := e.stopped
	e.stopped = true
	shared := e.shared
	e.mu.Unlock()
	if again {
		return nil
	}
	_ = os.Remove(filepath.Join(e.Dir, attachFile))
	errs := e.stopNodes(ctx)
	for _, stage := range e.stages() {
		ended := make(chan error)
		for _, p := range stage {
			go func() { ended <- p.Stop(ctx) }()
		}
		for range stage {
			errs = append(errs, <-ended)
		}
	}
	e.spawner.Close()
	e.unlock()
	for _, remove := range shared {
		errs = append(errs, remove())
	}
	if e.temporary {
		errs = append(errs, os.RemoveAll(e.Dir))
	}
	return errors.Join(errs...)
}

// stopNodes ends the nodes while their API servers still answer.
func (e *Env) stopNodes(ctx context.Context) []error {
	var nodes []*Node
	for _, c := range e.Clusters {
		nodes = append(nodes, c.Nodes...)
	}
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { errs[i] = n.stop(ctx) })
	}
	group.Wait()
	return errs
}

// stages says in which order processes are stopped: clients first, and an API
// server before its etcd, without which it would not end for a long while.
func (e *Env) stages() [3][]*Process {
	var stages [3][]*Process
	for _, p := range e.Processes() {
		switch p.part {
		case apiServer:
			stages[1] = append(stages[1], p)
		case etcd:
			stages[2] = append(stages[2], p)
		default:
			stages[0] = append(stages[0], p)
		}
	}
	return stages
}
