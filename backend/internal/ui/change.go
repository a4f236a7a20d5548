package ui

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// changeRow is a proposed change in a list.
type changeRow struct {
	// Name is that of the branch, without changes/.
	Name, Path, Subject, By, Since string
	State                          State
}

func (h *handler) changeRows(cluster string, changes []restapi.Change) []changeRow {
	var rows []changeRow
	for _, c := range changes {
		rows = append(rows, changeRow{
			Name: changeName(c), Path: changePath(cluster, c.Branch), Subject: changeTitle(c), By: proposers(c), Since: h.since(c.When), State: judgeChange(c),
		})
	}
	return rows
}

func changePath(cluster, branch string) string {
	return clusterPath(cluster) + "/" + contract.BranchPath(branch)
}

func changeName(c restapi.Change) string {
	return visible(strings.TrimPrefix(c.Branch, contract.ChangesPrefix))
}

// changeTitle is a change's subject, or the name of its branch where nobody wrote one.
func changeTitle(c restapi.Change) string { return cmp.Or(short(c.Subject, 200), changeName(c)) }

// proposers are the people who pushed a change, or whom its commit names.
func proposers(c restapi.Change) string {
	if len(c.ProposedBy) == 0 {
		return short(c.Author, 100)
	}
	return short(strings.Join(c.ProposedBy, ", "), 200)
}

// judgeChange is the state of a proposed change.
func judgeChange(c restapi.Change) State {
	switch {
	case c.Rejected:
		return State{Off, "Rejected", "It is not to be merged. Another commit on its branch proposes it again."}
	case len(c.Conflicts) > 0:
		return State{Warn, "Conflict", "Main has changed the same lines meanwhile."}
	}
	return State{Busy, "Open", "It waits for somebody to approve it."}
}

type changeView struct {
	Cluster clusterLink
	// Branch, Head and Effect are what an approval is about.
	Branch, Head, Effect string
	Name, By, Since      string
	State                State
	// Blocked says why the person cannot approve it.
	Blocked                           string
	MayApprove, MayReject, MayComment bool
	// Refused says that the control plane would refuse something in it.
	Refused   bool
	Conflicts []string
	Files     []fileView
	Commits   []changeCommit
	Events    []changeEvent
}

// fileView is what a merge would do with a file.
type fileView struct {
	Path string
	// Title says it in words: of a claim "Orders", "Changes" or "Cancels", of any other
	// file what becomes of it.
	Title string
	Tone  Tone
	// API, Namespace and Name are those of a claim; Name is "" for any other file.
	API             apiName
	Kind            string
	Namespace, Name string
	// Deletes says that a service would be deleted with its claim, Held why not at once.
	Deletes bool
	Held    string
	// Unbinding is what becomes of the claims of an API.
	Unbinding string
	// Waits says why it is not done at once, and Untried why the control plane's word on it is
	// not known.
	Waits, Untried string
	// Effective are the fields that change otherwise on the control plane, Unchanged those that
	// do not.
	Effective  []restapi.FieldChange
	Unchanged  []string
	Problem    string
	Fields     []restapi.FieldChange
	MoreFields int
	Created    bool
	Diff       []diffLine
	Cut        bool
	// Open says that the diff is all that there is to see.
	Open bool
}

type changeCommit struct{ Short, Hash, Subject, Author, Since string }

type changeEvent struct {
	Tone                       Tone
	By, What, Since, Short, At string
	Message                    string
}

// proposal is the page of a proposed change.
func (h *handler) proposal(r *http.Request, who login.Identity) (*page, error) {
	cb, err := h.Control.Cluster(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	c, err := h.Reviews.Change(r.Context(), who, cb.Name, contract.ChangesPrefix+r.PathValue("branch"))
	if err != nil {
		return nil, err
	}
	return &page{
		Title: changeTitle(*c), Kicker: "Proposed change", Place: "clusters", Template: "change", Body: h.newChangeView(cb, h.names(r.Context(), cb), c),
		Crumbs: []crumb{{"Clusters", "/clusters"}, {visible(cb.Spec.DisplayName), clusterPath(cb.Name)}},
	}, nil
}

func (h *handler) newChangeView(cb *v1alpha1.ClusterBinding, apis apiNames, c *restapi.Change) changeView {
	v := changeView{
		Cluster: clusterLink{cb.Name, visible(cb.Spec.DisplayName)}, Branch: c.Branch, Head: c.Head, Effect: c.Effect,
		Name: changeName(*c), By: proposers(*c), Since: h.since(c.When), State: judgeChange(*c),
		MayApprove: c.MayApprove, MayReject: c.MayReject, MayComment: c.MayComment,
	}
	if c.Blocked != "" {
		v.Blocked = sentence(c.Blocked)
	}
	for _, f := range c.Conflicts {
		v.Conflicts = append(v.Conflicts, visible(f))
	}
	for _, f := range c.Files {
		v.Files = append(v.Files, newFileView(f, apis))
		v.Refused = v.Refused || f.Problem != ""
	}
	for _, commit := range c.Commits {
		name, _ := author(commit.Author, "", cb.Name)
		v.Commits = append(v.Commits, changeCommit{shortHash(commit.Hash), commit.Hash, short(commit.Subject, 200), name, h.since(commit.When)})
	}
	tones := map[string]Tone{"pushed": Off, "commented": Off, "approved": Good, "rejected": Bad}
	for _, e := range c.Events {
		v.Events = append(v.Events, changeEvent{
			Tone: tones[e.What], By: short(e.By, 200), What: e.What, Since: h.since(e.At), At: e.At.UTC().Format(time.RFC3339), Short: shortHash(e.Commit), Message: visible(e.Message),
		})
	}
	return v
}

func newFileView(f restapi.ChangedFile, apis apiNames) fileView {
	v := fileView{
		Path: visible(f.Path), Problem: visible(f.Problem), Held: visible(f.Held), Unbinding: visible(f.Unbinding), Waits: visible(f.Waits), Untried: visible(f.Untried), MoreFields: f.MoreFields, Diff: diffLines(f.Diff), Cut: f.Cut,
		Created: f.Action == restapi.ActionCreate, Namespace: f.Namespace, Name: f.Name, Kind: visible(f.Kind),
	}
	words := map[restapi.Action][2]string{
		restapi.ActionCreate: {"Orders", "Adds"}, restapi.ActionUpdate: {"Changes", "Changes"}, restapi.ActionDelete: {"Cancels", "Removes"},
	}[f.Action]
	v.Tone = map[restapi.Action]Tone{restapi.ActionCreate: Good, restapi.ActionUpdate: Busy, restapi.ActionDelete: Bad}[f.Action]
	if v.Title = words[1]; f.Name != "" {
		v.Title, v.API, v.Deletes = words[0], apis.of(f.Binding), f.Action == restapi.ActionDelete
	}
	if binding, ok := contract.ParseRequestPath(f.Path); ok {
		v.API = apis.of(binding)
	}
	if !v.Deletes {
		v.Fields, v.Effective = visibleFields(f.Fields), visibleFields(f.Effective)
		for _, name := range f.Unchanged {
			v.Unchanged = append(v.Unchanged, visible(name))
		}
	}
	v.Open = f.Name == "" || len(f.Fields) == 0
	return v
}

// fieldTable is a table of fields that change.
type fieldTable struct {
	Label   string
	Created bool
	Fields  []restapi.FieldChange
}

// Table has the fields as the file says, EffectiveTable those that are otherwise.
func (f fileView) Table() fieldTable {
	return fieldTable{"Fields of " + f.Namespace + "/" + f.Name, f.Created, f.Fields}
}

// EffectiveTable is that of Effective.
func (f fileView) EffectiveTable() fieldTable {
	return fieldTable{"Fields of " + f.Namespace + "/" + f.Name + " on the control plane", f.Created, f.Effective}
}

func visibleFields(all []restapi.FieldChange) (out []restapi.FieldChange) {
	for _, c := range all {
		out = append(out, restapi.FieldChange{Field: visible(c.Field), Before: visible(c.Before), After: visible(c.After)})
	}
	return out
}

// review takes a person's verdict on a proposed change.
func (h *handler) review(r *http.Request, who login.Identity) (path string, err error) {
	form := r.PostForm.Get
	in := restapi.Review{
		Branch: form("branch"), Head: form("head"), Verdict: restapi.Verdict(form("verdict")), Message: formMessage(r.PostForm),
	}
	cluster := form("cluster")
	if in.Verdict != restapi.VerdictApprove {
		_, err = h.Reviews.Review(r.Context(), who, cluster, in)
		return changePath(cluster, in.Branch), err
	}
	in.Effect = form("effect")
	_, err = h.Reviews.Review(r.Context(), who, cluster, in)
	return clusterPath(cluster), err
}
