package ui

import (
	"net/http"
	"slices"
	"strings"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/login"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/brief"
)

type catalogView struct {
	Query, Group string
	// Groups are all that there are, to choose from.
	Groups []string
	// Total is the number of offers before the search.
	Total, Found int
	Sections     []section
	Clusters     []clusterLink
}

// section is a group of offers; its name may be "".
type section struct {
	Name   string
	Offers []offerView
}

type offerView struct {
	restapi.Offer
	// Free are the clusters that do not have it yet.
	Free []clusterLink
}

type clusterLink struct{ ID, Name string }

func (h *handler) catalog(r *http.Request, who login.Identity) (*page, error) {
	offers, err := h.Control.Catalog(r.Context(), who)
	if err != nil {
		return nil, err
	}
	clusters, err := h.Control.Clusters(r.Context(), who)
	if err != nil {
		return nil, err
	}
	v := catalogView{Query: query(r, "q"), Group: query(r, "group"), Total: len(offers)}
	for i := range clusters {
		if !access.Owns(who, &clusters[i]) {
			continue // only its owner binds
		}
		v.Clusters = append(v.Clusters, clusterLink{clusters[i].Name, visible(clusters[i].Spec.DisplayName)})
	}
	v.Groups, v.Sections = arrange(offers, v.Query, v.Group)
	for i := range v.Sections {
		for j := range v.Sections[i].Offers {
			o := &v.Sections[i].Offers[j]
			v.Found++
			for _, c := range v.Clusters {
				if !slices.Contains(o.Bound, c.Name) {
					o.Free = append(o.Free, c)
				}
			}
		}
	}
	return &page{Title: "Catalogue", Place: "catalog", Template: "catalog", Body: v}, nil
}

// arrange gives all groups, and the offers that a search finds, by group. Those
// without a group come last.
func arrange(offers []restapi.Offer, search, group string) (groups []string, found []section) {
	by := map[string][]offerView{}
	for _, o := range offers {
		if o.Group != "" && !slices.Contains(groups, o.Group) {
			groups = append(groups, o.Group)
		}
		if (group == "" || o.Group == group) && matches(search, o.Name, o.DisplayName, o.Kind, o.Description, o.Group, o.API.BindingName()) {
			by[o.Group] = append(by[o.Group], offerView{Offer: o})
		}
	}
	slices.Sort(groups)
	for _, g := range append(slices.Clone(groups), "") {
		if len(by[g]) > 0 {
			found = append(found, section{Name: g, Offers: by[g]})
		}
	}
	return groups, found
}

// matches tells whether each word of a search is somewhere in the texts.
func matches(search string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(search)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}

// query is a parameter of a request, as far as anybody would type it.
func query(r *http.Request, name string) string {
	const most = 100
	s := strings.Map(func(c rune) rune {
		if brief.IsHidden(c) || c == '\n' || c == '\t' {
			return -1
		}
		return c
	}, r.URL.Query().Get(name))
	if len(s) > most {
		s = s[:most]
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, ""))
}
