package claim

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
	"gitbind.dev/gitbridge/store"
)

// secrets is what this process knows of delivered Secrets. Losing it does no harm: each
// is looked at once.
type secrets struct {
	mu sync.Mutex
	of map[contract.Key]*delivered
	// expected are the names of the Secrets that a claim's answer lists, and listing
	// the claims by that. It is one for each Secret, but for answers that contradict
	// each other.
	expected map[contract.Key][]string
	listing  map[types.NamespacedName][]contract.Key
}

// delivered is what was done last for a claim's Secrets. It is never changed once it
// is known.
type delivered struct {
	uid types.UID
	// list is the control plane's, and mayBeAnother as Claim of package delivery has it.
	list         *contract.SecretList
	mayBeAnother bool
	opener       *encryption.Opener
	// keepsAll is as look.delivers has it.
	keepsAll bool
	// files are those that the control plane lists, by the Secrets' names; failed are
	// the names of those that could not be delivered.
	files  map[string]store.Hash
	failed map[string]bool
	// withheld is why the control plane does not send others.
	withheld map[string]string
	said     secretsSaid
	// retry says that something may pass by itself, unopened that another opener may
	// open it.
	retry, unopened bool
	// due is when to look at the Secrets again.
	due time.Time
}

// covers reports whether all that is to be done now was done, and is not to be looked
// at again yet.
func (d *delivered) covers(now *delivered) bool {
	return d.isOf(now) && d.keepsAll == now.keepsAll && d.list.Same(now.list) &&
		maps.Equal(d.files, now.files) && maps.Equal(d.withheld, now.withheld) && (!d.unopened || d.opener == now.opener)
}

// has reports whether one Secret is known to be as it should be.
func (d *delivered) has(now *delivered, name string) bool {
	return d.isOf(now) && d.files[name] == now.files[name] && d.answered() == now.answered() && !d.failed[name]
}

// answered is the UID of the object that the control plane knows.
func (d *delivered) answered() string {
	if d.list == nil {
		return ""
	}
	return d.list.UID
}

func (d *delivered) isOf(now *delivered) bool {
	return d != nil && d.uid == now.uid && d.mayBeAnother == now.mayBeAnother && time.Now().Before(d.due)
}

func (s *secrets) get(claim contract.Key) *delivered {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[claim]
}

// set keeps what was done for a claim until it is due.
func (s *secrets) set(claim contract.Key, d *delivered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[contract.Key]*delivered{}
	}
	s.of[claim] = d
	switch {
	case d.due.IsZero() && d.retry:
		d.due = time.Now().Add(jitter(secretsRetryInterval))
	case d.due.IsZero():
		d.due = time.Now().Add(jitter(max(secretsInterval, time.Duration(len(s.listing))*time.Second)))
	}
}

// expect has a claim called when the file of one of these Secrets changes, and of no
// other.
func (s *secrets) expect(claim contract.Key, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing == nil {
		s.listing, s.expected = map[types.NamespacedName][]contract.Key{}, map[contract.Key][]string{}
	}
	s.unlist(claim)
	s.expected[claim] = names
	for _, name := range names {
		at := types.NamespacedName{Namespace: claim.Namespace, Name: name}
		s.listing[at] = append(s.listing[at], claim)
	}
}

// unlist takes a claim out of the index. The caller holds mu.
func (s *secrets) unlist(claim contract.Key) {
	for _, name := range s.expected[claim] {
		at := types.NamespacedName{Namespace: claim.Namespace, Name: name}
		rest := slices.DeleteFunc(s.listing[at], func(k contract.Key) bool { return k == claim })
		if s.listing[at] = rest; len(rest) == 0 {
			delete(s.listing, at)
		}
	}
	delete(s.expected, claim)
}

// claimsOf are the claims whose answers list a Secret.
func (s *secrets) claimsOf(key contract.SecretKey) []contract.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.listing[types.NamespacedName{Namespace: key.Namespace, Name: key.Name}])
}

func (s *secrets) forget(claim contract.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlist(claim)
	delete(s.of, claim)
}
