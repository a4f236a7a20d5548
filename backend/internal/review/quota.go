package review

import (
	"context"
	"errors"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/quota"
)

// pair are the claims that a file was and would be, nil for none.
type pair struct{ before, after *contract.Claim }

// markWaiting says which claims would wait for room in their quota, by what the bridge has
// published of it: nothing where that is not known.
func (p *preview) markWaiting(ctx context.Context, files []restapi.ChangedFile, claims []pair) {
	all := map[string][]quota.Change{}
	for i, f := range files {
		// The service stays as it is with a file that is refused, and a removal that is held.
		if f.Name == "" || f.Problem != "" || f.Held != "" {
			continue
		}
		if a := p.api(ctx, f.Binding); a != nil && a.usage != nil {
			all[f.Binding] = append(all[f.Binding], p.weigh(ctx, a, f, claims[i]))
		}
	}
	for binding, changes := range all {
		a := p.api(ctx, binding)
		why := quota.Foresee(a.quota, a.usage, changes)
		for i := range files {
			if files[i].Binding == binding {
				files[i].Waits = why[keyOf(files[i])]
			}
		}
	}
}

func keyOf(f restapi.ChangedFile) contract.Key {
	return contract.Key{Binding: f.Binding, Namespace: f.Namespace, Name: f.Name}
}

// weigh is a change by the weights of a quota.
func (p *preview) weigh(ctx context.Context, a *api, f restapi.ChangedFile, c pair) quota.Change {
	out := quota.Change{Key: keyOf(f)}
	of := func(claim *contract.Claim) *int64 {
		if claim == nil {
			return nil
		}
		weight := quota.Weight(a.quota, a.object(claim).Object)
		return &weight
	}
	out.Is = of(c.after)
	if p.hasService(ctx, f) {
		// Of what is there with a file that nobody can read, more is not known.
		if out.Was = of(c.before); out.Was == nil {
			out.Was = out.Is
		}
	}
	return out
}

// hasService tells whether a claim has an object on the control plane, as the bridge has
// answered: also one whose file was removed, while that is held.
func (p *preview) hasService(ctx context.Context, f restapi.ChangedFile) bool {
	data, _, err := p.service.Git.Read(ctx, p.cluster, "status", f.Path)
	if errors.Is(err, githost.ErrNotFound) {
		return f.Action != restapi.ActionCreate
	}
	answer := &contract.Status{}
	if err == nil {
		answer, err = contract.DecodeStatus(data)
	}
	if err != nil {
		p.service.Log.WarnContext(ctx, "An answer cannot be read", "cluster", p.cluster, "path", f.Path, "error", err)
		return f.Action != restapi.ActionCreate
	}
	return answer.Object != ""
}
