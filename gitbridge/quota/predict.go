package quota

import (
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// Change is what the merge of a change would make of a claim.
type Change struct {
	Key contract.Key
	// Was is what the claim weighs that has an object, nil where it has none, and Is what it
	// would weigh, nil where its service would be deleted.
	Was, Is *int64
}

// Predict says of changes that would be merged together, of claims of one API, which would
// wait for room, and why, by what is published of the cluster. Who comes first is the bridge's
// to decide: here it is the order of changes. Of namespaces that are not told of, all is room.
func Predict(q *v1alpha1.Quota, u *v1alpha1.QuotaUsage, changes []Change) map[contract.Key]string {
	if len(changes) == 0 {
		return nil
	}
	now, then := accountBefore(u, changes), accountBefore(u, changes)
	var grow []Change
	for _, c := range changes {
		switch has, had := then.Weight(c.Key); {
		case c.Is == nil:
			then.Leave(c.Key)
			then.Remove(c.Key)
		case had && *c.Is <= has:
			then.Leave(c.Key)
			then.Set(c.Key, *c.Is)
		default:
			if _, waits := then.waiting[c.Key]; waits {
				then.Wait(c.Key, *c.Is) // It keeps its place.
			}
			grow = append(grow, c)
		}
	}
	for next, ok := then.Next(q); ok; next, ok = then.Next(q) {
		then.Set(next, then.waiting[next])
		then.Leave(next)
	}
	out := map[contract.Key]string{}
	for _, c := range grow {
		why := then.Refusal(q, c.Key, *c.Is)
		switch {
		case why == "":
			then.Set(c.Key, *c.Is)
			continue
		case now.Refusal(q, c.Key, *c.Is) == "":
			why = "with the rest of this change, " + why
		}
		out[c.Key] = why
	}
	return out
}

// accountBefore is what was published, as an account, before changes.
func accountBefore(u *v1alpha1.QuotaUsage, changes []Change) *Account {
	a := NewAccount()
	a.cluster = Use{u.Claims, u.Weight}
	for _, n := range u.Namespaces {
		a.namespaces[n.Name] = Use{n.Claims, n.Weight}
	}
	// What is counted above is not counted again.
	for _, c := range changes {
		if c.Was != nil {
			a.weights[c.Key] = *c.Was
		}
	}
	for _, w := range u.Waiting {
		key := contract.Key{Binding: changes[0].Key.Binding, Namespace: w.Namespace, Name: w.Name}
		a.Wait(key, w.Weight)
		if w.Has != nil {
			a.weights[key] = *w.Has
		} else {
			delete(a.weights, key)
		}
	}
	return a
}
