package review

import (
	"context"
	"errors"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/quota"
)

// pair are the claims that a file was and would be, nil for none, and the blob of the first.
type pair struct {
	before, after *contract.Claim
	blob          string
}

// isNotApplied tells whether the bridge has answered of the first one that it is not applied: then
// another is there, or none.
func (c pair) isNotApplied(answer *contract.Status) bool {
	return c.blob != "" && answer != nil && answer.Answers.Blob == c.blob && answer.Result != contract.Applied
}

// markWaiting says which claims would wait for room in their quota, by what the bridge has
// published of it: nothing where that is not known.
func (p *preview) markWaiting(ctx context.Context, claims []pair) {
	all := map[string][]quota.Change{}
	for i, f := range p.files {
		// The service stays as it is with a file that is refused, and a removal that is held.
		if f.Name == "" || f.Problem != "" || f.Held != "" {
			continue
		}
		a := p.api(ctx, f.Binding)
		if a == nil || a.usage == nil {
			continue
		}
		answer := p.answer(ctx, f.Path)
		if answer != nil && answer.Result == contract.Lost {
			continue // It stays lost with another file, and has nothing to give back.
		}
		all[f.Binding] = append(all[f.Binding], a.weigh(f, claims[i], answer))
	}
	for binding, changes := range all {
		a := p.api(ctx, binding)
		why := quota.Predict(a.quota, a.usage, changes)
		for i := range p.files {
			if f := &p.files[i]; f.Binding == binding {
				f.Waits = why[keyOf(*f)]
			}
		}
	}
}

func keyOf(f restapi.ChangedFile) contract.Key {
	return contract.Key{Binding: f.Binding, Namespace: f.Namespace, Name: f.Name}
}

// weigh is a change by the weights of a quota, where the bridge has answered so, nil for an
// answer that is not known.
func (a *api) weigh(f restapi.ChangedFile, c pair, answer *contract.Status) quota.Change {
	out := quota.Change{Key: keyOf(f)}
	of := func(claim *contract.Claim) *int64 {
		if claim == nil {
			return nil
		}
		weight := quota.Weight(a.quota, a.object(claim).Object)
		return &weight
	}
	out.Is = of(c.after)
	if hasService(f, answer) {
		// Of what is there with a file that nobody can read, or that was not applied, more is
		// not known.
		if out.Was = of(c.before); out.Was == nil || c.isNotApplied(answer) && out.Is != nil {
			out.Was = out.Is
		}
	}
	return out
}

// hasService tells whether a claim has an object on the control plane, as the bridge has
// answered: also one whose file was removed, while that is held.
func hasService(f restapi.ChangedFile, answer *contract.Status) bool {
	if answer == nil {
		return f.Action != restapi.ActionCreate
	}
	return answer.Object != ""
}

// answer is that of the bridge on a claim of the change; nil for none, and where it cannot be read.
func (p *preview) answer(ctx context.Context, path string) *contract.Status {
	if p.answered == nil {
		var paths []string
		for _, f := range p.files {
			if f.Name != "" {
				paths = append(paths, f.Path)
			}
		}
		p.answered = p.answers(ctx, paths)
	}
	return p.answered[path]
}

// answers are those of the bridge on files, by path, as far as they can be read.
func (p *preview) answers(ctx context.Context, paths []string) map[string]*contract.Status {
	out := map[string]*contract.Status{}
	failed := func(path string, err error) {
		p.service.Log.WarnContext(ctx, "An answer cannot be read", "cluster", p.cluster, "path", path, "error", err)
	}
	err := p.service.Git.ReadAll(ctx, p.cluster, "status", paths, func(path string, data []byte) error {
		if data == nil {
			return nil
		}
		answer, err := contract.DecodeStatus(data)
		if err != nil {
			failed(path, err)
			return nil
		}
		out[path] = answer
		return nil
	})
	if err != nil && !errors.Is(err, githost.ErrNotFound) {
		failed(paths[0], err)
	}
	return out
}
