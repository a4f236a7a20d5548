package review

import (
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/claimdiff"
	"gitbind.dev/gitbridge/contract"
)

// describe says what becomes of a file, and gives the claims that it was and is; nil for
// none, and for what is no claim.
func describe(f githost.FileChange) (out restapi.ChangedFile, before, after *contract.Claim) {
	out = restapi.ChangedFile{Path: f.Path, Action: restapi.ActionUpdate, Diff: f.Diff, Cut: f.Cut}
	switch {
	case f.Before == "":
		out.Action = restapi.ActionCreate
	case f.After == "":
		out.Action = restapi.ActionDelete
	}
	if _, request := contract.ParseRequestPath(f.Path); request {
		out.Problem, out.Unbinding = describeRequest(f)
		return out, nil, nil
	}
	if contract.IsReserved(f.Path) {
		return out, nil, nil // The answer to its claim is about it.
	}
	key, err := contract.ParsePath(f.Path)
	if err != nil {
		if strings.HasPrefix(f.Path, "bindings/") && f.After != "" {
			out.Problem = err.Error()
		}
		return out, nil, nil
	}
	out.Binding, out.Namespace, out.Name = key.Binding, key.Namespace, key.Name
	before, _ = decode(f.Path, f.Before, f.Was)
	after, problem := decode(f.Path, f.After, f.Is)
	switch {
	case f.Irregular:
		out.Problem = "it is no plain file"
	case f.After != "" && problem != nil:
		out.Problem = problem.Error()
	}
	for _, c := range []*contract.Claim{before, after} {
		if c != nil {
			out.Kind = c.Kind
		}
	}
	if after != nil || f.After == "" {
		var changes []claimdiff.Change
		changes, out.MoreFields = claimdiff.Fields(before, after)
		for _, c := range changes {
			out.Fields = append(out.Fields, restapi.FieldChange(c))
		}
	}
	return out, before, after
}

// unbinding is what becomes of the claims of an API when its request goes, by its policy.
var unbinding = map[contract.DeletionPolicy]string{
	contract.Refuse: "this API goes when it has no claims any more: until then, they and their services stay",
	contract.Orphan: "this API goes, and its claims are let go of: their services stay on the control plane",
	contract.Delete: "this API goes, and all of its claims and their services are deleted, with what is in them: only too many at once are held",
}

// What else is said of a request: where it goes and cannot be read, and where its policy becomes
// contract.Delete.
const (
	unbindingUnknown = "this API goes, and what becomes of its claims is not known: "
	unbindingDeletes = "from then on, who unbinds this API deletes all of its claims and their services"
)

// gravity orders what is said of requests, the gravest first.
func gravity(words string) int {
	return slices.IndexFunc([]string{unbinding[contract.Delete], unbindingUnknown, unbindingDeletes, unbinding[contract.Orphan], ""}, func(begins string) bool {
		return strings.HasPrefix(words, begins)
	})
}

// describeRequest says why agents would not take a request, and what becomes of its claims
// where it goes, or where it says from then on that they are to go with it.
func describeRequest(f githost.FileChange) (problem, unbinds string) {
	before, errBefore := decodeRequest(f.Path, f.Was)
	after, errAfter := decodeRequest(f.Path, f.Is)
	switch {
	case f.Irregular:
		return "it is no plain file", ""
	case f.After == "" && errBefore != nil:
		return "", unbindingUnknown + errBefore.Error()
	case f.After == "":
		return "", unbinding[before.DeletionPolicy]
	case errAfter != nil:
		return errAfter.Error(), ""
	case after.DeletionPolicy == contract.Delete && (f.Before == "" || errBefore != nil || before.DeletionPolicy != contract.Delete):
		return "", unbindingDeletes
	}
	return "", ""
}

func decodeRequest(path string, data []byte) (contract.Request, error) {
	f, err := regular(path, data)
	if err != nil {
		return contract.Request{}, err
	}
	return contract.DecodeRequest(f)
}

// held is what agents do with a removal that comes with a new claim of the same kind.
const held = "a new claim of its kind comes with it, as if its file were renamed: the service stays, held, until somebody decides (kubectl gitbind resolve)"

// markMoved says which removals agents would hold, by the rule of guard.Removed: what the
// konnector removes, or orders, has not moved. Where it made a part of the change, or may have,
// nothing is said to be held, though some of it may be.
func markMoved(cluster string, c *githost.Change, files []restapi.ChangedFile) {
	if made, _ := konnectors(cluster, c); c.Older || made != nil {
		return
	}
	type kind struct{ binding, kind string }
	ordered := map[kind]bool{}
	for _, f := range files {
		if f.Kind != "" && f.Problem == "" && f.Action == restapi.ActionCreate {
			ordered[kind{f.Binding, f.Kind}] = true
		}
	}
	for i, f := range files {
		if f.Action == restapi.ActionDelete && ordered[kind{f.Binding, f.Kind}] {
			files[i].Held = held
		}
	}
}

func decode(path, blob string, data []byte) (*contract.Claim, error) {
	if blob == "" {
		return nil, nil
	}
	f, err := regular(path, data)
	if err != nil {
		return nil, err
	}
	return contract.Decode(f, "")
}

// regular is a plain file with the content that a host gave of it, nil for none.
func regular(path string, data []byte) (contract.File, error) {
	if data == nil {
		return contract.File{}, fmt.Errorf("%s: it is too large to be looked at here", path)
	}
	return contract.File{Path: path, Data: data}, nil
}
