package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// perPage is how many claims a page lists.
const perPage = 100

type bindingView struct {
	Cluster clusterLink
	API     apiName
	// Group is the API's heading in the catalogue, "" for none.
	Group string
	// Offer is "" for an API that is not bound.
	Offer   string
	State   State
	Message string
	// Granted says that a person granted it a moment ago.
	Granted bool

	Query, Show string
	Shows       []choice
	Rows        []claimRow
	Total       int
	// First and Last are the numbers of the rows shown, of Found.
	First, Last, Found int
	Previous, Next     string
}

// choice is one of a select.
type choice struct {
	Value, Name string
	Chosen      bool
}

func (h *handler) binding(r *http.Request, who login.Identity) (*page, error) {
	name := r.PathValue("binding")
	cb, err := h.Control.Cluster(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if contract.ValidateBinding(name) != nil {
		return nil, errNoPage()
	}
	exports, err := h.Control.Exports(r.Context(), cb)
	if err != nil {
		return nil, err
	}
	s, err := h.look(r.Context(), cb.Name)
	if err != nil {
		return nil, err
	}
	var export *v1alpha1.APIServiceExport
	if at := slices.IndexFunc(exports, func(e v1alpha1.APIServiceExport) bool { return e.Name == name }); at >= 0 {
		export = &exports[at]
	}
	state, message, known := judgeBinding(name, export, s)
	if !known {
		return nil, errNoPage()
	}
	claims := s.claims[name]
	v := bindingView{
		Cluster: clusterLink{cb.Name, visible(cb.Spec.DisplayName)}, API: namesOf(exports).of(name), Group: group(export),
		State: state, Message: message,
		Granted: query(r, "granted") != "", Query: query(r, "q"), Show: query(r, "show"), Total: alive(claims),
	}
	if export != nil {
		v.Offer = export.Spec.Template
	}
	v.Shows = []choice{{"", "all claims", v.Show == ""}, {"attention", "those that need attention", v.Show == "attention"},
		{"busy", "those under way", v.Show == "busy"}, {"gone", "those that are gone", v.Show == "gone"}}
	v.list(r, clusterNames{cb, namesOf(exports)}, claims)
	return &page{Title: v.API.Name, Kicker: "API", Place: "clusters", Template: "binding", Body: v,
		Crumbs: []crumb{{"Clusters", "/clusters"}, {v.Cluster.Name, clusterPath(cb.Name)}}}, nil
}

// list fills in the claims that are asked for, one page of them.
func (v *bindingView) list(r *http.Request, in clusterNames, claims []item) {
	var found []item
	for _, c := range claims {
		if shown(v.Show, c.state()) && matches(v.Query, c.key.Namespace+"/"+c.key.Name, c.state().Word) {
			found = append(found, c)
		}
	}
	v.Found = len(found)
	page, _ := strconv.Atoi(query(r, "page"))
	pages := max(1, (len(found)+perPage-1)/perPage)
	page = min(max(page, 1), pages)
	first := (page - 1) * perPage
	last := min(first+perPage, len(found))
	for _, c := range found[first:last] {
		v.Rows = append(v.Rows, newClaimRow(in, c))
	}
	v.First, v.Last = first+1, last
	link := func(page int) string {
		q := url.Values{"page": {strconv.Itoa(page)}}
		if v.Query != "" {
			q.Set("q", v.Query)
		}
		if v.Show != "" {
			q.Set("show", v.Show)
		}
		return "?" + q.Encode()
	}
	if page > 1 {
		v.Previous = link(page - 1)
	}
	if page < pages {
		v.Next = link(page + 1)
	}
}

// shown tells whether a state is among those that were chosen.
func shown(show string, s State) bool {
	switch show {
	case "attention":
		return s.Attention()
	case "busy":
		return s.Tone == Busy
	case "gone":
		return s.Tone == Off
	}
	return s.Tone != Off
}
