// Package quota bounds what one app cluster has of an API on the control plane: how many
// claims, and how much by their weights. It counts what is there and what is about to be,
// lets in who waits in the order in which they came, and neither reads nor writes an
// object.
package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// use is how much of a quota is used.
type use struct{ claims, weight int64 }

func (u use) plus(o use) use { return use{u.claims + o.claims, u.weight + o.weight} }

// Weight is what a claim's object counts by a quota.
func Weight(q *v1alpha1.Quota, object map[string]any) int64 {
	if q.Weights == nil {
		return 1
	}
	value, _, _ := unstructured.NestedFieldNoCopy(object, q.Weights.Path()...)
	if w, ok := q.Weights.Values[fmt.Sprint(value)]; ok {
		return w
	}
	if q.Weights.Default != nil {
		return *q.Weights.Default
	}
	return 1
}

// Load gives the objects of all of a cluster's claims of an API.
type Load func(ctx context.Context, each func(contract.Key, map[string]any)) error

// Ledgers are those of one app cluster, one for each API.
type Ledgers struct {
	mu  sync.Mutex
	all map[string]*ledger
	// called has a claim looked at again for which there may be room. It must not block.
	called func(contract.Key)
}

// New returns ledgers that know nothing yet.
func New(called func(contract.Key)) *Ledgers {
	return &Ledgers{all: map[string]*ledger{}, called: called}
}

func (l *Ledgers) of(binding string) *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all[binding] == nil {
		l.all[binding] = &ledger{}
	}
	return l.all[binding]
}

// ledger is what there is of one API.
type ledger struct {
	mu sync.Mutex
	// quota is what the rest was counted by; "" before it was counted.
	quota      string
	held       map[contract.Key]held
	cluster    use
	namespaces map[string]use
	// waiting are those for whom there was no room, with what they weigh, and order is the
	// one in which they came.
	waiting map[contract.Key]int64
	order   []contract.Key
}

// held is what a claim has. While it is being applied that is the larger one of what it had
// before, and what it will have.
type held struct {
	weight int64
	// pending says that it is not applied yet, over what was there before; nil for nothing.
	pending bool
	before  *int64
}

// Take lets a claim in, or says why not: then it waits, and is called when there may be
// room. One that has as much already, and one that must go on as it was, is always let in.
func (l *Ledgers) Take(ctx context.Context, key contract.Key, q *v1alpha1.Quota, object map[string]any, must bool, load Load) (why string, err error) {
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.count(ctx, q, load); err != nil {
		return "", fmt.Errorf("count the claims of %s: %w", key.Binding, err)
	}
	weight := Weight(q, object)
	has, had := g.held[key]
	if grows := !had || weight > has.weight; grows && !must {
		if why = g.refusal(q, key, weight); why == "" && g.isBehind(q, key) {
			why = "others wait longer for the room that there is. It is applied when it is its turn"
		}
		if why != "" {
			g.wait(key, weight)
			return why, nil
		}
	}
	now := held{weight: max(weight, has.weight), pending: true, before: has.before}
	if had && !has.pending {
		now.before = new(has.weight)
	}
	g.set(key, &now)
	g.leave(key)
	l.callNext(g, q)
	return "", nil
}

// Applied notes that a claim has what it was let in with.
func (l *Ledgers) Applied(key contract.Key, q *v1alpha1.Quota, object map[string]any) {
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.held[key]; ok {
		g.set(key, &held{weight: Weight(q, object)})
		l.callNext(g, q)
	}
}

// Settle notes, at the end of a look at a claim, whether it has an object, and whether it
// waits for room. Without a quota all is forgotten: another one counts again.
func (l *Ledgers) Settle(key contract.Key, q *v1alpha1.Quota, exists, waits bool) {
	if q == nil {
		l.mu.Lock()
		delete(l.all, key.Binding)
		l.mu.Unlock()
		return
	}
	g := l.of(key.Binding)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quota == "" {
		return
	}
	has, known := g.held[key]
	changed := !waits && g.leave(key)
	switch {
	case exists && !known:
		// It was applied before there was a quota, while that was counted.
		g.quota = ""
	case known && !exists:
		g.set(key, nil)
		changed = true
	case known && has.pending:
		if has.before != nil {
			g.set(key, &held{weight: *has.before})
		}
		changed = true
	}
	if changed {
		l.callNext(g, q)
	}
}

// count counts all that is there, once for each quota.
func (g *ledger) count(ctx context.Context, q *v1alpha1.Quota, load Load) error {
	if g.quota == q.String() {
		return nil
	}
	pending := g.held
	g.quota, g.held, g.cluster, g.namespaces = "", map[contract.Key]held{}, use{}, map[string]use{}
	if err := load(ctx, func(key contract.Key, object map[string]any) {
		g.set(key, &held{weight: Weight(q, object)})
	}); err != nil {
		return err
	}
	for key, h := range pending {
		if _, there := g.held[key]; h.pending && !there {
			// Others are applying it now.
			g.set(key, &held{weight: h.weight, pending: true})
		}
	}
	g.quota = q.String()
	return nil
}

// set keeps what a claim has, nil for nothing.
func (g *ledger) set(key contract.Key, h *held) {
	if has, ok := g.held[key]; ok {
		g.add(key.Namespace, use{-1, -has.weight})
		delete(g.held, key)
	}
	if h != nil {
		g.held[key] = *h
		g.add(key.Namespace, use{1, h.weight})
	}
}

func (g *ledger) add(namespace string, u use) {
	g.cluster = g.cluster.plus(u)
	if g.namespaces[namespace] = g.namespaces[namespace].plus(u); g.namespaces[namespace].claims == 0 {
		delete(g.namespaces, namespace)
	}
}

// scope is one of the limits of a claim: of a namespace, or of the cluster.
type scope struct {
	namespace string
	limit     *v1alpha1.QuotaLimit
	used      use
}

func (s scope) String() string {
	if s.namespace == "" {
		return "this cluster"
	}
	return "namespace " + s.namespace
}

func (g *ledger) scopes(q *v1alpha1.Quota, key contract.Key) [2]scope {
	return [2]scope{{key.Namespace, q.Namespace, g.namespaces[key.Namespace]}, {"", q.Cluster, g.cluster}}
}

// isOver tells which limits are passed by more.
func (s scope) isOver(more use) (claims, weight bool) {
	if s.limit == nil {
		return false, false
	}
	then := s.used.plus(more)
	return s.limit.Claims != nil && more.claims > 0 && then.claims > *s.limit.Claims, s.limit.Weight != nil && more.weight > 0 && then.weight > *s.limit.Weight
}

// more is what a claim of this weight takes beyond what it has.
func (g *ledger) more(key contract.Key, weight int64) use {
	if has, had := g.held[key]; had {
		return use{0, weight - has.weight}
	}
	return use{1, weight}
}

// fits reports whether there is room for a claim.
func (g *ledger) fits(q *v1alpha1.Quota, key contract.Key, weight int64) bool {
	for _, s := range g.scopes(q, key) {
		if claims, heavy := s.isOver(g.more(key, weight)); claims || heavy {
			return false
		}
	}
	return true
}

// refusal says why there is no room for a claim; "" where there is.
func (g *ledger) refusal(q *v1alpha1.Quota, key contract.Key, weight int64) string {
	for _, s := range g.scopes(q, key) {
		switch claims, heavy := s.isOver(g.more(key, weight)); {
		case claims:
			return fmt.Sprintf("%s has %d claims of this API, and may have %d. Delete one, or ask the platform's operator for more", s, s.used.claims, *s.limit.Claims)
		case heavy:
			return fmt.Sprintf("%s has %d of %d by weight, and this claim weighs %d. Delete one, choose a lighter one, or ask the platform's operator for more",
				s, s.used.weight, *s.limit.Weight, weight)
		}
	}
	return ""
}

// isBehind reports whether somebody who waits longer fits in.
func (g *ledger) isBehind(q *v1alpha1.Quota, key contract.Key) bool {
	for _, other := range g.order {
		if other == key {
			return false
		}
		if q.Cluster == nil && other.Namespace != key.Namespace {
			continue // They share no limit.
		}
		if g.fits(q, other, g.waiting[other]) {
			return true
		}
	}
	return false
}

func (g *ledger) wait(key contract.Key, weight int64) {
	if _, waits := g.waiting[key]; !waits {
		g.order = append(g.order, key)
	}
	if g.waiting == nil {
		g.waiting = map[contract.Key]int64{}
	}
	g.waiting[key] = weight
}

// leave reports whether a claim has waited.
func (g *ledger) leave(key contract.Key) bool {
	if _, waits := g.waiting[key]; !waits {
		return false
	}
	delete(g.waiting, key)
	g.order = slices.DeleteFunc(g.order, func(other contract.Key) bool { return other == key })
	return true
}

// callNext calls the first one that waits and fits in.
func (l *Ledgers) callNext(g *ledger, q *v1alpha1.Quota) {
	for _, key := range g.order {
		if g.fits(q, key, g.waiting[key]) {
			l.called(key)
			return
		}
	}
}
