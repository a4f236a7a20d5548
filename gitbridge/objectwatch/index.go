package objectwatch

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/selection"
)

// index finds objects by name and by label, and by the same those who select them: with
// many of both, the cost of one is not that of all.
type index struct {
	objects map[string]*metav1.PartialObjectMetadata
	// labelled are the objects that have a label, by name.
	labelled map[label]map[string]*metav1.PartialObjectMetadata
	// wanted is what was selected, by id; byName are the ids of those who select by a name,
	// and byLabel of those who select by labels, under one of these.
	wanted  map[string]wanted
	byName  map[string]map[string]bool
	byLabel map[label]map[string]bool
}

// wanted is what somebody selects. Labels are those under which the index has it.
type wanted struct {
	selections []selection.Selection
	labels     []label
}

type label struct{ key, value string }

func newIndex() index {
	return index{
		objects: map[string]*metav1.PartialObjectMetadata{}, labelled: map[label]map[string]*metav1.PartialObjectMetadata{},
		wanted: map[string]wanted{}, byName: map[string]map[string]bool{}, byLabel: map[label]map[string]bool{},
	}
}

// put has an object in the place of another one, or of none; now is nil for one that went.
func (x *index) put(before, now *metav1.PartialObjectMetadata) {
	if before != nil {
		delete(x.objects, before.Name)
		for k, v := range before.Labels {
			remove(x.labelled, label{k, v}, before.Name)
		}
	}
	if now != nil {
		x.objects[now.Name] = now
		for k, v := range now.Labels {
			add(x.labelled, label{k, v}, now.Name, now)
		}
	}
}

// find are the objects that selections take.
func (x *index) find(selections []selection.Selection) selection.Found {
	out := selection.Found{}
	for _, s := range selections {
		if s.Labels == nil {
			if m := x.objects[s.Name]; m != nil {
				out.Add(m, s)
			}
			continue
		}
		for _, m := range x.labelled[rarest(s.Labels, x.labelled)] {
			if s.Takes(m.Name, m.Labels) {
				out.Add(m, s)
			}
		}
	}
	return out
}

// want remembers what an id selects.
func (x *index) want(id string, selections []selection.Selection) {
	x.forget(id)
	w := wanted{selections: selections}
	for _, s := range selections {
		if s.Labels == nil {
			add(x.byName, s.Name, id, true)
			continue
		}
		// The one that the fewest others are under: many may share all but one.
		l := rarest(s.Labels, x.byLabel)
		add(x.byLabel, l, id, true)
		w.labels = append(w.labels, l)
	}
	x.wanted[id] = w
}

func (x *index) forget(id string) {
	w := x.wanted[id]
	for _, s := range w.selections {
		remove(x.byName, s.Name, id)
	}
	for _, l := range w.labels {
		remove(x.byLabel, l, id)
	}
	delete(x.wanted, id)
}

func (x *index) isUnwanted() bool { return len(x.wanted) == 0 }

// wanting adds the ids of those who select an object, which may be nil.
func (x *index) wanting(m *metav1.PartialObjectMetadata, ids map[string]bool) {
	if m == nil {
		return
	}
	maps.Copy(ids, x.byName[m.Name])
	for k, v := range m.Labels {
		for id := range x.byLabel[label{k, v}] {
			if !ids[id] && slices.ContainsFunc(x.wanted[id].selections, func(s selection.Selection) bool { return s.Takes(m.Name, m.Labels) }) {
				ids[id] = true
			}
		}
	}
}

// rarest is the label of several that the fewest have.
func rarest[V any](labels map[string]string, having map[label]map[string]V) label {
	all := make([]label, 0, len(labels))
	for k, v := range labels {
		all = append(all, label{k, v})
	}
	return slices.MinFunc(all, func(a, b label) int { return len(having[a]) - len(having[b]) })
}

func add[K comparable, V any](of map[K]map[string]V, at K, name string, value V) {
	if of[at] == nil {
		of[at] = map[string]V{}
	}
	of[at][name] = value
}

func remove[K comparable, V any](of map[K]map[string]V, at K, name string) {
	if delete(of[at], name); len(of[at]) == 0 {
		delete(of, at)
	}
}
