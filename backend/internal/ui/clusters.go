package ui

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// most rows of a list that is not the page's main one.
const maxRows = 50

// row is a cluster in a list.
type row struct {
	ID, Name string
	// Owner is whose it is, where that is not the person.
	Owner string
	State State
	Seen  string
	// Attention is how many claims need it; Known is false while Git is away.
	Attention, Claims int
	Known             bool
}

type clustersView struct {
	Rows      []row
	Attention []claimRow
	// More is how many claims need attention beyond those.
	More int
	URL  string
}

// claimRow is a claim in a list.
type claimRow struct {
	Cluster         string
	API             apiName
	Namespace, Name string
	Path            string
	State           State
	Message         string
}

func (h *handler) connect(r *http.Request, who login.Identity) (*page, error) {
	v, err := h.overview(r.Context(), who)
	if err != nil {
		return nil, err
	}
	return &page{Title: "Connect a cluster", Place: "clusters", Crumbs: []crumb{{"Clusters", "/clusters"}}, Template: "connect", Body: v}, nil
}

func (h *handler) clusters(r *http.Request, who login.Identity) (*page, error) {
	v, err := h.overview(r.Context(), who)
	if err != nil {
		return nil, err
	}
	return &page{Title: "Clusters", Place: "clusters", Template: "clusters", Body: v}, nil
}

// surveyTime is how long the list of clusters waits for Git: it is there without
// the numbers, too.
const surveyTime = 5 * time.Second

// lookTime is how much of that it waits for one cluster, so that a slow one costs only its
// own row.
const lookTime = time.Second

// overview is a person's clusters, with what needs attention in all of them. Their own come
// first: nobody is asked whether something may be shared with them.
func (h *handler) overview(ctx context.Context, who login.Identity) (clustersView, error) {
	list, err := h.Control.Clusters(ctx, who)
	if err != nil {
		return clustersView{}, err
	}
	slices.SortFunc(list, func(a, b v1alpha1.ClusterBinding) int {
		if own := access.Owns(who, &a); own != access.Owns(who, &b) {
			if own {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Spec.DisplayName, b.Spec.DisplayName), cmp.Compare(a.Name, b.Name))
	})
	v := clustersView{URL: h.PublicURL}
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	for i := range list {
		cb := &list[i]
		seen := h.seen(cb)
		line := row{ID: cb.Name, Name: visible(cb.Spec.DisplayName), State: judgeCluster(cb, seen, h.Now()), Seen: h.since(seen)}
		if !access.Owns(who, cb) {
			line.Owner = visible(cb.Spec.Owner.Username)
		}
		v.Attention = append(v.Attention, h.addClaims(ctx, cb, &line)...)
		v.Rows = append(v.Rows, line)
	}
	v.Attention, v.More = cutRows(v.Attention)
	return v, nil
}

// addClaims adds what a cluster's Git says to its row, if it does so in time, and gives the
// claims that need attention.
func (h *handler) addClaims(ctx context.Context, cb *v1alpha1.ClusterBinding, line *row) []claimRow {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	s, err := h.look(ctx, cb.Name)
	if err != nil {
		return nil
	}
	line.Known = true
	for _, claims := range s.claims {
		line.Claims += alive(claims)
	}
	troubled := attention(clusterNames{cb, h.names(ctx, cb)}, s)
	line.Attention = len(troubled) + len(s.refused)
	return troubled
}

// alive is how many claims are not gone.
func alive(claims []item) int {
	n := 0
	for _, c := range claims {
		if c.state().Tone != Off {
			n++
		}
	}
	return n
}

// attention are the claims of a cluster that need it, by binding.
func attention(in clusterNames, s *survey) []claimRow {
	var out []claimRow
	for _, claims := range s.claims {
		for _, c := range claims {
			if c.state().Attention() {
				out = append(out, newClaimRow(in, c))
			}
		}
	}
	slices.SortFunc(out, func(a, b claimRow) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// clusterNames is a cluster with what people call its APIs.
type clusterNames struct {
	*v1alpha1.ClusterBinding
	apis apiNames
}

func newClaimRow(in clusterNames, i item) claimRow {
	line := claimRow{
		Cluster: visible(in.Spec.DisplayName), API: in.apis.of(i.key.Binding), Namespace: i.key.Namespace, Name: i.key.Name,
		Path: claimPath(in.Name, i.key), State: i.state(),
	}
	// A message is about what was answered, and would mislead beside a newer
	// version.
	if i.answer != nil && (i.answer.blob == i.blob || line.State.Attention()) {
		line.Message = i.message
	}
	return line
}

func claimPath(id string, k contract.Key) string {
	return bindingPath(id, k.Binding) + "/" + k.Namespace + "/" + k.Name
}

// seen is when a cluster's konnector was here last, as far as anybody knows.
func (h *handler) seen(cb *v1alpha1.ClusterBinding) time.Time {
	var at time.Time
	if cb.Status.LastSeen != nil {
		at = cb.Status.LastSeen.Time
	}
	if h.Seen != nil {
		if now := h.Seen(cb.Name); now.After(at) {
			at = now
		}
	}
	return at
}

// since is a time in words, "" for none.
func (h *handler) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ago(h.Now().Sub(t)) + " ago"
}

type clusterView struct {
	ID, Name string
	// Owner is whose it is, where that is not the person: then nothing can be changed
	// here, and there are no Shares.
	Owner  string
	Shares []shareRow
	// Roles are those that can be shared; none where Shares are not known.
	Roles      []restapi.RepositoryRole
	State      State
	Seen       string
	Repository string
	// Elsewhere says that it is on a Git host of its own.
	Elsewhere bool
	Notes     []Note
	// Changes are those that are proposed; MoreChanges says that there are others.
	Changes     []changeRow
	MoreChanges bool
	Bindings    []bindingRow
	// Offers are what it may still bind, by group; MoreOffers those beyond.
	Offers     []section
	MoreOffers int
	Attention  []claimRow
	More       int
	Refused    []claimRow
	MoreFiles  int
}

// bindingRow is a bound API in a list.
type bindingRow struct {
	API     apiName
	Group   string
	Path    string
	State   State
	Message string
	Claims  int
	// Counts are of the claims, by state; "" while Git is away.
	Counts []stateCount
	Known  bool
}

type stateCount struct {
	Count int
	State State
}

func (h *handler) cluster(r *http.Request, who login.Identity) (*page, error) {
	cb, err := h.Control.Cluster(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	exports, err := h.Control.Exports(r.Context(), cb)
	if err != nil {
		return nil, err
	}
	seen := h.seen(cb)
	v := clusterView{ID: cb.Name, Name: visible(cb.Spec.DisplayName), State: judgeCluster(cb, seen, h.Now()), Seen: h.since(seen)}
	if cb.Status.Repository != nil {
		v.Repository, v.Elsewhere = cb.Status.Repository.URL, h.Elsewhere
	}
	v.Notes = clusterNotes(cb)
	s, err := h.look(r.Context(), cb.Name)
	if err != nil {
		s = nil
		text := "The Git repository cannot be read just now. Nothing is lost; try again in a moment."
		if errors.Is(err, githost.ErrTooMany) {
			_, said := refusal.Answer(err)
			text = sentence(said)
		}
		v.Notes = append(v.Notes, Note{Tone: Warn, Title: "Claims cannot be shown", Text: text})
		h.Log.ErrorContext(r.Context(), "Read a repository for the web page", "cluster", cb.Name, "error", err)
	}
	v.Bindings = bindingRows(cb, exports, s)
	if s != nil {
		v.Attention, v.More = cutRows(attention(clusterNames{cb, namesOf(exports)}, s))
		v.Refused, v.MoreFiles = cutRows(refused(s))
	}
	h.addChanges(r.Context(), who, &v)
	switch {
	case !access.Owns(who, cb):
		v.Owner = visible(cb.Spec.Owner.Username)
	case r.Header.Get(liveHeader) == "":
		h.ownersPart(r.Context(), who, cb, exports, &v)
	}
	return &page{Title: v.Name, Kicker: "Cluster", Place: "clusters", Crumbs: []crumb{{"Clusters", "/clusters"}}, Template: "cluster", Body: v}, nil
}

// addChanges adds the changes that are proposed. There are none in a repository without main.
func (h *handler) addChanges(ctx context.Context, who login.Identity, v *clusterView) {
	changes, more, err := h.Reviews.Changes(ctx, who, v.ID)
	if err != nil && !refusal.Is(err, refusal.NotFound) {
		_, said := refusal.Answer(err)
		v.Notes = append(v.Notes, Note{Tone: Warn, Title: "Proposed changes cannot be shown", Text: sentence(said)})
		h.Log.ErrorContext(ctx, "List proposed changes for the web page", "cluster", v.ID, "error", err)
	}
	v.Changes, v.MoreChanges = h.changeRows(v.ID, changes), more
}

// ownersPart adds what a cluster's owner can change on its page, outside of its live parts. None
// of it is what the page is for: what cannot be read just now is left out.
func (h *handler) ownersPart(ctx context.Context, who login.Identity, cb *v1alpha1.ClusterBinding, exports []v1alpha1.APIServiceExport, v *clusterView) {
	if offers, err := h.Control.Catalog(ctx, who); err == nil {
		v.Offers, v.MoreOffers = stillFree(offers, exports)
	}
	if h.Elsewhere {
		return
	}
	if shares, err := h.shareRows(ctx, who, cb); err == nil {
		v.Shares, v.Roles = shares, restapi.RepositoryRoles()
	}
}

// stillFree are the offers of APIs that a cluster does not have, by group.
func stillFree(offers []restapi.Offer, exports []v1alpha1.APIServiceExport) (free []section, more int) {
	offers = slices.DeleteFunc(offers, func(o restapi.Offer) bool {
		return slices.ContainsFunc(exports, func(e v1alpha1.APIServiceExport) bool { return e.Name == o.API.BindingName() })
	})
	if more = len(offers) - maxRows; more > 0 {
		offers = offers[:maxRows]
	}
	_, free = arrange(offers, "", "")
	return free, max(more, 0)
}

func cutRows(rows []claimRow) (shown []claimRow, more int) {
	if len(rows) <= maxRows {
		return rows, 0
	}
	return rows[:maxRows], len(rows) - maxRows
}

// clusterNotes are what a person should know of a whole cluster.
func clusterNotes(cb *v1alpha1.ClusterBinding) []Note {
	var notes []Note
	if n, ok := judgeSync(cb); ok {
		if n.Tone == Warn {
			n.Command = "kubectl gitbind approve"
		}
		notes = append(notes, n)
	}
	if n := cb.Status.Foreign; n > 0 {
		notes = append(notes, Note{Tone: Warn, Title: count(int(n), "claim is", "claims are") + " held",
			Text: "On the control plane stands something in their place that is not theirs. A platform operator decides whether it becomes theirs."})
	}
	return notes
}

// refused are the files of main that are no claims.
func refused(s *survey) []claimRow {
	var out []claimRow
	for _, i := range s.refused {
		line := claimRow{Name: visible(i.path), State: State{Bad, "Refused", ""}}
		if i.answer != nil {
			line.State, line.Message = judgeAnswered(i.answer), i.message
		}
		out = append(out, line)
	}
	return out
}

// bindingRows are the bound APIs, those that were asked for, and those that claims
// are still there of.
func bindingRows(cb *v1alpha1.ClusterBinding, exports []v1alpha1.APIServiceExport, s *survey) []bindingRow {
	bound := map[string]*v1alpha1.APIServiceExport{}
	names := map[string]bool{}
	for i := range exports {
		bound[exports[i].Name] = &exports[i]
		names[exports[i].Name] = true
	}
	if s != nil {
		for name := range s.claims {
			names[name] = true
		}
		for name := range s.requests {
			names[name] = true
		}
	}
	apis := namesOf(exports)
	var out []bindingRow
	for _, name := range slices.Sorted(maps.Keys(names)) {
		line := bindingRow{API: apis.of(name), Group: group(bound[name]), Path: bindingPath(cb.Name, name), Known: s != nil}
		line.State, line.Message, _ = judgeBinding(name, bound[name], s)
		if s != nil {
			line.Claims, line.Counts = alive(s.claims[name]), countStates(s.claims[name])
		}
		if line.State.Tone != Off {
			out = append(out, line)
		}
	}
	slices.SortStableFunc(out, func(a, b bindingRow) int {
		return cmp.Or(compareGroups(a.Group, b.Group), cmp.Compare(strings.ToLower(a.API.Name), strings.ToLower(b.API.Name)))
	})
	return out
}

// compareGroups orders headings of the catalogue; those without one come last.
func compareGroups(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(a, b)
}

// order is that of states in summaries: what needs attention first.
var order = map[Tone]int{Bad: 0, Warn: 1, Busy: 2, Good: 3, Off: 4}

// countStates counts claims by state, those that are gone left out.
func countStates(claims []item) []stateCount {
	by := map[string]*stateCount{}
	for _, c := range claims {
		s := c.state()
		if s.Tone == Off {
			continue
		}
		if by[s.Word] == nil {
			by[s.Word] = &stateCount{State: s}
		}
		by[s.Word].Count++
	}
	var out []stateCount
	for _, c := range by {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b stateCount) int {
		return cmp.Or(cmp.Compare(order[a.State.Tone], order[b.State.Tone]), cmp.Compare(a.State.Word, b.State.Word))
	})
	return out
}
