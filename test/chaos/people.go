package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"gitbind.dev/test/scan"
)

// numbers gives each write its own value.
type numbers struct{ n atomic.Int64 }

func (n *numbers) next() int { return int(n.n.Add(1)) }

// answerTimeout is how long a person waits for an answer.
const answerTimeout = 5 * time.Second

// hope is for how long people try on when the load and the faults have ended.
// What does not work by then never will.
const hope = 2 * time.Minute

// developer changes claims in the app cluster. Its claims are its own: nobody
// else creates or deletes them.
type developer struct {
	client  dynamic.Interface
	journal *Journal
	numbers *numbers
	claims  []*claim
	// values gives those of Secrets.
	values *scan.Scan
	pause  time.Duration
	// looker is nil where the cluster is not restored between two things that belong together.
	looker *looker
}

// work changes claims until load ends. What was begun is brought to its end, as
// long as run lasts.
func (d *developer) work(run, load context.Context, rng *rand.Rand) {
	for load.Err() == nil {
		c := d.claims[rng.IntN(len(d.claims))]
		// What is never deleted may be edited unseen.
		if d.looker.pending(c.key()) && (!c.both || !c.there || rng.IntN(2) == 0) {
			d.look(run, c)
		}
		d.change(run, c, rng)
		sleep(load, time.Duration(rng.Int64N(int64(2*d.pause))))
	}
	d.looker.over(run)
	for _, c := range d.claims {
		if d.looker.pending(c.key()) {
			d.look(run, c)
		}
	}
}

// change does one thing with a claim.
func (d *developer) change(run context.Context, c *claim, rng *rand.Rand) {
	run, done := d.looker.until(run)
	defer done()
	switch roll := rng.IntN(100); {
	case !c.rate.Allow():
	case !c.there:
		d.create(run, c)
	case roll < 12 && !c.both:
		d.delete(run, c)
	case roll < 24 && c.api.refers:
		d.rotate(run, c)
	default:
		fields := c.api.cluster
		if c.both && strings.HasPrefix(c.name, "shared") && roll < 40 {
			fields = c.api.shared
		}
		field := fields[rng.IntN(len(fields))]
		d.edit(run, c, field, roll > 90 && !c.api.delivered)
	}
}

func (d *developer) objects(c *claim) dynamic.ResourceInterface {
	return d.client.Resource(c.api.resource).Namespace(c.namespace)
}

// create creates a claim, and finds out whether it did.
func (d *developer) create(run context.Context, c *claim) {
	sent := time.Now()
	var err error
	for first := true; run.Err() == nil; first = false {
		if first && c.size != "" {
			c.size = fmt.Sprintf("kubectl-%d", d.numbers.next())
		}
		ctx, cancel := context.WithTimeout(run, answerTimeout)
		var u *unstructured.Unstructured
		u, err = d.objects(c).Create(ctx, c.object(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) && !first {
			u, err = d.objects(c).Get(ctx, c.name, metav1.GetOptions{})
		}
		cancel()
		switch {
		case err == nil && u.GetDeletionTimestamp() == nil:
			c.life++
			c.there, c.uid = true, string(u.GetUID())
			d.journal.write(Entry{Sent: sent, Side: Cluster, Op: Create, Claim: c.key(), Life: c.life, Field: "size", Value: c.size, Outcome: Accepted, Note: c.uid})
			return
		case apierrors.IsAlreadyExists(err), err == nil:
			// The one before is still going.
			return
		case refused(err):
			d.journal.write(Entry{Sent: sent, Side: Cluster, Op: Create, Claim: c.key(), Life: c.life + 1, Outcome: Refused, Note: err.Error()})
			return
		}
		sleep(run, 200*time.Millisecond)
	}
	if errors.Is(context.Cause(run), errRestored) {
		d.journal.write(Entry{Sent: sent, Side: Cluster, Op: Create, Claim: c.key(), Life: c.life + 1, Field: "size", Value: c.size, Outcome: Unknown})
		return
	}
	if err == nil {
		return // The run had ended before.
	}
	d.journal.giveUp(c.key(), "a person could not create it since %s: %v", time.Since(sent).Round(time.Second), err)
}

// delete deletes a claim, and sees to it that it was.
func (d *developer) delete(run context.Context, c *claim) {
	if e, ok := d.deleteObject(run, c); ok {
		c.there = e.Outcome != Accepted
		d.journal.write(e)
	}
}

// deleteObject asks for the delete of a claim's object until there is an answer, and gives
// the entry of it.
func (d *developer) deleteObject(run context.Context, c *claim) (e Entry, ok bool) {
	sent := time.Now()
	e = Entry{Sent: sent, Side: Cluster, Op: Delete, Claim: c.key(), Life: c.life}
	uid := types.UID(c.uid)
	var err error
	for run.Err() == nil {
		ctx, cancel := context.WithTimeout(run, answerTimeout)
		err = d.objects(c).Delete(ctx, c.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		cancel()
		if err == nil || apierrors.IsNotFound(err) {
			return e.answered(nil), true
		}
		if refused(err) {
			return e.answered(err), true
		}
		sleep(run, 200*time.Millisecond)
	}
	if errors.Is(context.Cause(run), errRestored) {
		d.journal.write(e.answered(context.Cause(run)))
		return e, false
	}
	d.journal.giveUp(c.key(), "a person could not delete it since %s: %v", time.Since(sent).Round(time.Second), err)
	return e, false
}

// edit changes one field, or removes it.
func (d *developer) edit(run context.Context, c *claim, field string, remove bool) {
	var value any
	if !remove {
		value = c.api.value(field, d.numbers.next())
	}
	d.set(run, c, field, value)
}

// set gives one field a value; nil removes it.
func (d *developer) set(run context.Context, c *claim, field string, value any) {
	e := Entry{Sent: time.Now(), Side: Cluster, Op: Edit, Claim: c.key(), Life: c.life, Field: field}
	if value != nil {
		e.Value = fmt.Sprint(value)
	}
	spec := map[string]any{}
	if err := unstructured.SetNestedField(spec, value, strings.Split(field, ".")...); err != nil {
		panic(err)
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(run, answerTimeout)
	defer cancel()
	_, err = d.objects(c).Patch(ctx, c.name, types.MergePatchType, data, metav1.PatchOptions{})
	d.journal.write(e.answered(err))
}

// answered is the entry with what came of it.
func (e Entry) answered(err error) Entry {
	switch {
	case err == nil:
		e.Outcome = Accepted
	case refused(err):
		e.Outcome, e.Note = Refused, err.Error()
	default:
		e.Outcome, e.Note = Unknown, err.Error()
	}
	return e
}

// try tries something until it works, or gives up when run ends.
func (d *developer) try(run context.Context, c *claim, what string, do func(context.Context) error) bool {
	began := time.Now()
	var err error
	for ; run.Err() == nil; sleep(run, 200*time.Millisecond) {
		ctx, cancel := context.WithTimeout(run, 4*answerTimeout)
		err = do(ctx)
		cancel()
		if err == nil {
			return true
		}
	}
	if err == nil || errors.Is(context.Cause(run), errRestored) {
		return false // The run had ended before, or all is to be looked at again.
	}
	key := ""
	if c != nil {
		key = c.key()
	}
	d.journal.giveUp(key, "a person has waited since %s until %s: %v", time.Since(began).Round(time.Second), what, err)
	return false
}

// refused tells an answer of the API server from trouble on the way to it.
func refused(err error) bool {
	// An API server that has just begun knows no roles yet.
	starting := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot")
	return !starting && (apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err))
}

// author changes files in a clone, with the stock git program.
type author struct {
	git     func(ctx context.Context, args ...string) (string, error)
	dir     string
	host    *host
	journal *Journal
	numbers *numbers
	// own are claims that live in Git alone as far as people are concerned;
	// both are those that a developer made.
	own, both []*claim
	// fresh makes another claim of its own.
	fresh func() *claim
	// refusals and merges are how often the host refused what it must, and a version that
	// lost was merged.
	refusals, merges int
	pause            time.Duration
}

// work pushes commits until load ends, of one to three changes each.
func (a *author) work(run, load context.Context, rng *rand.Rand) {
	for load.Err() == nil {
		switch rng.IntN(25) {
		case 0:
			a.rewrite(run, rng)
		case 1:
			a.mergeLost(run, rng)
		}
		edits := map[string]*change{}
		for range 1 + rng.IntN(3) {
			if e := a.choose(rng); edits[e.claim.key()] == nil && e.claim.rate.Allow() {
				edits[e.claim.key()] = e
			}
		}
		a.push(run, edits)
		sleep(load, time.Duration(rng.Int64N(int64(2*a.pause))))
	}
}

// change is what is to become of a file.
type change struct {
	entry Entry
	claim *claim
	value any
	done  bool
}

func (a *author) choose(rng *rand.Rand) *change {
	var there []*claim
	for _, c := range a.own {
		if c.there {
			there = append(there, c)
		}
	}
	roll := rng.IntN(100)
	switch {
	case len(there) < 4 || roll < 10:
		c := a.fresh()
		a.own = append(a.own, c)
		return &change{claim: c, entry: Entry{Op: Create, Life: 1}}
	case roll < 18:
		c := there[rng.IntN(len(there))]
		return &change{claim: c, entry: Entry{Op: Delete, Life: 1}}
	}
	c := a.both[rng.IntN(len(a.both))]
	if roll < 45 {
		c = there[rng.IntN(len(there))]
	}
	fields := c.api.git
	if strings.HasPrefix(c.name, "shared") && rng.IntN(3) == 0 {
		fields = c.api.shared
	}
	field := fields[rng.IntN(len(fields))]
	value := c.api.value(field, a.numbers.next())
	return &change{claim: c, value: value, entry: Entry{Op: Edit, Life: 1, Field: field, Value: fmt.Sprint(value)}}
}

// push makes the changes on the newest main, until the host has them.
func (a *author) push(run context.Context, changes map[string]*change) {
	sent := time.Now()
	var last error
	for run.Err() == nil {
		if last = a.attempt(run, changes); last == nil {
			break
		}
		sleep(run, 100*time.Millisecond)
	}
	if last != nil {
		a.journal.giveUp("", "the Git host has refused a push for %s: %v", time.Since(sent).Round(time.Second), last)
	}
	for _, c := range changes {
		e := c.entry
		e.Sent, e.Side, e.Claim, e.Outcome = sent, Git, c.claim.key(), Accepted
		switch {
		case last != nil:
			e.Outcome, e.Note = Unknown, last.Error()
		case !c.done:
			e.Outcome, e.Note = Refused, "there is no file to change"
		case e.Op == Create:
			c.claim.there, c.claim.life = true, 1
		case e.Op == Delete:
			c.claim.there = false
		}
		a.journal.write(e)
	}
}

func (a *author) attempt(run context.Context, changes map[string]*change) error {
	a.host.RLock()
	defer a.host.RUnlock()
	ctx, cancel := context.WithTimeout(run, 4*answerTimeout)
	defer cancel()
	if err := a.newest(ctx); err != nil {
		return err
	}
	for _, c := range changes {
		if err := a.make(c); err != nil {
			return err
		}
	}
	if _, err := a.git(ctx, "add", "--all"); err != nil {
		return err
	}
	if out, err := a.git(ctx, "status", "--porcelain"); err != nil || out == "" {
		// The host has it: an answer was lost.
		return err
	}
	if _, err := a.git(ctx, "commit", "--quiet", "--message", "Change by Git"); err != nil {
		return err
	}
	_, err := a.git(ctx, "push", "--quiet", "origin", "HEAD:main")
	return err
}

// newest has the clone at the newest main, and nothing else in it.
func (a *author) newest(ctx context.Context) error {
	if _, err := a.git(ctx, "fetch", "--quiet", "origin", "main"); err != nil {
		return err
	}
	_, err := a.git(ctx, "reset", "--quiet", "--hard", "FETCH_HEAD")
	return err
}

// make changes one file. It may be called again.
func (a *author) make(c *change) error {
	path := filepath.Join(a.dir, c.claim.path())
	var object map[string]any
	switch data, err := os.ReadFile(path); {
	case os.IsNotExist(err) && c.entry.Op == Create:
		object = c.claim.object().Object
	case os.IsNotExist(err):
		// With a delete, an earlier try may have been the one.
		c.done = c.entry.Op == Delete
		return nil
	case err != nil:
		return err
	case c.entry.Op == Create:
		c.done = true
		return nil
	case c.entry.Op == Delete:
		c.done = true
		return os.Remove(path)
	default:
		if err := yaml.Unmarshal(data, &object); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(object, c.value, append([]string{"spec"}, strings.Split(c.entry.Field, ".")...)...); err != nil {
			return err
		}
	}
	data, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	c.done = true
	return os.WriteFile(path, data, 0o644)
}

// operator writes status and Secrets on the control plane, in the place of what delivers.
type operator struct {
	client  dynamic.Interface
	api     *api
	journal *Journal
	numbers *numbers
	// values gives those of Secrets.
	values *scan.Scan
	pause  time.Duration
}

func (o *operator) work(run, load context.Context, rng *rand.Rand) {
	for load.Err() == nil {
		ctx, cancel := context.WithTimeout(run, answerTimeout)
		o.write(ctx, rng)
		cancel()
		sleep(load, time.Duration(rng.Int64N(int64(2*o.pause))))
	}
}

func (o *operator) write(ctx context.Context, rng *rand.Rand) {
	list, err := o.client.Resource(o.api.resource).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return
	}
	u := &list.Items[rng.IntN(len(list.Items))]
	if rng.IntN(2) == 0 {
		o.rotate(ctx, u)
		return
	}
	value := fmt.Sprintf("v%06d", o.numbers.next())
	e := Entry{Sent: time.Now(), Side: Control, Op: Status, Claim: o.api.binding() + " " + fromTenant(u.GetNamespace()) + "/" + u.GetName(), Field: "status.seen", Value: value}
	_, err = o.client.Resource(o.api.resource).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"seen":%q}}`, value), metav1.PatchOptions{}, "status")
	o.journal.write(e.answered(err))
}

// sleep is the pause of a person between two things.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
