package repository

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// refusals are the files on main that the control plane does not act on, by
// their path there.
type refusals map[string]v1alpha1.RefusedFile

// update goes through what changed on status, and reports whether that changed
// anything here.
func (r refusals) update(old, new *store.Snapshot) bool {
	changed := false
	for c := range store.Diff(old, new, "") {
		path, ok := answered(c.Path)
		if !ok {
			continue
		}
		before, was := r[path]
		after, is := refusedFile(new, c, path)
		switch {
		case is:
			r[path] = after
		case was:
			delete(r, path)
		}
		changed = changed || was != is || before != after
	}
	return changed
}

// answered is the path on main that a path on status answers.
func answered(path string) (string, bool) {
	if p, ok := strings.CutPrefix(path, contract.RefusedRoot+"/"); ok {
		return p, true
	}
	_, err := contract.ParsePath(path)
	_, isRequest := contract.ParseRequestPath(path)
	return path, err == nil || isRequest
}

// applied is how most ClaimStatuses begin a line. Only these words at the very
// start of a line are the field: all that is nested is indented. Looking for
// them is a hundredth of the work of reading YAML.
var applied = []byte("\nresult: " + string(contract.Applied) + "\n")

func refusedFile(s *store.Snapshot, c store.Change, path string) (v1alpha1.RefusedFile, bool) {
	none := v1alpha1.RefusedFile{}
	if c.New == nil {
		return none, false
	}
	data, err := s.Read(c.Path)
	if err != nil || bytes.Contains(data, applied) {
		return none, false
	}
	answer, err := contract.DecodeStatus(data)
	if err != nil {
		return none, false
	}
	switch answer.Result {
	case contract.Invalid, contract.Denied, contract.Held, contract.Failed, contract.Lost:
	default:
		return none, false
	}
	f := v1alpha1.RefusedFile{Path: path, Result: string(answer.Result), Message: answer.Message}
	if p := answer.Problem; p != nil {
		f.Line = p.Line
		if f.Message == "" {
			f.Message = p.Reason
		}
	}
	return f, true
}

func (r refusals) first(n int) []v1alpha1.RefusedFile {
	paths := slices.Sorted(maps.Keys(r))
	var out []v1alpha1.RefusedFile
	for _, p := range paths[:min(n, len(paths))] {
		out = append(out, r[p])
	}
	return out
}
