package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gitbind.dev/test/env"
)

// RestoreEtcd puts the app cluster back to a snapshot of its etcd, while people and faults go
// on.
const RestoreEtcd Kind = "restore etcd"

// restoreFrom is how long a load is at least that has a restore in its middle.
const restoreFrom = 90 * time.Second

// withEtcdRestore has the app cluster restored once in the middle of a plan. A restore is rare,
// and a short run has none. For is how long after its snapshot it comes.
func withEtcdRestore(rng *rand.Rand, length time.Duration, cluster string, plan []Fault) []Fault {
	if length < restoreFrom {
		return plan
	}
	f := Fault{Kind: RestoreEtcd, Process: cluster, At: span(rng, length/4, length/2), For: span(rng, 10*time.Second, 20*time.Second)}
	at, _ := slices.BinarySearchFunc(plan, f, func(a, b Fault) int { return int(a.At - b.At) })
	return slices.Insert(slices.Clone(plan), at, f)
}

// errRestored ends what somebody was at when the cluster was restored: what they wait for
// may never come.
var errRestored = errors.New("the app cluster was restored")

// etcdRestore is what is known of the one restore of a run. What the app cluster accepted
// between the snapshot and the restore is lost with it unless main has it; then it comes
// back. So nobody can know from an answer what is there, and each person looks at a claim
// before they create or delete it again: see developer.look. No other check says less for
// that: no service may go or come that nobody has asked for.
type etcdRestore struct {
	// before ends with the restore.
	before context.Context
	end    context.CancelCauseFunc

	mu sync.Mutex
	// under is closed when the restore that is under way is over; nil for none.
	under chan struct{}
	// from and to are when the API server had ended for the snapshot and for the restore: what it
	// accepted in between is lost. The cluster was there again at back.
	from, to, back time.Time
	// since is main's head before the snapshot.
	since string
	// looked are the claims that a person has looked at since.
	looked map[string]bool
	// reached are the lines that main has had since the snapshot, up to head.
	reached map[string]bool
	head    string
}

func newEtcdRestore(ctx context.Context) *etcdRestore {
	r := &etcdRestore{looked: map[string]bool{}}
	r.before, r.end = context.WithCancelCause(ctx)
	return r
}

// happened reports whether the cluster was restored.
func (r *etcdRestore) happened() bool {
	return r != nil && errors.Is(context.Cause(r.before), errRestored)
}

// pending reports whether nobody has looked at a claim since the restore.
func (r *etcdRestore) pending(key string) bool {
	if !r.happened() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.looked[key]
}

func (r *etcdRestore) seen(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked[key] = true
}

// until is a context that ends with the restore, too, unless that was before.
func (r *etcdRestore) until(ctx context.Context) (context.Context, func()) {
	if r == nil || r.happened() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.before, func() { cancel(errRestored) })
	return ctx, func() { stop(); cancel(nil) }
}

// over waits until a restore that is under way is over.
func (r *etcdRestore) over(ctx context.Context) {
	if r == nil {
		return
	}
	r.mu.Lock()
	under := r.under
	r.mu.Unlock()
	if under == nil {
		return
	}
	select {
	case <-under:
	case <-ctx.Done():
	}
}

// restoreSnapshot takes a snapshot of the app cluster, and puts the cluster back to it. The
// administrator ends no namespace, definition or owner in between: they are who restores
// it, and begin nothing shortly before. Everybody else goes on, and so do the faults, but for
// those of the API server while it is stopped here: the plan has one fault at a time for a
// process.
func (r *run) restoreSnapshot(ctx context.Context, f Fault) error {
	under := make(chan struct{})
	defer close(under)
	r.restore.mu.Lock()
	r.restore.under = under
	r.restore.mu.Unlock()
	r.administrator.rounding.Lock()
	defer r.administrator.rounding.Unlock()
	r.injector.severe.Lock()
	defer r.injector.severe.Unlock()
	head, err := r.sides.git(ctx, "rev-parse", "main")
	if err != nil {
		return err
	}
	before, begun := r.deliveries.copy(), time.Now()
	cluster := r.Cluster(f.Process)
	snapshot := ""
	var from time.Time
	if err := r.stopped(ctx, cluster, func() (err error) {
		if err := cluster.APIServer.Stop(ctx); err != nil {
			return err
		}
		from = time.Now()
		snapshot, err = cluster.Snapshot(ctx)
		return err
	}); err != nil {
		return err
	}
	// It has the values of Secrets.
	defer os.RemoveAll(snapshot)
	r.say("the snapshot is taken, and restored in %s", f.For.Round(time.Millisecond))
	sleep(ctx, f.For)
	return r.stopped(ctx, cluster, func() error {
		if err := cluster.APIServer.Stop(ctx); err != nil {
			return err
		}
		// Nobody sees anything of the cluster now.
		to := time.Now()
		r.deliveries.goBack(before, r.journal.made(begun))
		r.reviewer.goBack()
		if err := cluster.Restore(ctx, snapshot); err != nil {
			return err
		}
		r.restore.mu.Lock()
		r.restore.from, r.restore.to, r.restore.back, r.restore.since = from, to, time.Now(), strings.TrimSpace(string(head))
		r.restore.mu.Unlock()
		r.restore.end(errRestored)
		r.say("the app cluster is as it was at the snapshot")
		return nil
	})
}

// stopped does something that stops the processes of a cluster and starts them again, when
// all of them run, and lets nobody else do so meanwhile.
func (r *run) stopped(ctx context.Context, cluster *env.Cluster, do func() error) error {
	all := []*env.Process{cluster.Etcd, cluster.APIServer, cluster.ControllerManager}
	defer r.injector.alone(cluster.APIServer.Name)()
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(all, func(p *env.Process) bool { return p.Ready(ctx) != nil }); sleep(ctx, 100*time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("cluster %s does not run", cluster.Name)
		}
	}
	for _, p := range all {
		r.injector.hold(p.Name, true)
		defer r.injector.hold(p.Name, false)
	}
	return do()
}

// read finds out what main has had since the snapshot.
func (r *etcdRestore) read(ctx context.Context, s *sides, head string) error {
	if !r.happened() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == head {
		return nil
	}
	log, err := s.git(ctx, "log", "--first-parent", "--diff-merges=first-parent", "--format=", "-p", "--unified=0", r.since+".."+head, "--", "bindings")
	if err != nil {
		return err
	}
	r.reached, r.head = map[string]bool{}, head
	for line := range strings.Lines(string(log)) {
		if added, ok := strings.CutPrefix(line, "+"); ok {
			r.reached[strings.TrimSpace(added)] = true
		}
	}
	return nil
}

// known are entries with what can be known of their outcome since the restore. Of what the
// app cluster accepted since the snapshot, only that counts which main has had. An edit that
// gave a field no value, or one that it was given before, cannot be told from others there, and
// nobody knows which API server took one that was on its way when another one began.
func (r *etcdRestore) known(entries []Entry) (known []Entry, lost int) {
	if !r.happened() {
		return entries, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known = slices.Clone(entries)
	given := map[string]bool{}
	for i, e := range known {
		if e.Op != Edit || e.Side != Cluster || e.Outcome == Refused {
			continue
		}
		value := e.Claim + " " + e.Field + "=" + e.Value
		isFirst := e.Value != "" && !given[value]
		given[value] = true
		switch {
		case e.Outcome != Accepted || e.Done.Before(r.from) || e.Sent.After(r.to):
		case !isFirst:
			known[i].Outcome = Unknown
		case r.reached[yamlLine(e, "")], r.reached[yamlLine(e, `"`)]:
		case e.Sent.Before(r.from), e.Done.After(r.to):
			known[i].Outcome = Unknown
		default:
			known[i].Outcome = Refused
			lost++
		}
	}
	return known, lost
}

// yamlLine is how a file says what an entry wrote.
func yamlLine(e Entry, quote string) string {
	return e.Field[strings.LastIndex(e.Field, ".")+1:] + ": " + quote + e.Value + quote
}

// made are the claims that may have been created since a time.
func (j *Journal) made(since time.Time) map[string]bool {
	made := map[string]bool{}
	for _, e := range j.all() {
		if (e.Op == Create || e.Op == Release) && e.Outcome != Refused && e.Done.After(since) {
			made[e.Claim] = true
		}
	}
	return made
}

// copy is what the deliveries know now, as far as it goes back with the cluster.
func (d *deliveries) copy() *deliveries {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &deliveries{last: maps.Clone(d.last), of: maps.Clone(d.of), claims: maps.Clone(d.claims), lastInput: maps.Clone(d.lastInput)}
}

// goBack says that the app cluster goes back to where the deliveries were as they were
// before. Values that were replaced since are there again until the newer ones are delivered
// again, and what claims refer to may come to the control plane once more as it was then.
// The object of a claim that was made again since takes the place of the newer one, and so
// gets values of another service.
func (d *deliveries) goBack(before *deliveries, made map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.of, d.claims = before.last, before.of, before.claims
	d.inputsBefore, d.isLower, d.replaced = before.lastInput, map[string]bool{}, made
}

// goBack says that from now on the objects say again what they said before.
func (r *reviewer) goBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.era++
}
