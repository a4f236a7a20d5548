// Package chaos has people use gitbind while everything around it fails: a load
// of creates, edits on both sides, deletes and status changes, while processes
// are killed and stopped and the network between them is cut. When all is good
// again it looks from the outside whether anything was lost.
//
// Both the schedule of faults and what the people do are functions of a seed, as
// far as machines repeat themselves. It decides nothing about gitbind.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fsck"
	"gitbind.dev/test/scan"
)

// Options say what is to happen.
type Options struct {
	Seed uint64
	// For is how long the load lasts, and with it the faults.
	For time.Duration
	// Plan makes the faults. Default: Plan.
	Plan func(*rand.Rand, time.Duration, Targets) []Fault
	// Snapshots has a longer run restore the app cluster from a snapshot of its etcd, once.
	Snapshots bool
	// Limits leaves the limits of removals as they are: what is too much is
	// approved by a person when the load has ended.
	Limits bool
	// Clocks has the clocks of components be wrong: those in Bin were built by
	// platform.BuildWithClocks.
	Clocks bool
	// Restores has the Git host restored to an older state, and given back what it lost.
	Restores bool
	// Crossplane delivers some of the claims.
	Crossplane bool
	// Pause is how long each person waits between two things, on average.
	Pause time.Duration
	// Settle is how long it may take until all agree after the last fault.
	Settle time.Duration
	// Evidence is the folder for what a violation can be explained from. Default: a
	// temporary one, which is kept.
	Evidence string
	// Dir and Bin are the platform's.
	Dir, Bin string
	// Out is told what happens.
	Out io.Writer
}

// Report is what came of a run.
type Report struct {
	Seed       uint64
	Faults     int
	Counts     Counts
	Violations []Violation
}

// Err is an error if something must not be as it is.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	return fmt.Errorf("seed %d: %d violations, the first: %s", r.Seed, len(r.Violations), r.Violations[0])
}

// leases are shorter than an agent's default, so that some run out.
var leases = []string{"--lease-duration=4s", "--lease-renew=3s", "--lease-retry=500ms"}

const leaseDuration = 4 * time.Second

// user is who has connected the app cluster and pushes commits.
const user = env.Alice

// run is one run.
type run struct {
	*platform.Platform
	options  Options
	journal  *Journal
	injector *injector
	webhook  *webhook
	sides    *sides
	lives    *lives
	numbers  numbers
	scan     *scan.Scan
	// deliveries are the values that were seen in the app cluster.
	deliveries *deliveries
	restore    *etcdRestore
	looker     *looker

	developers    []*developer
	author        *author
	operator      *operator
	administrator *administrator
	proposers     []*proposer
	reviewer      *reviewer
}

// Run does everything once, on a platform of its own. The error is about the run
// itself: what it found is in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	p, err := platform.Start(ctx, platform.Options{
		Dir: o.Dir, Bin: o.Bin, Plain: !o.Crossplane, Network: true, Replicas: 2, Clocks: o.Clocks, AgentArgs: leases, Progress: o.Out,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Stop(context.WithoutCancel(ctx))) }()
	r := &run{Platform: p, options: o, journal: &Journal{began: time.Now()}, lives: &lives{seen: map[string][]string{}}, scan: scan.New()}
	r.deliveries = newDeliveries(r.scan)
	watching, end := context.WithCancel(ctx)
	defer end()
	go r.scan.Watch(watching)
	r.restore = newEtcdRestore(ctx)
	r.injector = newInjector(r)
	if err := r.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	defer r.webhook.server.Close()
	plan := o.Plan
	if plan == nil {
		plan = Plan
	}
	faults := plan(rand.New(rand.NewPCG(o.Seed, 0)), o.For, r.targets())
	if o.Snapshots {
		faults = withEtcdRestore(rand.New(rand.NewPCG(o.Seed, 5)), o.For, env.App, faults)
	}
	r.journal.began = time.Now()
	r.say("seed %d: %d faults within %s", o.Seed, len(faults), o.For)
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stop()
	// Until the end: an agent that is starved of a processor may lose its Lease without a fault.
	keeper.Go(func() { r.injector.keep(keeping) })
	c := r.checker()
	settled, err := r.work(ctx, faults)
	if err == nil {
		err = r.check(ctx, c, settled)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		// It may be for what was lost, and is to be explained as that is.
		c.fail("", "not all could be checked: %v", err)
	}
	return r.report(ctx, c, len(faults)), nil
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintln(r.options.Out, r.journal.note(format, args...))
}

// targets are what faults can happen to, in an order that is always the same.
func (r *run) targets() Targets {
	t := Targets{Lease: leaseDuration, Links: r.Network.Links(), Servers: []string{r.Backend.Name}}
	slices.SortFunc(t.Links, func(a, b platform.Link) int { return strings.Compare(a.String(), b.String()) })
	for _, p := range slices.Concat(r.Konnectors(env.App), r.Bridges) {
		t.Agents = append(t.Agents, p.Name)
	}
	if r.options.Restores {
		t.Host = r.Backend.Name
	}
	if r.options.Clocks {
		t.Clocks = append(slices.Clone(t.Agents), r.Backend.Name)
	}
	for _, name := range []string{env.App, env.Control} {
		t.Servers = append(t.Servers, r.Cluster(name).APIServer.Name)
	}
	return t
}

// work runs the load and the faults, and returns when all is good again and
// nobody has anything left to do. What all agree on then is nil where they do not.
func (r *run) work(ctx context.Context, faults []Fault) (settled *state, err error) {
	running, stop := context.WithCancel(ctx)
	load, end := context.WithTimeout(ctx, r.options.For)
	defer end()
	trying, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var helpers, people sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	for _, f := range faults {
		if f.Kind == RestoreEtcd {
			r.administrator.restoreAt = time.Now().Add(f.At)
		}
	}
	helpers.Go(func() { r.lives.look(running, r.sides) })
	helpers.Go(func() { r.deliveries.look(running, r.sides) })
	helpers.Go(func() { r.injector.steps.watch(running, r.sides) })
	helpers.Go(func() { r.reviewer.look(running, r.sides) })
	helpers.Go(func() { r.reviewer.watch(running, r.sides) })
	for i := range reviews {
		helpers.Go(func() { r.reviewer.work(running, load, rand.New(rand.NewPCG(r.options.Seed, uint64(300+i)))) })
	}
	for i, p := range r.proposers {
		people.Go(func() { p.work(trying, load, rand.New(rand.NewPCG(r.options.Seed, uint64(200+i)))) })
	}
	for i, d := range r.developers {
		people.Go(func() { d.work(trying, load, rand.New(rand.NewPCG(r.options.Seed, uint64(100+i)))) })
	}
	people.Go(func() { r.author.work(trying, load, rand.New(rand.NewPCG(r.options.Seed, 1))) })
	people.Go(func() { r.operator.work(trying, load, rand.New(rand.NewPCG(r.options.Seed, 2))) })
	people.Go(func() { r.administrator.work(trying, load, rand.New(rand.NewPCG(r.options.Seed, 4))) })
	r.webhook.trouble(rand.New(rand.NewPCG(r.options.Seed, 3)))
	r.injector.restoreSnapshot = func(ctx context.Context, f Fault) {
		if err := r.restoreSnapshot(ctx, f); err != nil {
			r.journal.giveUp("", "the app cluster could not be restored: %v", err)
		}
	}
	r.injector.inject(ctx, faults)
	// On a slow machine the faults end after the load does, or before.
	<-load.Done()
	hopeless := time.AfterFunc(hope, giveUp)
	defer hopeless.Stop()
	// Some of them wait for what agents hold until a person decides.
	waiting, decided := context.WithCancel(running)
	defer decided()
	helpers.Go(func() {
		for sleep(waiting, 10*time.Second); waiting.Err() == nil; sleep(waiting, 10*time.Second) {
			if st, err := r.sides.read(waiting); err == nil && st.moves() > 0 {
				r.approve(waiting, st)
			}
		}
	})
	people.Wait()
	decided()
	r.webhook.trouble(nil)
	r.say("the load and the faults have ended: %s", r.journal.counts())
	for deadline := time.Now().Add(2 * time.Minute); !r.injector.allRun(); sleep(ctx, 50*time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.New("not all processes run again")
		}
	}
	r.say("all processes run")
	settled = r.settle(ctx)
	return settled, ctx.Err()
}

// settle waits until all agree, and gives what on; or nil when Options.Settle is over.
func (r *run) settle(ctx context.Context) *state {
	began := time.Now()
	c := r.checker()
	approve := began.Add(10 * time.Second)
	for deadline := began.Add(r.options.Settle); time.Now().Before(deadline) && ctx.Err() == nil; sleep(ctx, 500*time.Millisecond) {
		st, err := r.sides.read(ctx)
		if err == nil {
			err = r.restore.read(ctx, r.sides, st.head)
		}
		if err != nil {
			continue
		}
		if c.agree(st); len(c.found) == 0 {
			r.say("all agree %s after the last process was there", time.Since(began).Round(100*time.Millisecond))
			return st
		}
		if time.Now().Before(approve) {
			continue
		}
		approve = time.Now().Add(10 * time.Second)
		if r.sides.host.restores.Load() > 0 {
			r.deleteReplayed(ctx, st)
		}
		if r.options.Limits || st.moves() > 0 {
			r.say("%d things are not as they should be", len(c.found))
			r.approve(ctx, st)
		}
	}
	r.say("not all agree after %s", r.options.Settle)
	return nil
}

// approve approves the removals that agents hold.
func (r *run) approve(ctx context.Context, st *state) {
	r.say("%d claims are held as moved: a person approves the removals until %.10s", st.moves(), st.head)
	if err := r.onRepository(ctx, "annotate", "--overwrite", "gitbind.dev/approve-removals="+st.head); err != nil {
		r.say("%v", err)
	}
}

// deleteReplayed does what the konnector says where a Secret is newer than the restored branch: a
// bridge whose clock was ahead had written it.
func (r *run) deleteReplayed(ctx context.Context, st *state) {
	for key, u := range st.app {
		said := condition(u, "Secrets")
		message, _ := said["message"].(string)
		_, name, ok := strings.Cut(message, "kubectl delete secret -n "+u.GetNamespace()+" ")
		if said["reason"] != "Replayed" || !ok {
			continue
		}
		r.say("%s: %s", key, message)
		err := r.sides.app.Resource(secrets).Namespace(u.GetNamespace()).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			r.say("%v", err)
		}
	}
}

func (r *run) checker() *checker {
	return &checker{apis: r.sides.apis, journal: r.journal, lives: r.lives, values: r.scan, restore: r.restore, counts: Counts{}}
}

// check checks everything. Settled is what all agreed on, nil if they did not: what Crossplane
// changes later takes its time to reach the app cluster. The error is about what could not be
// checked; the rest is all the same.
func (r *run) check(ctx context.Context, c *checker, settled *state) error {
	err := r.compare(ctx, c, settled)
	c.setBack(r.reviewer.values)
	repositories, wrong := fsck.CheckAll(ctx, r.GitDir, "--full", "--strict")
	if wrong != nil {
		c.fail("", "%v", wrong)
	}
	for range repositories {
		c.ok("repositories that git fsck has checked")
	}
	err = errors.Join(err, r.quiet(ctx, c))
	if found := errors.Join(r.FindSecrets(ctx, r.scan), r.scan.Commands()); found != nil {
		c.fail("", "a value of a Secret is where it must not be: %v", found)
	} else {
		c.ok("searches for values of Secrets in all that the run left")
	}
	r.deliveries.tell(c)
	return err
}

// compare compares the three places with each other, and history with what people did.
func (r *run) compare(ctx context.Context, c *checker, st *state) (err error) {
	if st == nil {
		if st, err = r.sides.read(ctx); err != nil {
			return err
		}
	}
	if err := r.restore.read(ctx, r.sides, st.head); err != nil {
		return err
	}
	c.agree(st)
	return errors.Join(c.history(ctx, r.sides), c.approved(ctx, r.sides, r.reviewer.seenOnControl()))
}

// report counts, and tells what came of it all.
func (r *run) report(ctx context.Context, c *checker, faults int) *Report {
	c.counts["pushes that the Git host had to refuse"] = r.author.refusals
	c.counts["versions that lost and were merged"] = r.author.merges
	c.counts["restores of the Git host that were given back what was lost"] = r.injector.counted(Restore)
	c.counts["clocks that were a day wrong for a while"] = r.injector.counted(Clock)
	for _, e := range r.journal.all() {
		if e.Side == Review {
			c.counts[fmt.Sprintf("reviews that %s a change: %s", e.Op, e.Outcome)]++
		}
	}
	c.counts["namespaces, definitions and owners that ended claims"] = r.administrator.rounds
	report := &Report{Seed: r.options.Seed, Faults: faults, Counts: c.counts, Violations: slices.Concat(r.journal.givenUp(), c.found)}
	r.tell(ctx, report)
	return report
}

func (r *run) tell(ctx context.Context, report *Report) {
	out := r.options.Out
	told := map[string]bool{}
	for _, v := range report.Violations {
		if v.Claim == "" || told[v.Claim] || len(told) > 5 {
			continue
		}
		told[v.Claim] = true
		fmt.Fprintf(out, "\nWhat happened to %s:\n%s", v.Claim, r.journal.Timeline(v.Claim))
		binding, rest, _ := strings.Cut(v.Claim, " ")
		log, err := r.sides.git(ctx, "log", "--date=format:%H:%M:%S", "--format=%h %cd %an: %s", "main", "--", "bindings/"+binding+"/claims/"+rest+".yaml")
		fmt.Fprintf(out, "Its commits, newest first (%v):\n%s", err, log)
	}
	fmt.Fprintf(out, "\nSeed %d, %d faults. Checked:\n", report.Seed, report.Faults)
	for _, what := range sortedKeys(report.Counts) {
		fmt.Fprintf(out, "  %6d %s\n", report.Counts[what], what)
	}
	if len(report.Violations) == 0 {
		fmt.Fprintln(out, "No violation.")
		return
	}
	for _, v := range report.Violations {
		fmt.Fprintf(out, "VIOLATION %s\n", v)
	}
	dir, err := r.keepEvidence(ctx, report.Violations)
	if err != nil {
		fmt.Fprintf(out, "Not all evidence could be kept: %v\n", err)
	}
	fmt.Fprintf(out, "Objects, repository, logs and timeline are in %s\n", dir)
}

// prepare connects the app cluster, binds the APIs and engages the people.
func (r *run) prepare(ctx context.Context) error {
	control := r.Cluster(env.Control)
	if err := control.Apply(ctx, "test/chaos/api.yaml"); err != nil {
		return err
	}
	if _, err := r.Kubectl(ctx, control.Kubeconfig, "wait", "--for=condition=Offered", "--timeout=2m", "apiserviceexporttemplate/widgets", "apiserviceexporttemplate/gadgets"); err != nil {
		return err
	}
	// Otherwise no object of the new kind goes for half a minute.
	if err := control.Rediscover(ctx); err != nil {
		return err
	}
	if _, err := r.Connect(ctx, user, env.App); err != nil {
		return err
	}
	for _, offer := range []string{"postgresql", "widgets", "gadgets"} {
		if _, err := r.Plugin(ctx, user, r.App(), "bind", offer); err != nil {
			return err
		}
	}
	app, err := client(r.Cluster(env.App).Config())
	if err != nil {
		return err
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		if err := makeNamespace(ctx, app, namespace); err != nil {
			return err
		}
	}
	if !r.options.Limits {
		if err := r.onRepository(ctx, "patch", "--type=merge", "-p", `{"spec":{"removals":{"most":200,"window":"1m","sharePercent":0}}}`); err != nil {
			return err
		}
	}
	if err := r.engage(ctx); err != nil {
		return err
	}
	return r.installWebhook(ctx, r.sides.apis[0])
}

// onRepository runs a command of kubectl on the Connection and on the
// ClusterBinding, by which people set limits and decide.
func (r *run) onRepository(ctx context.Context, command string, args ...string) error {
	for kubeconfig, kind := range map[string]string{r.App(): "connections.gitbind.dev", r.Control(): "clusterbindings.gitbind.dev"} {
		name, err := r.Kubectl(ctx, kubeconfig, "get", kind, "-o", "name")
		if err != nil {
			return err
		}
		if _, err := r.Kubectl(ctx, kubeconfig, slices.Concat([]string{command, strings.TrimSpace(name)}, args)...); err != nil {
			return err
		}
	}
	return nil
}

const developers = 3

func (r *run) engage(ctx context.Context) error {
	id, err := r.ClusterID(ctx, env.App)
	if err != nil {
		return err
	}
	widgets, databases, gadgets := widgets(), postgresql(r.options.Crossplane), gadgets()
	r.sides = &sides{apis: []*api{widgets, databases, gadgets}, clusterID: id, host: &host{repository: filepath.Join(r.GitDir, id+".git"), kept: filepath.Join(r.Dir, "backups")}}
	r.injector.sides = r.sides
	if err := os.MkdirAll(r.sides.host.kept, 0o700); err != nil {
		return err
	}
	if r.sides.app, err = client(r.Cluster(env.App).Config()); err != nil {
		return err
	}
	if r.sides.control, err = client(r.Cluster(env.Control).Config()); err != nil {
		return err
	}
	r.looker = &looker{etcdRestore: r.restore, sides: r.sides, deliveries: r.deliveries, resolve: r.resolve}
	kubeconfig, err := r.Developer(ctx, env.App, "dora")
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	dora, err := client(config)
	if err != nil {
		return err
	}
	url, err := r.CloneURL(ctx, env.App)
	if err != nil {
		return err
	}
	clone := filepath.Join(r.Dir, "clone")
	if _, err := r.Git(ctx, user, r.Dir, "clone", "--quiet", url, clone); err != nil {
		return err
	}
	r.author = &author{dir: clone, host: r.sides.host, journal: r.journal, numbers: &r.numbers, pause: r.options.Pause}
	r.author.git = func(ctx context.Context, args ...string) (string, error) { return r.Git(ctx, user, clone, args...) }
	made := 0
	r.author.fresh = func() *claim {
		made++
		// A file that goes while an equal one comes would look like a moved one.
		return &claim{api: widgets, namespace: "team-b", name: fmt.Sprintf("git-%d", made), size: fmt.Sprintf("size-%d", made), rate: newRate()}
	}
	for i := range developers {
		d := &developer{client: dora, journal: r.journal, numbers: &r.numbers, values: r.scan, pause: r.options.Pause, looker: r.looker}
		add := func(a *api, n int, name string, both bool) {
			for j := range n {
				c := &claim{api: a, namespace: "team-a", name: fmt.Sprintf("%s-%d-%d", name, i, j), both: both, rate: newRate()}
				if !both {
					c.size = "one of its own"
				}
				d.claims = append(d.claims, c)
				if both {
					r.author.both = append(r.author.both, c)
				}
			}
		}
		add(widgets, 6, "own", false)
		add(widgets, 3, "merged", true)
		add(widgets, 2, "shared", true)
		add(databases, 1, "database", true)
		r.developers = append(r.developers, d)
	}
	r.administrator = &administrator{
		developer: &developer{client: dora, journal: r.journal, numbers: &r.numbers, values: r.scan, pause: r.options.Pause},
		api:       gadgets, app: r.sides.app, control: r.sides.control, say: r.say,
		onControl: func(namespace string) string { return r.sides.tenantPrefix() + namespace },
		resolve:   r.resolve,
	}
	if err := r.engageReviewer(ctx, dora, widgets); err != nil {
		return err
	}
	r.operator = &operator{client: r.sides.control, api: widgets, journal: r.journal, numbers: &r.numbers, values: r.scan, pause: 2 * r.options.Pause}
	return nil
}

func (r *run) resolve(ctx context.Context, c *claim, take string) error {
	_, err := r.Plugin(ctx, user, r.App(), "resolve", c.api.binding()+"/"+c.name, "-n", c.namespace, "--take="+take, "--yes")
	return err
}

func client(config *rest.Config) (dynamic.Interface, error) {
	config.Timeout = 2 * answerTimeout
	return dynamic.NewForConfig(config)
}
