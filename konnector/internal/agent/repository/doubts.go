package repository

import (
	"slices"
	"sync"

	"gitbind.dev/gitbridge/contract"
)

// Doubts are pushes of claims of which it is not known whether they came to main: the Git host's
// answer was lost. What is known of main may be older than they are. Losing them with the
// Repository does no harm, as another one fetches main first.
type Doubts struct {
	mu     sync.Mutex
	pushes map[contract.Key][]contract.ObjectTrailer
}

// maxDoubts bounds the pushes that are kept of a claim: one that is pushed on, without an answer,
// is edited again between.
const maxDoubts = 16

// Note keeps a push, named by the trailer of its commit.
func (d *Doubts) Note(t contract.ObjectTrailer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pushes == nil {
		d.pushes = map[contract.Key][]contract.ObjectTrailer{}
	}
	if all := d.pushes[t.Key]; len(all) < maxDoubts && !slices.Contains(all, t) {
		d.pushes[t.Key] = append(all, t)
	}
}

// Has reports whether there are pushes of a claim.
func (d *Doubts) Has(key contract.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pushes[key]) > 0
}

// Made reports whether a push is among them.
func (d *Doubts) Made(t contract.ObjectTrailer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.pushes[t.Key], t)
}

// End forgets those of a claim: what became of them was found out, and is kept with the claim.
func (d *Doubts) End(key contract.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pushes, key)
}
