package session

import (
	"reflect"
	"strings"

	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// Answers are what status says of the paths of main.
type Answers struct {
	status  *statusbranch.Branch
	cluster tenant.Cluster
	decoded contract.Statuses
}

// Of is the answer to a path, nil if there is none, and decision.Unread if it cannot be read.
func (a *Answers) Of(path string) *contract.Status {
	present, _ := a.Seen(path)
	return present
}

// Seen is Of with the blob of the answer, "" for none: for an answer that is decided on it.
func (a *Answers) Seen(path string) (present *contract.Status, blob store.Hash) {
	status := a.status.Snapshot()
	entry, _ := status.Entry(contract.StatusPath(path))
	present, err := a.in(status, path)
	if err != nil {
		object := ""
		if key, err := contract.ParsePath(path); err == nil {
			object = a.cluster.ClaimNamespace(key.Namespace) + "/" + key.Name
		}
		present = decision.Unread(object)
	}
	return present, entry.Hash
}

// read is Of, with an error where the answer cannot be read.
func (a *Answers) read(path string) (*contract.Status, error) {
	return a.in(a.status.Snapshot(), path)
}

func (a *Answers) in(status *store.Snapshot, path string) (*contract.Status, error) {
	entry, ok := status.Entry(contract.StatusPath(path))
	if !ok {
		return nil, nil
	}
	return a.decoded.Decode(string(entry.Hash), func() ([]byte, error) { return status.Read(entry.Path) })
}

// Say reports whether status is known to say this of a path, nil for nothing: after a start
// that is so of nearly all paths, and to compare files would take ten times as long.
func (a *Answers) Say(path string, answer *contract.Status) bool {
	present, err := a.read(path)
	switch {
	case err != nil, a.status.IsDoubtful(contract.StatusPath(path)):
		return false
	case present == nil || answer == nil:
		return present == nil && answer == nil
	}
	this := *answer
	this.APIVersion, this.Kind = present.APIVersion, present.Kind
	return reflect.DeepEqual(*present, this)
}

// has reports whether status says anything of a path.
func (a *Answers) has(path string) bool {
	_, ok := a.status.Snapshot().Entry(contract.StatusPath(path))
	return ok
}

// missing are the claims of main that status does not answer, in the bindings of what was removed.
// A file that came in the place of another one that went is one of them.
func (a *Answers) missing(main *store.Snapshot, removed []string) []string {
	bindings := map[string]bool{}
	for _, path := range removed {
		if key, err := contract.ParsePath(path); err == nil {
			bindings[key.Binding] = true
		}
	}
	status := a.status.Snapshot()
	var out []string
	for binding := range bindings {
		for e := range main.List(contract.ClaimsPath(binding)) {
			if _, err := contract.ParsePath(e.Path); err != nil {
				continue
			}
			if present, err := a.in(status, e.Path); err != nil || present == nil || present.Answers.Blob == "" {
				out = append(out, e.Path)
			}
		}
	}
	return out
}

// paths goes through the paths of main below a folder that have, or may want, an
// answer. One may come twice.
func (a *Answers) paths(main *store.Snapshot, folder string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		wanted := a.strayFilter(0)
		for e := range main.List(folder) {
			if !contract.IsReserved(e.Path) && wanted(e.Path) && !yield(e.Path) {
				return
			}
		}
		status := a.status.Snapshot()
		for e := range status.List(folder) {
			_, err := contract.ParsePath(e.Path)
			if _, isRequest := contract.ParseRequestPath(e.Path); (err == nil || isRequest) && !yield(e.Path) {
				return
			}
		}
		for e := range status.List(contract.RefusedRoot) {
			data, err := status.Read(e.Path)
			if err != nil {
				continue
			}
			answer, err := contract.DecodeStatus(data)
			if err == nil && answer.Problem != nil && strings.HasPrefix(answer.Problem.File, folder+"/") && !yield(answer.Problem.File) {
				return
			}
		}
	}
}

// maxWords bounds each text of an answer in characters, and maxPath the name of its file: Linux
// takes none that is longer.
const maxWords, maxPath = 2000, 4096

// Bounded is an answer, nil for none, with texts that are not too long. They may repeat what
// somebody wrote into a file, and an answer that is larger than a file may be is never written.
func Bounded(answer *contract.Status) *contract.Status {
	if answer == nil {
		return nil
	}
	out := *answer
	out.Message = brief.Cut(out.Message, maxWords)
	if p := answer.Problem; p != nil {
		out.Problem = &contract.Problem{File: brief.Cut(p.File, maxPath), Line: p.Line, Reason: brief.Cut(p.Reason, maxWords)}
	}
	return &out
}
