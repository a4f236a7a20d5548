package bind

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"gitbind.dev/gitbridge/api/restapi"
)

// maxSimilar is how many offers are named to a person who misspelt one.
const maxSimilar = 3

// similar are the names of the offers that a person may have meant: those that are named like
// it, or whose API is.
func similar(catalog []restapi.Offer, name string) []string {
	var out []string
	for _, o := range catalog {
		if slices.ContainsFunc([]string{o.Name, o.API.Resource, o.API.BindingName()}, func(known string) bool { return isSimilar(name, known) }) {
			out = append(out, o.Name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxSimilar)]
}

// minPart is how long a part of a name must be to mean that name.
const minPart = 3

// isSimilar reports whether one name is part of the other, or differs from it in at most a
// third of its letters.
func isSimilar(name, known string) bool {
	name, known = strings.ToLower(name), strings.ToLower(known)
	short, long := name, known
	if len(short) > len(long) {
		short, long = long, short
	}
	return len(short) >= minPart && strings.Contains(long, short) || levenshtein.ComputeDistance(name, known) <= len(name)/3
}
