package ui

import (
	"context"
	"slices"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// maxRelated bounds how many claims of a namespace are read in order to find what
// belongs together.
const maxRelated = 200

// deepest is how deep a list of them is indented.
const deepest = 3

// relatedRow is a claim of a family.
type relatedRow struct {
	claimRow
	Depth int
	// This says that it is the one that the page is about.
	This bool

	key     contract.Key
	secrets []string
}

// related are the claims that a claim belongs to, and those that belong to them, as
// one list; nil where it stands alone. It is a help on a page about something else: what
// cannot be read is left out.
func (h *handler) related(ctx context.Context, cb *v1alpha1.ClusterBinding, k contract.Key) []relatedRow {
	exports, err := h.Control.Exports(ctx, cb)
	if err != nil {
		return nil
	}
	offers, refers := map[string]*v1alpha1.Offer{}, false
	for i := range exports {
		offers[exports[i].Name] = exports[i].Status.Offer
		refers = refers || exports[i].Status.Offer != nil && len(exports[i].Status.Offer.References) > 0
	}
	if !refers {
		return nil
	}
	s, err := h.look(ctx, cb.Name)
	if err != nil {
		return nil
	}
	near := inNamespace(s, k.Namespace)
	parents, err := h.parents(ctx, cb.Name, near, offers)
	if err != nil {
		h.Log.ErrorContext(ctx, "Read what belongs together", "cluster", cb.Name, "error", err)
		return nil
	}
	in := clusterNames{cb, namesOf(exports)}
	var family, out []relatedRow
	for _, p := range v1alpha1.Together(parents) {
		if p.Depth == 0 {
			family = nil
		}
		one := near[p.Index]
		row := relatedRow{claimRow: newClaimRow(in, one), Depth: min(p.Depth, deepest), This: one.key == k, key: one.key}
		if one.answer != nil {
			row.secrets = one.secrets
		}
		family = append(family, row)
		if slices.ContainsFunc(family, func(r relatedRow) bool { return r.This }) {
			out = family
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// inNamespace are the claims of a namespace that are not gone, by API and name.
func inNamespace(s *survey, namespace string) []item {
	var near []item
	for _, claims := range s.claims {
		for _, c := range claims {
			if c.key.Namespace == namespace && c.state().Tone != Off {
				near = append(near, c)
			}
		}
	}
	slices.SortFunc(near, func(a, b item) int { return compareKeys(a.key, b.key) })
	return near
}

// parents reads which claim each belongs to: its index, or -1.
func (h *handler) parents(ctx context.Context, cluster string, near []item, offers map[string]*v1alpha1.Offer) ([]int, error) {
	at, parents := map[contract.Key]int{}, make([]int, len(near))
	wanted := map[string][]int{}
	var blobs []string
	read := 0
	for i, c := range near {
		at[c.key], parents[i] = i, -1
		if o := offers[c.key.Binding]; o == nil || len(o.References) == 0 || c.blob == "" || read == maxRelated {
			continue
		}
		if read++; len(wanted[c.blob]) == 0 {
			blobs = append(blobs, c.blob)
		}
		wanted[c.blob] = append(wanted[c.blob], i)
	}
	err := h.Git.Blobs(ctx, cluster, blobs, func(blob string, data []byte) error {
		for _, i := range wanted[blob] {
			parents[i] = parentOf(near[i], data, offers, at)
		}
		return ctx.Err()
	})
	return parents, err
}

func parentOf(c item, data []byte, offers map[string]*v1alpha1.Offer, at map[contract.Key]int) int {
	claim, err := contract.Decode(contract.File{Path: c.path, Data: data}, "")
	if err != nil {
		return -1
	}
	for _, r := range offers[c.key.Binding].NamesIn(map[string]any{"spec": claim.Spec}) {
		if i, ok := at[contract.Key{Binding: r.API, Namespace: c.key.Namespace, Name: r.Name}]; ok {
			return i
		}
	}
	return -1
}

func compareKeys(a, b contract.Key) int {
	return slices.Compare([]string{a.Binding, a.Name}, []string{b.Binding, b.Name})
}
