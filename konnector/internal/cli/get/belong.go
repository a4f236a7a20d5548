package get

import (
	"strings"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// together puts each claim behind the one that it belongs to, as far as that is among
// them, and keeps the order otherwise. What belongs to what, the offers say.
func together(claims []claim, offers map[string]*v1alpha1.Offer) []claim {
	at := map[string]int{}
	for i, c := range claims {
		at[c.sortKey()] = i
	}
	parents := make([]int, len(claims))
	for i, c := range claims {
		parents[i] = parentOf(c, offers, at)
	}
	var out []claim
	for _, p := range v1alpha1.Together(parents) {
		c := claims[p.Index]
		c.depth = p.Depth
		out = append(out, c)
	}
	return out
}

// parentOf is the index of the claim that one belongs to, -1 for none.
func parentOf(c claim, offers map[string]*v1alpha1.Offer, at map[string]int) int {
	for _, r := range offers[c.binding].NamesIn(c.object.Object) {
		if i, ok := at[c.object.GetNamespace()+"/"+r.Name+"/"+r.API]; ok {
			return i
		}
	}
	return -1
}

// offersOf are what the control plane says for people, by binding.
func offersOf(bindings []v1alpha1.APIServiceBinding) map[string]*v1alpha1.Offer {
	offers := map[string]*v1alpha1.Offer{}
	for _, b := range bindings {
		offers[b.Name] = b.Status.Offer
	}
	return offers
}

// indent shows how deep a claim belongs to others.
func (c claim) indent() string {
	const deepest = 8
	if c.depth == 0 {
		return ""
	}
	return strings.Repeat("  ", min(c.depth, deepest)-1) + "└ "
}
