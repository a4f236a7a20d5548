// Package quota is the arithmetic of a template's quota, and what people are told of it: the
// bridge lets claims in by it, and who reviews a change sees before the merge what the bridge
// would say. It reads and writes no object, and is for one goroutine at a time.
package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Use is how much of a quota is used: a number of claims, and what they weigh together.
type Use struct{ Claims, Weight int64 }

func (u Use) plus(o Use) Use { return Use{u.Claims + o.Claims, u.Weight + o.Weight} }

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

// Account is how much an app cluster has of one API, and who waits for room.
type Account struct {
	cluster    Use
	namespaces map[string]Use
	// weights are those of claims that have an object. An account that was published knows
	// those of claims that wait only.
	weights map[contract.Key]int64
	// waiting are claims for which there was no room, with what they weigh then, and order is
	// the one in which they came.
	waiting map[contract.Key]int64
	order   []contract.Key
}

// NewAccount is one of a cluster that has nothing.
func NewAccount() *Account {
	return &Account{namespaces: map[string]Use{}, weights: map[contract.Key]int64{}, waiting: map[contract.Key]int64{}}
}

// Weight is what a claim weighs that has an object.
func (a *Account) Weight(key contract.Key) (weight int64, has bool) {
	weight, has = a.weights[key]
	return weight, has
}

// Set counts a claim that has an object, or will have one in a moment. It reports whether
// that is another weight than before.
func (a *Account) Set(key contract.Key, weight int64) bool {
	if has, had := a.weights[key]; had && has == weight {
		return false
	}
	a.Remove(key)
	a.weights[key] = weight
	a.add(key.Namespace, Use{1, weight})
	return true
}

// Remove counts a claim no more.
func (a *Account) Remove(key contract.Key) {
	if weight, has := a.weights[key]; has {
		delete(a.weights, key)
		a.add(key.Namespace, Use{-1, -weight})
	}
}

func (a *Account) add(namespace string, u Use) {
	a.cluster = a.cluster.plus(u)
	if a.namespaces[namespace] = a.namespaces[namespace].plus(u); a.namespaces[namespace].Claims == 0 {
		delete(a.namespaces, namespace)
	}
}

// Wait has a claim wait for room for so much. It reports whether it did not already.
func (a *Account) Wait(key contract.Key, weight int64) bool {
	was, waits := a.waiting[key]
	if !waits {
		a.order = append(a.order, key)
	}
	a.waiting[key] = weight
	return !waits || was != weight
}

// Waiting is an account of those who wait, in which there is nothing.
func (a *Account) Waiting() *Account {
	out := NewAccount()
	out.waiting, out.order = maps.Clone(a.waiting), slices.Clone(a.order)
	return out
}

// Leave reports whether a claim has waited.
func (a *Account) Leave(key contract.Key) bool {
	if _, waits := a.waiting[key]; !waits {
		return false
	}
	delete(a.waiting, key)
	a.order = slices.DeleteFunc(a.order, func(other contract.Key) bool { return other == key })
	return true
}

// Next is the first claim that waits and for which there is room.
func (a *Account) Next(q *v1alpha1.Quota) (key contract.Key, ok bool) {
	for _, key := range a.order {
		if a.fits(q, key, a.waiting[key]) {
			return key, true
		}
	}
	return contract.Key{}, false
}

// Refusal says why a claim is not let in with a weight, "" where it is. One that has as much
// already always is.
func (a *Account) Refusal(q *v1alpha1.Quota, key contract.Key, weight int64) string {
	if has, had := a.weights[key]; had && weight <= has {
		return ""
	}
	for _, s := range a.scopes(q, key) {
		switch claims, heavy := s.isOver(a.more(key, weight)); {
		case claims:
			return fmt.Sprintf("%s has %d claims of this API, and may have %d. Delete one, or ask the platform's operator for more", s, s.used.Claims, *s.limit.Claims)
		case heavy:
			return fmt.Sprintf("%s has %d of %d by weight, and this claim weighs %d. Delete one, choose a lighter one, or ask the platform's operator for more",
				s, s.used.Weight, *s.limit.Weight, weight)
		}
	}
	if a.isBehind(q, key) {
		return "others wait longer for the room that there is. It is applied when it is its turn"
	}
	return ""
}

// scope is one of the limits of a claim: of a namespace, or of the cluster.
type scope struct {
	namespace string
	limit     *v1alpha1.QuotaLimit
	used      Use
}

func (s scope) String() string {
	if s.namespace == "" {
		return "this cluster"
	}
	return "namespace " + s.namespace
}

func (a *Account) scopes(q *v1alpha1.Quota, key contract.Key) [2]scope {
	return [2]scope{{key.Namespace, q.Namespace, a.namespaces[key.Namespace]}, {"", q.Cluster, a.cluster}}
}

// isOver tells which limits are passed by more.
func (s scope) isOver(more Use) (claims, weight bool) {
	if s.limit == nil {
		return false, false
	}
	then := s.used.plus(more)
	return s.limit.Claims != nil && more.Claims > 0 && then.Claims > *s.limit.Claims, s.limit.Weight != nil && more.Weight > 0 && then.Weight > *s.limit.Weight
}

// fullness orders namespaces by how much of a limit they use.
func fullness(limit *v1alpha1.QuotaLimit, u Use) float64 {
	of := func(used int64, limit *int64) float64 {
		if limit == nil {
			return 0
		}
		return float64(used) / float64(max(*limit, 1))
	}
	return max(of(u.Claims, limit.Claims), of(u.Weight, limit.Weight))
}

// more is what a claim of this weight takes beyond what it has.
func (a *Account) more(key contract.Key, weight int64) Use {
	if has, had := a.weights[key]; had {
		return Use{0, weight - has}
	}
	return Use{1, weight}
}

// fits reports whether there is room for a claim.
func (a *Account) fits(q *v1alpha1.Quota, key contract.Key, weight int64) bool {
	for _, s := range a.scopes(q, key) {
		if claims, heavy := s.isOver(a.more(key, weight)); claims || heavy {
			return false
		}
	}
	return true
}

// isBehind reports whether there is room for a claim that waits longer.
func (a *Account) isBehind(q *v1alpha1.Quota, key contract.Key) bool {
	for _, other := range a.order {
		if other == key {
			return false
		}
		if q.Cluster == nil && other.Namespace != key.Namespace {
			continue // They share no limit.
		}
		if a.fits(q, other, a.waiting[other]) {
			return true
		}
	}
	return false
}

// Usage is what is published of an account.
func (a *Account) Usage(q *v1alpha1.Quota) *v1alpha1.QuotaUsage {
	out := &v1alpha1.QuotaUsage{QuotaHash: q.Hash(), Claims: a.cluster.Claims, Weight: a.cluster.Weight}
	if q.Namespace != nil {
		for name, u := range a.namespaces {
			out.Namespaces = append(out.Namespaces, v1alpha1.NamespaceUsage{Name: name, Claims: u.Claims, Weight: u.Weight})
		}
		full := func(u v1alpha1.NamespaceUsage) float64 { return fullness(q.Namespace, Use{u.Claims, u.Weight}) }
		slices.SortFunc(out.Namespaces, func(x, y v1alpha1.NamespaceUsage) int {
			return cmp.Or(cmp.Compare(full(y), full(x)), cmp.Compare(x.Name, y.Name))
		})
		out.Namespaces = out.Namespaces[:min(len(out.Namespaces), v1alpha1.MaxNamespaceUsages)]
	}
	for _, key := range a.order[:min(len(a.order), v1alpha1.MaxWaitingClaims)] {
		w := v1alpha1.WaitingClaim{Namespace: key.Namespace, Name: key.Name, Weight: a.waiting[key]}
		if has, ok := a.weights[key]; ok {
			w.Has = &has
		}
		out.Waiting = append(out.Waiting, w)
	}
	return out
}
