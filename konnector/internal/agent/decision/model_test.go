package decision_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/merge"
)

// The model is one claim: its object, its file with its history, the branches
// that keep what lost, users, people at Git, a control plane, and an agent that
// does what is decided. The agent may be stopped between any two of its effects,
// others act between any two, what it knows of main may be old, and it may not
// learn that an effect took place.
type model struct {
	object *object
	uids   int
	main   []commit
	kept   []version
	// known is how many commits the agent has seen, answered how many the control
	// plane has.
	known, answered int
	// next is what the agent does next; nil when it begins again.
	next func()
	// many says that removals are too many until a person lets them pass.
	many bool

	// What is checked: edits in the cluster that nobody has superseded yet, the
	// values that each field ever had there, what was asked to go, and whether a
	// person has decided that something is to go.
	edits   []edit
	seen    map[string]map[string]bool
	asked   map[int]bool
	removed bool
	decided map[string]bool
	number  int
}

// version is what a claim says: fields by name.
type version map[string]string

type object struct {
	uid, generation, revision int
	says                      version
	finalizer, terminating    bool
	base                      *base
	resolve                   string
}

type base struct {
	uid, generation int
	// commit is how long main was, and behind how much less of it has come to the
	// object, where a merge could not be written to it.
	commit  int
	behind  int
	says    version
	removed bool
	lost    *decision.Lost
	// unbound says that it does not count before the status was written.
	unbound bool
}

// commit has the file as it is then; nil for none.
type commit struct {
	file version
	// uid is that of the object it came from, by the agent; 0 for a person's.
	uid, generation int
	// says is the object's version, which the file is unless others' changes were
	// merged into it.
	says version
}

type edit struct {
	uid          int
	field, value string
	// kept is how many versions were kept before it, known how many commits the
	// object was in step with.
	kept, known int
}

func newModel() *model {
	return &model{seen: map[string]map[string]bool{}, asked: map[int]bool{}, decided: map[string]bool{}}
}

func (m *model) head() version { return m.at(len(m.main)) }

func (m *model) at(n int) version {
	if n == 0 {
		return nil
	}
	return m.main[n-1].file
}

func (v version) claim() *contract.Claim {
	if v == nil {
		return nil
	}
	c := &contract.Claim{APIVersion: "x.org/v1", Kind: "X", Namespace: "n", Name: "x", Spec: map[string]any{}}
	for f, value := range v {
		c.Spec[f] = value
	}
	return c
}

func said(c *contract.Claim) version {
	v := version{}
	for f, value := range c.Spec {
		v[f] = value.(string)
	}
	return v
}

func (v version) blob() string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(map[string]string(v))
}

func same(a, b version) bool { return (a == nil) == (b == nil) && maps.Equal(a, b) }

// see notes what a field says in the cluster.
func (m *model) see() {
	if m.object == nil {
		return
	}
	for _, f := range fields {
		if m.seen[f] == nil {
			m.seen[f] = map[string]bool{}
		}
		m.seen[f][m.object.says[f]] = true
	}
}

func (m *model) touch(content bool) {
	m.object.revision++
	if content {
		m.object.generation++
	}
	m.see()
}

var fields = []string{"a", "b"}

// value is mostly a new one, sometimes one from before, sometimes none.
func (m *model) value(t *rapid.T, before []string) string {
	switch n := rapid.IntRange(0, 9).Draw(t, "value"); {
	case n == 0:
		return ""
	case n < 6 && len(before) > 0:
		return rapid.SampledFrom(before).Draw(t, "before")
	}
	m.number++
	return fmt.Sprint("v", m.number)
}

func set(v version, field, value string) version {
	out := maps.Clone(v)
	if out == nil {
		out = version{}
	}
	if out[field] = value; value == "" {
		delete(out, field)
	}
	return out
}

// What users and people do.

func (m *model) userCreates(t *rapid.T) {
	if m.object != nil {
		t.Skip()
	}
	m.uids++
	m.object = &object{uid: m.uids, generation: 1, revision: 1, finalizer: true, says: version{}}
	for _, f := range fields {
		m.userSets(t, f)
	}
	m.see()
}

func (m *model) userEdits(t *rapid.T) {
	if m.object == nil || m.object.terminating {
		t.Skip()
	}
	m.userSets(t, rapid.SampledFrom(fields).Draw(t, "field"))
	m.touch(true)
}

func (m *model) userSets(t *rapid.T, field string) {
	before := slices.Sorted(maps.Keys(m.seen[field]))
	value := m.value(t, slices.DeleteFunc(before, func(s string) bool { return s == "" }))
	m.edits = slices.DeleteFunc(m.edits, func(e edit) bool { return e.field == field })
	if m.object.says[field] != value {
		e := edit{uid: m.object.uid, field: field, value: value, kept: len(m.kept)}
		if b := m.object.ownBase(); b != nil {
			e.known = b.commit - b.behind
		}
		m.edits = append(m.edits, e)
	}
	m.object.says = set(m.object.says, field, value)
}

// byPerson says whether a person changed a field in a commit.
func (m *model) byPerson(i int, field string) bool {
	return m.main[i].uid == 0 && m.at(i)[field] != m.main[i].file[field]
}

func (m *model) userDeletes(t *rapid.T) {
	if m.object == nil || m.object.terminating {
		t.Skip()
	}
	m.asked[m.object.uid] = true
	m.terminate()
}

func (m *model) terminate() {
	m.object.terminating = true
	m.touch(false)
	m.leave()
}

// leave takes an object away that nothing holds any more.
func (m *model) leave() {
	if o := m.object; o.terminating && !o.finalizer {
		if m.asked[o.uid] {
			m.edits = slices.DeleteFunc(m.edits, func(e edit) bool { return e.uid == o.uid })
		}
		m.object = nil
	}
}

func (m *model) personPushes(t *rapid.T) {
	field := rapid.SampledFrom(fields).Draw(t, "field")
	var before []string
	for _, c := range m.main {
		if v := c.file[field]; v != "" {
			before = append(before, v)
		}
	}
	file := set(m.head(), field, m.value(t, before))
	if !same(file, m.head()) {
		m.main = append(m.main, commit{file: file})
	}
}

func (m *model) personRemoves(t *rapid.T) {
	if m.head() == nil {
		t.Skip()
	}
	m.removed = true
	m.main = append(m.main, commit{})
}

func (m *model) personReverts(t *rapid.T) {
	if m.head() != nil || len(m.main) == 0 {
		t.Skip()
	}
	m.main = append(m.main, commit{file: m.at(len(m.main) - 1)})
}

func (m *model) bridgeAnswers(*rapid.T) { m.answered = len(m.main) }

// What the agent does.

func (m *model) agentFetches(*rapid.T) { m.known = len(m.main) }

func (m *model) agentRestarts(*rapid.T) { m.next = nil }

func (m *model) agentSteps(t *rapid.T) {
	if m.next == nil {
		m.next = m.look(t)
		return
	}
	next := m.next
	m.next = nil
	next()
	if rapid.IntRange(0, 4).Draw(t, "acknowledged") == 0 {
		// What it did took place, and it does not learn that.
		m.next = nil
	}
}

func (o *object) ownBase() *base {
	if o == nil || o.base == nil || o.base.uid != o.uid || o.base.unbound {
		return nil
	}
	return o.base
}

// facts are what the agent knows.
func (m *model) facts(o *object, known int) decision.Facts {
	file := m.at(known)
	f := decision.Facts{Key: contract.Key{Binding: "xs.x.org", Namespace: "n", Name: "x"}, File: file.claim(), FileBlob: file.blob(), Flips: decision.No}
	if o == nil {
		return f
	}
	f.UID, f.Live, f.Finalizer, f.Terminating, f.Resolve = fmt.Sprint(o.uid), o.says.claim(), o.finalizer, o.terminating, o.resolve
	if b := o.ownBase(); b != nil {
		f.Base, f.BaseRemoved, f.BaseCurrent, f.Lost = b.says.claim(), b.removed, true, b.lost
		f.Touched = b.generation != o.generation
	}
	return f
}

func (m *model) decide(o *object, known int) (decision.Decision, decision.Facts) {
	f := m.facts(o, known)
	for {
		d := decision.For(f)
		switch {
		case d.Action == decision.Rebase:
			f.Base, f.OwnWork = f.File, decision.Unasked
			continue
		case d.Action != decision.Ask:
			return d, f
		}
		switch d.Question {
		case decision.AskOwnWork:
			m.askOwnWork(&f, o, known)
		case decision.AskContinues:
			f.Continues = answer(o.ownBase() != nil && o.base.commit > 0)
		case decision.AskGone:
			f.Gone = answer(m.answered == known)
		case decision.AskMerge:
			merged, conflicts := merge.Claims(nil, f.Base, f.Live, f.File)
			f.Merged, f.Merges = merged, answer(len(conflicts) == 0)
		case decision.AskRemoval:
			f.Removal = &guard.Verdict{}
			if m.many {
				f.Removal = &guard.Verdict{Reason: contract.ManyRemovals, Message: "It is one of too many."}
			}
		default:
			panic(d.Question)
		}
	}
}

func answer(yes bool) decision.Answer {
	if yes {
		return decision.Yes
	}
	return decision.No
}

func (m *model) askOwnWork(f *decision.Facts, o *object, known int) {
	since := 0
	if b := o.ownBase(); b != nil {
		since = b.commit
	}
	pushable := o.generation
	if !same(m.at(known), o.says) {
		pushable--
	}
	f.OwnWork = decision.No
	for i := known; i > since; i-- {
		c := m.main[i-1]
		if c.uid == 0 {
			continue
		}
		if c.uid == o.uid && c.generation <= pushable && c.file != nil && same(c.file, c.says) && same(c.file, m.at(known)) {
			f.OwnWork = decision.Yes
		} else if since > 0 && c.uid == o.uid && c.generation <= o.generation {
			if f.Interrupted = decision.EditedSince; same(c.says, o.says) {
				f.Interrupted = decision.AllPushed
			}
		}
		return
	}
}

// look decides, and returns the first effect.
func (m *model) look(t *rapid.T) func() {
	known, o := m.known, m.object
	if o != nil {
		c := *o
		o = &c
	}
	d, f := m.decide(o, known)
	if d.Chosen != "" {
		m.decided[string(d.Chosen)] = true
	}
	act := actor{m, t, o, known, d, f}
	return map[decision.Action]func(){
		decision.Record: act.record, decision.Commit: act.commit, decision.Write: act.write, decision.Merge: act.merge,
		decision.GiveWay: act.giveWay, decision.TakeBack: act.takeBack, decision.Create: act.create, decision.Delete: act.delete,
		decision.RemoveFile: act.removeFile, decision.RecordRemoved: act.recordRemoved, decision.Release: act.release,
	}[d.Action]
}

// settled says whether the agent has nothing to do.
func (m *model) settled() (decision.Decision, bool) {
	d, _ := m.decide(m.object, len(m.main))
	return d, d.Action == decision.Nothing || d.Action == decision.Wait || d.Action == decision.Hold
}
