package session

import (
	"context"
	"errors"
	"maps"
	"slices"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
)

// maxPutBack bounds the commits of which the files are asked for, when main is judged.
const maxPutBack = 32

// deleted are those of the removed claims that the konnector removed last, by path, each with the
// index of the commit. One that others have put back since, and may have moved to a file of its
// API that was added, counts as removed by them.
func (r *Removals) deleted(ctx context.Context, main *store.Snapshot, commits []guard.Commit, since guard.Since, removed, added []string) (map[string]int, error) {
	by := guard.RemovedBy(commits, since)
	bindings := map[string]bool{}
	for _, to := range added {
		bindings[contract.BindingOf(to)] = true
	}
	// after are the commits of others that may have the file again, by the index of its removal,
	// and asked are the files that a commit is asked for.
	after, asked := map[int][]string{}, map[string][]string{}
	for _, from := range removed {
		i, ok := by[from]
		if !ok || !bindings[contract.BindingOf(from)] {
			continue
		}
		if _, ok := after[i]; !ok {
			var err error
			if after[i], err = guard.After(ctx, commits, i); err != nil {
				return nil, err
			}
		}
		// One puts the file back, and another one moves it.
		if len(after[i]) < 2 {
			continue
		}
		for _, commit := range after[i] {
			if commit != string(main.Head()) {
				asked[commit] = append(asked[commit], from)
			}
		}
	}
	isFound := func(from string) bool { _, ok := by[from]; return !ok }
	for _, commit := range slices.Sorted(maps.Keys(asked)) {
		doubtful := slices.DeleteFunc(asked[commit], isFound)
		if len(doubtful) == 0 {
			continue
		}
		isThere := func(string) bool { return true }
		if len(asked) <= maxPutBack {
			at, err := r.branch.At(ctx, store.Hash(commit))
			switch {
			case err == nil:
				isThere = func(path string) bool { _, ok := at.Entry(path); return ok }
			case !errors.Is(err, store.ErrNotExist) && store.LastingLimit(err) == nil:
				return nil, err
			}
		}
		for _, from := range doubtful {
			if isThere(from) {
				delete(by, from)
			}
		}
	}
	return by, nil
}
