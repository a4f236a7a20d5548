package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/app"
	"gitbind.dev/test/env"
)

// TestShards has bridges of two shards, as processes with Leases, and two app clusters
// that are ordered from all the time: one goes from shard to shard, and bridges are
// killed and stopped.
func TestShards(test *testing.T) {
	w := newWorld(test)
	widgets := w.define("testdata/plain.yaml")
	w.must(w.control().Rediscover(w.Context()))
	first, second := w.startShard(v1alpha1.DefaultShard, "a"), w.startShard("b", "b-1")
	moves, stays := w.tenant(widgets), w.tenant(widgets)
	stays.move("b")
	loads := []*load{moves.load(widgets), stays.load(widgets)}
	moves.wantShard(v1alpha1.DefaultShard)
	stays.wantShard("b")
	standby := w.startShard("b", "b-2")

	for _, shard := range []string{"b", v1alpha1.DefaultShard, "b", v1alpha1.DefaultShard} {
		began := time.Now()
		moves.move(shard)
		moves.wantShard(shard)
		loads[0].more(1)
		w.Logf("moved to shard %s, and what is ordered there has arrived, in %s", shard, time.Since(began).Round(10*time.Millisecond))
	}

	// A name of which no bridge runs changes nothing.
	moves.move("misspelt")
	loads[0].more(3)
	if by := moves.clusterBinding().FollowedBy(); by != v1alpha1.DefaultShard {
		w.Errorf("it was handed over to shard %s, which nobody runs", by)
	}
	moves.move(v1alpha1.DefaultShard)

	// While a bridge that does not answer has its Lease, it may go on at any time.
	w.must(second.Signal(syscall.SIGSTOP))
	stays.move(v1alpha1.DefaultShard)
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if by := stays.clusterBinding().FollowedBy(); by != "b" {
			w.Fatalf("shard %s took over from one that may still write", by)
		}
	}
	w.must(second.Signal(syscall.SIGCONT))
	stays.wantShard(v1alpha1.DefaultShard)
	loads[1].more(3)
	stays.move("b")
	stays.wantShard("b")
	loads[1].more(3)

	// Nobody waits for the shard whose bridge is dead but its own clusters, until the other
	// one takes over.
	w.must(second.Kill())
	began := time.Now()
	loads[0].more(3)
	loads[1].more(3)
	w.Logf("the standby has taken over after %s, with a Lease of 15s", time.Since(began).Round(10*time.Millisecond))

	// A bridge that hangs is not waited for, and does not go on where it was.
	w.must(standby.Signal(syscall.SIGSTOP))
	stays.move(v1alpha1.DefaultShard)
	stays.wantShard(v1alpha1.DefaultShard)
	loads[1].more(3)
	w.must(standby.Signal(syscall.SIGCONT))
	select {
	case <-standby.Done():
	case <-time.After(patience):
		w.Fatal("the bridge that hung goes on without its Lease")
	}
	loads[1].more(3)

	for _, l := range loads {
		l.end()
		l.tenant.wantOneWriterAtATime()
	}
	w.must(first.Stop(w.Context()))
	if first.ExitCode() != 0 {
		w.Errorf("the bridge ended with code %d", first.ExitCode())
	}
}

// startShard starts a bridge of a shard as a process.
func (w *world) startShard(shard, identity string) *env.Process {
	w.Helper()
	kubeconfig, err := w.control().KubeconfigFor(w.Context(), v1alpha1.SystemNamespace, v1alpha1.BridgeServiceAccount)
	w.must(err)
	binary, err := os.Executable()
	w.must(err)
	process, _, err := w.env.Run(w.Context(), env.Program{
		Name: "gitbridge-" + identity, Path: binary, Env: []string{asBridge + "=yes"}, Ports: 1,
		Args: func(ports []int) []string {
			return []string{
				"--kubeconfig=" + kubeconfig, "--backend-url=" + w.host.Server.URL, "--workers=8", "--shard=" + shard,
				"--lease-identity=" + identity, "--lease-duration=15s", "--lease-renew=12s", "--lease-retry=500ms",
				fmt.Sprintf("--health-listen=127.0.0.1:%d", ports[0]),
			}
		},
		Ready: func(ports []int) string { return fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[0]) },
	})
	w.must(err)
	w.root.Cleanup(func() { _ = process.Kill() })
	return process
}

// move has another shard follow the tenant's cluster.
func (t *tenant) move(shard string) {
	t.Helper()
	t.must(t.label(shard))
}

func (t *tenant) label(shard string, o ...client.PatchOption) error {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelShard, shard)
	return t.admin.Patch(t.Context(), t.clusterBinding(), client.RawPatch(types.MergePatchType, patch), o...)
}

func (t *tenant) wantShard(shard string) {
	t.Helper()
	t.eventuallyIn(patienceForMany, "it is followed by shard "+shard, func() error { return is(t.clusterBinding().FollowedBy(), shard) })
}

// load orders widgets of a tenant, each of which is changed again and again: its color is
// a number that grows.
type load struct {
	tenant *tenant
	api    v1alpha1.ExportedAPI
	seen   watch.Interface

	mu     sync.Mutex
	rounds int
	// commits are the rounds that commits of main have.
	commits map[string]int
	stop    context.CancelFunc
	done    sync.WaitGroup

	// watched ends with seen. Wrong is what must not be seen, last the newest color of
	// each widget, by name.
	watched sync.WaitGroup
	wrong   []string
	last    map[string]string
	uids    map[string]types.UID
}

const widgetsOfLoad = 5

func (l *load) path(i int) string { return path(l.api, "team-a", fmt.Sprintf("w%d", i)) }

func color(round int) string { return fmt.Sprintf("n%06d", round) }

func (t *tenant) load(api v1alpha1.ExportedAPI) *load {
	t.Helper()
	l := &load{tenant: t, api: api}
	objects, err := dynamic.NewForConfig(t.control().Config())
	t.must(err)
	claims := objects.Resource(schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: api.Resource}).Namespace(v1alpha1.TenantNamespace(t.id) + "-team-a")
	l.seen, err = claims.Watch(t.Context(), metav1.ListOptions{})
	t.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	l.commits, l.last, l.uids = map[string]int{}, map[string]string{}, map[string]types.UID{}
	l.watched.Go(l.watch)
	l.done.Go(func() {
		for ctx.Err() == nil {
			l.push()
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return l
}

func (l *load) push() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds++
	files := map[string]string{}
	for i := range widgetsOfLoad {
		files[l.path(i)] = manifest(l.path(i), "  color: "+color(l.rounds))
	}
	l.commits[l.tenant.push(fmt.Sprintf("Round %d", l.rounds), files)] = l.rounds
}

// more waits until so many rounds have arrived, and are answered, that are not pushed yet.
// Before that, a Lease may have to end, and another bridge to begin.
func (l *load) more(rounds int) {
	l.tenant.Helper()
	l.mu.Lock()
	round := l.rounds + rounds
	l.mu.Unlock()
	l.tenant.eventuallyIn(patienceForMany, "what is ordered now arrives", func() error {
		for i := range widgetsOfLoad {
			u := l.tenant.object(l.path(i))
			if u == nil {
				return fmt.Errorf("%s is not there", l.path(i))
			}
			if got, _, _ := unstructured.NestedString(u.Object, "spec", "color"); got < color(round) {
				return fmt.Errorf("%s has %s, want %s", l.path(i), got, color(round))
			}
		}
		observed, err := contract.DecodeObserved([]byte(l.tenant.host.run(l.tenant.id, "show", "status:"+contract.ObservedPath)))
		l.mu.Lock()
		defer l.mu.Unlock()
		if answered := l.commits[observed.Commit]; err != nil || answered < round {
			return fmt.Errorf("round %d is answered, want %d: %w", answered, round, err)
		}
		return nil
	})
}

// end stops ordering, and sees that all that was ordered has arrived, each once and in its
// order.
func (l *load) end() {
	t := l.tenant
	t.Helper()
	l.stop()
	l.done.Wait()
	l.push()
	for i := range widgetsOfLoad {
		t.wantObject(l.path(i), "spec.color", color(l.rounds))
		t.wantAnswer(l.path(i), contract.Applied)
	}
	t.wantObserved()
	t.eventually("all is seen", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range widgetsOfLoad {
			if got := l.last[fmt.Sprintf("w%d", i)]; got != color(l.rounds) {
				return fmt.Errorf("w%d was seen with %s", i, got)
			}
		}
		return nil
	})
	l.seen.Stop()
	l.watched.Wait()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
}

// watch sees the widgets as they become.
func (l *load) watch() {
	for e := range l.seen.ResultChan() {
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			return
		}
		l.saw(e.Type, u)
	}
}

func (l *load) saw(what watch.EventType, u *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := u.GetName()
	got, _, _ := unstructured.NestedString(u.Object, "spec", "color")
	if uid := l.uids[name]; what == watch.Deleted || uid != "" && uid != u.GetUID() {
		l.wrong = append(l.wrong, name+" was deleted, or made twice")
	}
	if got < l.last[name] {
		l.wrong = append(l.wrong, fmt.Sprintf("%s was set back from %s to %s", name, l.last[name], got))
	}
	l.last[name], l.uids[name] = got, u.GetUID()
}

// wantOneWriterAtATime sees in the history of status that each bridge that wrote it had
// ended before the next one began, and that no answer was given twice.
func (t *tenant) wantOneWriterAtATime() {
	t.Helper()
	writers, answers := map[string]bool{}, map[string]bool{}
	// The line with the writer differs where another one begins.
	for line := range strings.Lines(t.host.run(t.id, "log", "--reverse", "--format=", "--patch", "--unified=0", "status", "--", contract.ObservedPath)) {
		writer, ok := strings.CutPrefix(strings.TrimSpace(line), "+writer: ")
		if ok && writers[writer] {
			t.Errorf("%s wrote again after another one had begun", writer)
		}
		if ok {
			writers[writer] = true
		}
	}
	for line := range strings.Lines(t.host.run(t.id, "log", "--format=", "--raw", "--no-abbrev", "status", "--", contract.Root)) {
		f := strings.Fields(line)
		if answer := f[3] + " " + f[5]; answers[answer] {
			t.Errorf("%s was committed twice", answer)
		} else {
			answers[answer] = true
		}
	}
	t.Logf("%d answers, by %d bridges one after the other", len(answers), len(writers))
	if len(writers) < 3 {
		t.Errorf("only %d bridges wrote", len(writers))
	}
}

// TestABridgeFollowsNoOtherShardsClusters has a bridge of the default shard, and one
// cluster of another.
func TestABridgeFollowsNoOtherShardsClusters(test *testing.T) {
	w := newWorld(test)
	widgets := w.define("testdata/plain.yaml")
	w.must(w.control().Rediscover(w.Context()))
	theirs := w.tenant()
	for _, bad := range []string{"", "B", "b.c"} {
		w.eventually("a label that is no shard's is refused", func() error {
			err := theirs.label(bad, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "lower-case letters") {
				return fmt.Errorf("%q: %w", bad, err)
			}
			return nil
		})
	}
	theirs.move("b")
	theirs.bind(widgets)
	before, err := json.Marshal(theirs.clusterBinding().Status)
	w.must(err)
	orders := path(widgets, "team-a", "orders")
	theirs.push("Order", map[string]string{orders: manifest(orders, "  color: blue")})
	w.startBridgeWith(app.Options{})
	ours := w.tenant(widgets)
	ours.push("Order", map[string]string{orders: manifest(orders, "  color: blue")})
	ours.wantAnswer(orders, contract.Applied)
	ours.eventually("its API is published", func() error { _, err := ours.exported(widgets); return err })
	after, err := json.Marshal(theirs.clusterBinding().Status)
	w.must(err)
	if theirs.object(orders) != nil || theirs.host.head(theirs.id, "status") != "" || string(before) != string(after) {
		w.Errorf("it works for the cluster of another shard: status %s", after)
	}
	var e v1alpha1.APIServiceExport
	w.must(w.admin.Get(w.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(theirs.id), Name: widgets.BindingName()}, &e))
	for _, c := range e.Status.Conditions {
		if c.Type != v1alpha1.ConditionGranted {
			w.Errorf("it speaks of the exports of another shard: %+v", c)
		}
	}
}
