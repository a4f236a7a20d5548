package apiservicebinding

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/contract"
)

const (
	// MaxRewrites is how often a definition or a policy may be written in answer to another
	// one's writes.
	MaxRewrites = 10
	// RewriteEvery is how long until it may be written once more.
	RewriteEvery = time.Minute
)

// ourManager is this program in managed fields.
const ourManager = "gitbind-konnector"

// otherWriter is who wrote an object last, "" where that is this program or not known.
func otherWriter(o metav1.Object) string {
	var last metav1.ManagedFieldsEntry
	for _, e := range o.GetManagedFields() {
		switch {
		case e.Subresource != "" || e.Time == nil:
		// Times are in whole seconds.
		case last.Time == nil, last.Time.Before(e.Time), last.Time.Equal(e.Time) && last.Manager == ourManager:
			last = e
		}
	}
	if last.Manager == ourManager {
		return ""
	}
	return last.Manager
}

// mayRewrite reports whether an object may be written now.
func (r *Reconciler) mayRewrite(key contract.Key, live metav1.Object) bool {
	return otherWriter(live) == "" || r.Rewrites.Rest(key, r.Now()) == 0
}

// rewrote counts a write in the place of what was there.
func (r *Reconciler) rewrote(key contract.Key, before metav1.Object) {
	if other := otherWriter(before); other != "" {
		r.Rewrites.Spend(key, 1, r.Now())
		r.others.Store(key, other)
	}
}

// manyRewrites says who answers each write of an object with another one, and how long it is
// left as it is; "" where nobody does.
func (r *Reconciler) manyRewrites(key contract.Key, object string) (words string, rest time.Duration) {
	if rest = r.Rewrites.Rest(key, r.Now()); rest == 0 {
		return "", 0
	}
	other, _ := r.others.Load(key)
	return fmt.Sprintf("%s was changed by %s again each time that the konnector wrote it: it is written once a minute now, until %[2]s leaves it as it is", object, other), rest
}
