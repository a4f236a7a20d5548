package review

import (
	"fmt"
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
	key, err := contract.ParsePath(f.Path)
	if err != nil {
		if _, request := contract.ParseRequestPath(f.Path); !request && strings.HasPrefix(f.Path, "bindings/") && f.After != "" {
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

// held is what agents do with a removal that comes with a new claim of the same kind.
const held = "a new claim of its kind comes with it, as if its file were renamed: the service stays, held, until somebody decides (kubectl gitbind resolve)"

// markMoved says which removals agents would hold, by the rule of guard.Moved.
func markMoved(files []restapi.ChangedFile) {
	ordered := map[string]bool{}
	for _, f := range files {
		if f.Name != "" && f.Action == restapi.ActionCreate {
			ordered[f.Binding] = true
		}
	}
	for i, f := range files {
		if f.Name != "" && f.Action == restapi.ActionDelete && ordered[f.Binding] {
			files[i].Held = held
		}
	}
}

func decode(path, blob string, data []byte) (*contract.Claim, error) {
	switch {
	case blob == "":
		return nil, nil
	case data == nil:
		return nil, fmt.Errorf("%s: it is too large to be looked at here", path)
	}
	return contract.Decode(contract.File{Path: path, Mode: contract.ModeRegular, Size: int64(len(data)), Data: data}, "")
}

// cut shortens a text to so many characters, and one that says so.
func cut(s string, most int) string { return claimdiff.Cut(s, most) }
