package decision_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/choice"
)

// actor does what was decided on an object as it was, and main as it was known.
type actor struct {
	m     *model
	t     *rapid.T
	o     *object
	known int
	d     decision.Decision
	f     decision.Facts
}

// unmoved: what the API server is asked for has the resourceVersion decided on.
func (a actor) unmoved() bool {
	return a.m.object != nil && a.m.object.revision == a.o.revision && a.m.object.uid == a.o.uid
}

func (a actor) agreed(says version) *base {
	return &base{uid: a.o.uid, generation: a.o.generation, commit: a.known, says: says}
}

func (a actor) put(b *base) {
	o := a.m.object
	if o.base = b; a.d.Chosen != "" {
		o.resolve = ""
	}
	a.m.touch(false)
}

func (a actor) record() {
	if a.unmoved() {
		b := a.agreed(a.o.says)
		if !a.f.Touched && a.d.Chosen == "" {
			b.lost = a.f.Lost
		}
		a.m.object.finalizer = true
		a.put(b)
	}
}

// push is compare-and-swap on the file.
func (a actor) push(c commit) bool {
	m := a.m
	m.known = len(m.main)
	if !same(m.head(), m.at(a.known)) {
		return false
	}
	a.checkPush(c.file)
	m.main = append(m.main, c)
	m.known = len(m.main)
	return true
}

// checkPush: the agent undoes nothing that the cluster has not seen, and removes
// nothing that nobody asked for.
func (a actor) checkPush(file version) {
	m, head := a.m, a.m.head()
	if file == nil {
		if !m.asked[a.o.uid] && a.d.Chosen == "" {
			a.t.Fatalf("a file was removed that nobody asked for")
		}
		return
	}
	for _, f := range fields {
		if head != nil && head[f] != file[f] && !m.seen[f][head[f]] && a.d.Chosen == "" {
			a.t.Fatalf("%s = %q of Git is overwritten by %q, and the cluster has never seen it", f, head[f], file[f])
		}
	}
}

// recordPushed tries again on whatever has become of the object.
func (a actor) recordPushed(b *base) func() {
	return func() {
		if o := a.m.object; o != nil && o.uid == a.o.uid {
			a.put(b)
		}
	}
}

func (a actor) commit() {
	if !a.push(commit{file: a.o.says, uid: a.o.uid, generation: a.o.generation, says: a.o.says}) {
		return
	}
	b := a.agreed(a.o.says)
	b.commit = a.m.known
	a.m.next = a.recordPushed(b)
}

func (a actor) update(says version, b *base) {
	changed := !same(says, a.m.object.says)
	if changed {
		b.generation++
	}
	a.m.object.says = says
	a.put(b)
	if changed {
		a.m.touch(true)
	}
}

func (a actor) write() { a.writeLost(a.f.Lost) }

func (a actor) writeLost(lost *decision.Lost) {
	if !a.unmoved() {
		return
	}
	b := a.agreed(a.m.at(a.known))
	b.lost = lost
	a.update(a.m.at(a.known), b)
}

func (a actor) merge() {
	merged := said(a.f.Merged)
	if same(merged, a.m.at(a.known)) {
		a.write()
		return
	}
	if !a.push(commit{file: merged, uid: a.o.uid, generation: a.o.generation, says: a.o.says}) {
		return
	}
	b := a.agreed(merged)
	b.commit = a.m.known
	a.m.next = func() {
		if a.unmoved() {
			a.update(merged, b)
			return
		}
		b.says, b.behind = a.o.says, b.commit-(a.o.base.commit-a.o.base.behind)
		a.m.next = a.recordPushed(b)
	}
}

func (a actor) giveWay() {
	a.m.kept = append(a.m.kept, a.o.says)
	a.m.next = func() {
		lost := &decision.Lost{Reason: a.d.Reason, Branch: a.o.says.blob()}
		if a.d.Chosen != "" {
			lost = nil
		}
		a.writeLost(lost)
	}
}

func (a actor) takeBack() {
	if !a.unmoved() {
		return
	}
	for _, v := range a.m.kept {
		if v.blob() == a.f.Lost.Branch {
			b := *a.o.base
			b.lost = nil
			a.m.object.says = v
			a.put(&b)
			a.m.touch(true)
			return
		}
	}
	a.t.Fatalf("what was kept is gone")
}

func (a actor) create() {
	m := a.m
	if m.object != nil {
		return
	}
	m.uids++
	file := m.at(a.known)
	b := &base{uid: m.uids, generation: 1, commit: a.known, says: file, unbound: true}
	m.object = &object{uid: m.uids, generation: 1, revision: 1, finalizer: true, says: file, base: b}
	m.see()
	m.next = func() {
		if m.object != nil && m.object.base == b {
			b.unbound = false
		}
	}
}

func (a actor) delete() {
	if !a.unmoved() {
		return
	}
	if !a.m.removed && a.d.Chosen == "" {
		a.t.Fatalf("an object is deleted that nobody asked to delete")
	}
	b := *a.o.base
	b.removed = true
	a.m.object.base = &b
	a.m.touch(false)
	revision := a.m.object.revision
	a.m.next = func() {
		if o := a.m.object; o != nil && o.uid == a.o.uid && o.revision == revision {
			a.m.terminate()
		}
	}
}

func (a actor) removeFile() {
	if !a.push(commit{uid: a.o.uid, generation: a.o.generation}) {
		return
	}
	b := a.agreed(a.o.says)
	if own := a.o.ownBase(); own != nil {
		c := *own
		b = &c
	}
	b.removed = true
	a.m.next = a.recordPushed(b)
}

func (a actor) recordRemoved() {
	if a.unmoved() {
		b := *a.o.base
		b.removed = true
		a.put(&b)
	}
}

func (a actor) release() {
	if a.unmoved() {
		a.m.object.finalizer = false
		a.m.touch(false)
		a.m.leave()
	}
}

// Whatever is done on both sides in whatever order, with the agent stopped at any
// moment: in the end both say the same, each edit that the cluster accepted is in
// main's history or on a branch of its own, and nothing is gone that nobody asked
// to go.
func TestAnyInterleavingEndsInAgreement(t *testing.T) {
	// What was ever found took some thousand tries.
	for i := range 30 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, anyInterleaving) })
	}
}

func anyInterleaving(t *rapid.T) {
	m := newModel()
	m.many = rapid.IntRange(0, 3).Draw(t, "many") == 0
	step := m.agentSteps
	t.Repeat(map[string]func(*rapid.T){
		"user creates": m.userCreates, "user edits": m.userEdits, "user edits again": m.userEdits, "user deletes": m.userDeletes,
		"person pushes": m.personPushes, "person pushes again": m.personPushes, "person removes": m.personRemoves, "person reverts": m.personReverts,
		"bridge answers": m.bridgeAnswers, "agent fetches": m.agentFetches, "agent restarts": m.agentRestarts,
		"agent steps": step, "agent steps 2": step, "agent steps 3": step, "agent steps 4": step,
	})
	m.end(t)
}

// end lets the agent finish, with a person who decides what is to be decided.
func (m *model) end(t *rapid.T) {
	for range 200 {
		m.agentFetches(t)
		for m.next != nil {
			m.agentSteps(t)
			m.agentFetches(t)
		}
		d, settled := m.settled()
		if !settled {
			m.agentSteps(t)
			continue
		}
		if len(d.Choices) > 0 {
			taken := rapid.SampledFrom(d.Choices).Draw(t, "choice")
			m.object.resolve = taken.Answer(d.Token)
			m.object.revision++
			continue
		}
		if d.Action == decision.Wait {
			m.bridgeAnswers(t)
			continue
		}
		m.check(t, d)
		return
	}
	t.Fatalf("it never ends: %+v", m.object)
}

func (m *model) check(t *rapid.T, d decision.Decision) {
	var says version
	if m.object != nil {
		says = m.object.says
	}
	if !same(says, m.head()) || d.Action != decision.Nothing {
		t.Fatalf("no agreement: object %v, file %v, %+v", says, m.head(), d)
	}
	if m.decided[string(choice.Delete)] || m.decided[string(choice.File)] || m.decided[string(choice.Cluster)] {
		return
	}
	for _, e := range m.edits {
		if !m.counts(e) {
			t.Fatalf("the edit %+v is gone: %v", e, m.head())
		}
	}
}

// counts says whether an edit holds, or is on a branch of its own, or is in
// main's history below what a person made of it who need not have known of it.
func (m *model) counts(e edit) bool {
	if m.head()[e.field] == e.value {
		return true
	}
	for _, v := range m.kept[e.kept:] {
		if v[e.field] == e.value {
			return true
		}
	}
	committed := slices.ContainsFunc(m.main, func(c commit) bool { return c.file != nil && c.file[e.field] == e.value })
	for i := e.known; i < len(m.main) && committed; i++ {
		if m.byPerson(i, e.field) && m.main[i].file[e.field] == m.head()[e.field] {
			return true
		}
	}
	return false
}
