package claim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/base"
)

// admitted are the states that the konnector's own writes of a base left objects in,
// where that is not what the base says: a webhook stamped them. Nobody edited them, and
// to record each would stamp the object again. Until the status says the same (see
// status.gitbind.taken) it is remembered here; losing it costs a commit of the stamp.
type admitted struct {
	mu     sync.Mutex
	states map[contract.Key]string
}

func (a *admitted) set(key contract.Key, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states == nil {
		a.states = map[contract.Key]string{}
	}
	if a.states[key] = state; state == "" {
		delete(a.states, key)
	}
}

func (a *admitted) is(key contract.Key, state string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.states[key] == state
}

// stateOf names what an object says, together with its UID and generation: an edit
// there and back leads to another state.
func stateOf(u *unstructured.Unstructured, version *contract.Claim) string {
	data, err := json.Marshal(struct {
		UID        string
		Generation int64
		Claim      *contract.Claim
	}{string(u.GetUID()), u.GetGeneration(), version})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// recordAdmitted records what the API server made of the file, where a webhook made it
// something else. Otherwise that would look like an edit.
//
// For a while after a change of the definition, parts of an API server still go by
// the one before, and drop what only the new one has. What is missing then is in the
// file still: it is written again, with errUnserved for now.
func (r *reconciler) recordAdmitted(ctx context.Context, l *look, u *unstructured.Unstructured, b base.Base) (*unstructured.Unstructured, error) {
	api := l.api
	taken := api.schema.Normalize(contract.FromObject(u))
	if contract.Equal(taken, b.Claim) && u.GetGeneration() == b.Generation {
		return u, nil
	}
	unserved := time.Since(api.since) < servedWithin && lacks(taken.Spec, b.Claim.Spec)
	if unserved {
		b.Blob = ""
	}
	b.UID, b.Generation, b.Claim, b.LeftOut = u.GetUID(), u.GetGeneration(), taken, l.leftOut(taken)
	u, err := r.patchBase(ctx, l, u, b, metadata{})
	if err == nil && unserved {
		return nil, errUnserved
	}
	return u, err
}

// lacks reports whether a field of wanted is not in a value at all.
func lacks(value, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		fields, ok := value.(map[string]any)
		for k, w := range wanted {
			if v, there := fields[k]; ok && (!there || lacks(v, w)) {
				return true
			}
		}
	case []any:
		items, ok := value.([]any)
		for i, w := range wanted {
			if ok && len(items) == len(wanted) && lacks(items[i], w) {
				return true
			}
		}
	}
	return false
}

// patchBase changes metadata, the base among it, of an object that is as it was. What
// admission makes of that is no edit, where the object said before what the base says.
func (r *reconciler) patchBase(ctx context.Context, l *look, u *unstructured.Unstructured, b base.Base, m metadata) (*unstructured.Unstructured, error) {
	value, err := b.Encode()
	if err != nil {
		return nil, err
	}
	m.base = &value
	if proposalOf(u) == nil {
		// What another life of the object has proposed.
		m.proposal = new("")
	}
	out, err := r.patch(ctx, u, m)
	if err != nil {
		return nil, err
	}
	schema := l.api.schema
	before, after := schema.Normalize(contract.FromObject(u)), schema.Normalize(contract.FromObject(out))
	agreed := schema.Normalize(b.Claim)
	r.admitted.set(l.key, "")
	if contract.Equal(before, agreed) && !contract.Equal(after, agreed) {
		r.admitted.set(l.key, stateOf(out, after))
	}
	return out, nil
}

// completeBase takes into the base what admission made of the konnector's own last
// write, where the base does not say it.
func (r *reconciler) completeBase(l *look, in input) error {
	f, b := &l.facts, l.base
	if b == nil || l.reduced != nil || contract.Equal(f.Live, f.Base) {
		return nil
	}
	state := stateOf(l.object, f.Live)
	if r.admitted.is(l.key, state) || admittedIn(l.object) == state {
		l.admitted = state
		l.complete(base.Differences(f.Base, f.Live, nil))
		return nil
	}
	if b.Generation != l.object.GetGeneration() {
		return nil
	}
	if len(authorsOf(l.object)) > 0 {
		// Somebody has changed it since. By what name of a field manager, they have chosen.
		return nil
	}
	// The write of this base made this generation. If the process ended before it
	// looked at what came of it, the base is what was sent.
	if in.cached {
		// It does not have who wrote what.
		return errIncomplete
	}
	all := base.Differences(f.Base, f.Live, l.object)
	if len(l.object.GetManagedFields()) > 0 && !slices.ContainsFunc(all, func(d base.Difference) bool { return !isOwn(d, b.Generation) }) {
		l.complete(all)
	}
	return nil
}

// isOwn reports whether a field that differs from the base, in an object of the base's
// generation, was written by nobody but the konnector and who admitted that. Anybody may
// write by the konnector's name: that somebody did must be known otherwise. A label
// that is gone has no writer to be known by, and a field of the spec only where no edit
// can have come before.
func isOwn(d base.Difference, generation int64) bool {
	if d.Gone {
		return generation == 1 && d.InSpec()
	}
	return !slices.ContainsFunc(d.Managers, func(m string) bool { return m != string(fieldOwner) })
}

// complete takes these fields into the base.
func (l *look) complete(fields []base.Difference) {
	f := &l.facts
	l.base = l.base.WithWritten(fields)
	if slices.ContainsFunc(fields, func(d base.Difference) bool { return d.Gone }) {
		// The API server may have gone by an older schema, as in recordAdmitted.
		l.base.Blob = ""
	}
	l.base.Generation = l.object.GetGeneration()
	f.Base = l.api.schema.Normalize(l.base.Claim)
	f.Touched = l.isTouched()
}

// isTouched reports whether somebody may have edited an object, whatever its generation says.
func (l *look) isTouched() bool {
	return len(ChangedBy(l.object)) > 0 || l.api.Repository.Doubts.Has(l.key)
}

func admittedIn(u *unstructured.Unstructured) string {
	state, _, _ := unstructured.NestedString(u.Object, "status", "gitbind", "taken")
	return state
}

// writers name the fields in which an object differs from its base, each with the
// programs that wrote it.
func writers(l *look) string {
	var out []string
	for _, d := range base.Differences(l.facts.Base, l.facts.Live, l.object) {
		if len(out) == maxNamed {
			break
		}
		words := d.Name()
		if len(d.Managers) > 0 {
			words += " (by " + strings.Join(d.Managers, ", ") + ")"
		}
		out = append(out, words)
	}
	return strings.Join(out, ", ")
}
