package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/mail"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

const (
	// maxShown bounds the part of a file that stands on a page, in bytes.
	maxShown = 64 << 10
	// fewCommits and manyCommits are how much history a page has.
	fewCommits  = 20
	manyCommits = 200
)

type claimView struct {
	Cluster         clusterLink
	API             apiName
	Namespace, Name string
	State           State
	// Reason and Message are the bridge's; the message may have several lines.
	Reason, Message string
	Steps           []Note
	Conditions      []condition
	// Effective is YAML of what the platform changed.
	Effective string
	// Status is YAML of the rest of the provider's status.
	Status string

	File, FileSize, FilePath string
	FileCut, HasFile         bool
	TooLarge                 bool
	Lines                    int

	// Timeline is the way of the newest version, and Took how long it took in all;
	// "" while it is under way.
	Timeline []step
	Took     string

	// Related are the claims that belong together with this one, itself among them.
	Related []relatedRow

	// Secrets are those that it, and what belongs to it, has in the app cluster.
	Secrets []secretRow
	// Withheld says which are not sent.
	Withheld []Note
	// secrets are the names of its own.
	secrets []string

	History     []change
	MoreHistory bool
}

// change is a commit of a claim's history.
type change struct {
	Hash, Short   string
	Subject       string
	Author, About string
	With          []string
	When, Since   string
	Diff          []diffLine
	Cut           bool
	Open          bool
}

// diffLine is one line of a diff; Sort is add, del, at or "" for context.
type diffLine struct{ Sort, Text string }

func (h *handler) claim(r *http.Request, who login.Identity) (*page, error) {
	cb, k, err := h.claimKey(r, who)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	v := claimView{Cluster: clusterLink{cb.Name, visible(cb.Spec.DisplayName)}, API: h.names(ctx, cb).of(k.Binding), Namespace: k.Namespace, Name: k.Name}
	blob, err := h.readFile(ctx, cb.Name, k, &v)
	if err != nil {
		return nil, err
	}
	said, err := h.readStatus(ctx, cb.Name, k, blob, &v)
	if err != nil {
		return nil, err
	}
	way, err := h.travelled(ctx, cb.Name, k, blob, said)
	if err != nil {
		return nil, err
	}
	if way != nil {
		v.Timeline, v.Took = way.timeline(cb.Name, blob, h.Now()), way.took()
	}
	// The history is as of when the page was loaded: to read it costs too much to
	// be done each few seconds.
	if r.Header.Get(liveHeader) == "" {
		if err := h.readHistory(r, cb.Name, k, &v); err != nil {
			return nil, err
		}
		v.Related = h.related(ctx, cb, k)
		v.Secrets = h.secrets(ctx, cb.Name, k, &v)
		if blob == "" && said == "" && len(v.History) == 0 {
			return nil, errNoPage()
		}
	}
	v.FilePath = claimPath(cb.Name, k) + "/file"
	return &page{Title: k.Name, Kicker: v.API.Name + " in namespace " + k.Namespace, Place: "clusters", Template: "claim", Body: v,
		Crumbs: []crumb{{"Clusters", "/clusters"}, {v.Cluster.Name, clusterPath(cb.Name)}, {v.API.Name, bindingPath(cb.Name, k.Binding)}}}, nil
}

// liveHeader is on requests that only bring the live parts of a page up to date.
const liveHeader = "Gitbind-Live"

// readHistory fills in the commits of a claim's file.
func (h *handler) readHistory(r *http.Request, cluster string, k contract.Key, v *claimView) error {
	limit := fewCommits
	if query(r, "history") == "all" {
		limit = manyCommits
	}
	commits, err := h.Git.Log(r.Context(), cluster, k.Path(), limit+1)
	if err != nil {
		return gitTrouble(err)
	}
	v.MoreHistory = len(commits) > limit && limit == fewCommits
	for i, c := range commits[:min(limit, len(commits))] {
		v.History = append(v.History, h.newChange(c, cluster, i == 0))
	}
	return nil
}

// claimKey reads which claim a request is about, once its cluster is known to be
// the person's.
func (h *handler) claimKey(r *http.Request, who login.Identity) (*v1alpha1.ClusterBinding, contract.Key, error) {
	k := contract.Key{Binding: r.PathValue("binding"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	cb, err := h.Control.Cluster(r.Context(), who, r.PathValue("id"))
	if err == nil && k.Validate() != nil {
		err = errNoPage()
	}
	return cb, k, err
}

// readFile fills in the file on main, and gives its blob, "" for none.
func (h *handler) readFile(ctx context.Context, cluster string, k contract.Key, v *claimView) (blob string, err error) {
	data, blob, err := h.Git.Read(ctx, cluster, "main", k.Path())
	switch {
	case errors.Is(err, githost.ErrNotFound):
		return "", nil
	case errors.Is(err, githost.ErrTooLarge):
		v.HasFile, v.TooLarge = true, true
		return blob, nil
	case err != nil:
		return "", gitTrouble(err)
	}
	v.HasFile = true
	v.FileSize, v.Lines = size(len(data)), strings.Count(string(data), "\n")
	if v.FileCut = len(data) > maxShown; v.FileCut {
		data = data[:maxShown]
	}
	v.File = visible(string(data))
	return blob, nil
}

// readStatus fills in what the bridge says of a claim, and gives the blob of that, ""
// when it says nothing.
func (h *handler) readStatus(ctx context.Context, cluster string, k contract.Key, blob string, v *claimView) (said string, err error) {
	v.State = judge(blob, nil)
	data, said, err := h.Git.Read(ctx, cluster, "status", k.Path())
	if errors.Is(err, githost.ErrNotFound) {
		return "", nil
	}
	if err != nil && !errors.Is(err, githost.ErrTooLarge) {
		return "", gitTrouble(err)
	}
	a := digest(data)
	v.State = judge(blob, a)
	s, err := contract.DecodeStatus(data)
	if err != nil {
		return said, nil
	}
	v.Reason, v.Message = words(string(s.Reason)), visible(cmp.Or(s.Message, a.message))
	if s.Problem != nil {
		v.Message = visible(s.Problem.Error())
	}
	if a.ready == "True" && s.Message == "" {
		v.Message = ""
	}
	for _, c := range providerConditions(s.Status) {
		v.Conditions = append(v.Conditions, condition{
			Type: visible(c.Type), Status: visible(c.Status), Reason: words(c.Reason), Message: visible(c.Message), Since: h.sinceText(c.Since),
		})
	}
	delete(s.Status, "conditions")
	v.Effective, v.Status = asYAML(s.Effective), asYAML(s.Status)
	v.Steps = steps(cluster, k, s, v.State)
	v.secrets, v.Withheld = a.secrets, withheld(s)
	return said, nil
}

// steps say how to go on.
func steps(cluster string, k contract.Key, s *contract.Status, state State) []Note {
	object := fmt.Sprintf("%s/%s -n %s", k.Binding, k.Name, k.Namespace)
	if state.Tone == Busy {
		return nil
	}
	switch s.Result {
	case contract.Invalid, contract.Denied:
		return []Note{{Title: "Correct it in the cluster, or in its file on main", Command: "kubectl edit " + object}}
	case contract.Held:
		switch s.Reason {
		case contract.NotRemoved, contract.ManyRemovals, contract.Moved:
			return []Note{
				{Title: "See what waits for a decision in the cluster, and decide", Command: "kubectl gitbind resolve " + object},
				{Title: "Or let all removals go on that wait in this cluster", Command: "kubectl gitbind approve"},
			}
		}
	case contract.Lost:
		return []Note{{Title: "A platform operator restores it, or has it recreated empty", Command: "kubectl gitbind approve --cluster " + cluster + " --recreate-empty " + k.Path()}}
	case contract.Applied:
		if s.Reason == contract.Contested {
			return []Note{{Title: "Ask a platform operator who else writes to it"}}
		}
	}
	return nil
}

// asYAML is a part of a status for people, "" when there is nothing in it.
func asYAML(m map[string]any) string {
	if len(m) == 0 {
		return ""
	}
	data, err := yaml.Marshal(m)
	if err != nil {
		return ""
	}
	if len(data) > maxShown {
		data = append(data[:maxShown], "\n… (cut here)"...)
	}
	return visible(string(data))
}

// sinceText is a time that somebody else wrote, in words.
func (h *handler) sinceText(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return ""
	}
	return h.since(t)
}

func (h *handler) newChange(c githost.Commit, cluster string, open bool) change {
	name, about := author(c.Author, c.Email, cluster)
	out := change{
		Hash: c.Hash, Short: c.Hash[:min(10, len(c.Hash))], Subject: short(c.Subject, 200), Author: name, About: about,
		When: c.When.UTC().Format("2006-01-02 15:04:05 UTC"), Since: h.since(c.When), Cut: c.Cut, Open: open,
	}
	for _, w := range c.With {
		if a, err := mail.ParseAddress(w); err == nil {
			w, _ = author(a.Name, a.Address, cluster)
		}
		out.With = append(out.With, short(w, 100))
	}
	out.Diff = diffLines(c.Diff)
	return out
}

func diffLines(lines []string) []diffLine {
	var out []diffLine
	for _, line := range lines {
		d := diffLine{Text: visible(line)}
		switch line[0] {
		case '+':
			d.Sort = "add"
		case '-':
			d.Sort = "del"
		case '@':
			d.Sort = "at"
		}
		out = append(out, d)
	}
	return out
}

// author names who made a commit, and says how that is known. The host lets
// nobody but the cluster's agent use addresses of the cluster's own domain.
func author(name, email, cluster string) (shown, about string) {
	shown = short(cmp.Or(name, email, contract.UnknownUser), 100)
	_, unknown := contract.ComponentIdentity(contract.UnknownUser, cluster)
	_, konnector := contract.ComponentIdentity(contract.Konnector, cluster)
	switch {
	case email == unknown:
		return "Somebody", "in the cluster; it did not say who"
	case email == konnector:
		return "The konnector", "for the cluster"
	case strings.HasSuffix(email, "@"+contract.ClusterDomain(cluster)):
		return shown, "in the cluster"
	case strings.HasSuffix(email, "@"+contract.PeopleDomain):
		return shown, "by approving it here"
	}
	return shown, "by Git, as " + short(email, 100)
}

// file is a claim's file as it is, as plain text.
func (h *handler) file(w http.ResponseWriter, r *http.Request) {
	who, err := h.asks(r)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	cb, k, err := h.claimKey(r, who)
	var data []byte
	if err == nil {
		data, _, err = h.Git.Read(r.Context(), cb.Name, "main", k.Path())
	}
	switch {
	case errors.Is(err, githost.ErrNotFound), errors.Is(err, githost.ErrTooLarge):
		err = errNoPage()
	case err != nil:
		err = gitTrouble(err)
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(data)
}
