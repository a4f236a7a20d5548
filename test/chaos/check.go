package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/scan"
)

// A Violation is something that must not be. Claim is "" when it is about all.
type Violation struct{ Claim, What string }

func (v Violation) String() string {
	if v.Claim == "" {
		return v.What
	}
	return v.Claim + ": " + v.What
}

// late is how long a write may be on its way after its sender has given up.
const late = 15 * time.Second

// Counts are what was looked at.
type Counts map[string]int

// checker compares the three places with each other and with the journal.
type checker struct {
	apis    []*api
	journal *Journal
	lives   *lives
	values  *scan.Scan
	restore *etcdRestore
	counts  Counts
	found   []Violation
}

func (c *checker) fail(claim, format string, args ...any) {
	c.found = append(c.found, Violation{claim, fmt.Sprintf(format, args...)})
}

func (c *checker) ok(what string) { c.counts[what]++ }

// agree checks that the three places say the same, and that it is what was
// asked for.
func (c *checker) agree(st *state) {
	c.counts, c.found = Counts{}, nil
	entries, _ := c.restore.known(c.journal.all())
	stories := tell(entries)
	for _, key := range keys(st.app, st.control, st.main) {
		if stories[key] == nil {
			c.fail(key, "nobody has made it")
		}
	}
	for key, story := range stories {
		if story.there == nil {
			continue
		}
		if !c.exists(st, key, story) {
			continue
		}
		c.same(st, key)
		c.answered(st, key)
		c.fields(st, key, story)
	}
	for _, branch := range st.changes {
		c.fail(changeOf(branch), "there still is %s, though nothing is to be reviewed any more", branch)
	}
	c.secrets(st)
	c.inputs(st)
	if st.observed != st.head {
		c.fail("", "status answers commit %.10s, main is at %.10s", st.observed, st.head)
	}
	slices.SortFunc(c.found, func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
}

// exists checks that a claim is everywhere or nowhere, and that nothing was
// replaced that nobody replaced. It reports whether there is something to
// compare.
func (c *checker) exists(st *state, key string, s *story) bool {
	for side, there := range map[string]bool{"in the app cluster": st.app[key] != nil, "on main": st.main[key] != nil, "on the control plane": st.control[key] != nil} {
		switch {
		case there && !*s.there:
			c.fail(key, "it is still %s, though it was deleted", side)
		case !there && *s.there:
			c.fail(key, "it is not %s, though nobody deleted it", side)
		}
	}
	for _, side := range []string{"app", "control"} {
		times := s.lives[side]
		if side == "app" && s.isByGit && c.restore.happened() {
			times++ // The konnector has made it again where the cluster had lost it.
		}
		if seen := c.lives.of(side, key); len(seen) > times {
			c.fail(key, "%d objects were seen in cluster %s, but it was created %d times only: %v", len(seen), side, times, seen)
		} else {
			c.ok("objects that were never replaced")
		}
	}
	for side, m := range map[string]map[string]*unstructured.Unstructured{"the app cluster": st.app, "the control plane": st.control} {
		if u := m[key]; u != nil && u.GetDeletionTimestamp() != nil {
			c.fail(key, "it is terminating in %s with finalizers %v", side, u.GetFinalizers())
			return false
		}
	}
	if u := st.app[key]; u != nil && *s.there && s.uid != "" && string(u.GetUID()) != s.uid {
		c.fail(key, "it is another object in the app cluster than the one that was created: %s instead of %s", u.GetUID(), s.uid)
	}
	if !*s.there && st.app[key] == nil && st.main[key] == nil && st.control[key] == nil {
		c.ok("deleted claims that are gone everywhere")
	}
	return *s.there && st.app[key] != nil && st.main[key] != nil && st.control[key] != nil
}

// same checks that a claim says the same in all places.
func (c *checker) same(st *state, key string) {
	a := c.api(key)
	app, main, control := spec(a, st.app[key]), spec(a, st.main[key]), spec(a, st.control[key])
	if app != main || main != control {
		c.fail(key, "the three differ:\n    app     %s\n    main    %s\n    control %s", app, main, control)
		return
	}
	c.ok("claims that are equal in all three places")
	here, there := status(st.app[key]), status(st.control[key])
	if here != there {
		c.fail(key, "its status differs:\n    app     %s\n    control %s", here, there)
		return
	}
	c.ok("claims whose status is equal in both clusters")
}

func status(u *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	delete(status, "gitbind")
	if len(status) == 0 {
		return "{}"
	}
	data, err := json.Marshal(status)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// answered checks that all is said to be in order.
func (c *checker) answered(st *state, key string) {
	u := st.app[key]
	for kind, want := range map[string]string{"Committed": "True", "Applied": "True", "Held": "False"} {
		state := condition(u, kind)
		switch {
		case state == nil || state["status"] != want:
			c.fail(key, "condition %s is %v, want %s", kind, state, want)
		case fmt.Sprint(state["observedGeneration"]) != fmt.Sprint(u.GetGeneration()):
			c.fail(key, "condition %s is about generation %v, the object is at %d", kind, state["observedGeneration"], u.GetGeneration())
		default:
			c.ok("conditions that are as they should be")
		}
	}
	if proposal, ok := u.GetAnnotations()[v1alpha1.ProposalAnnotation]; ok {
		c.fail(key, "something of it is still proposed: %s", proposal)
	}
	if result := st.answers[key]["result"]; result != "Applied" {
		c.fail(key, "branch status says %v: %v", result, st.answers[key]["message"])
	}
}

// condition is a claim's of a type, nil for none.
func condition(u *unstructured.Unstructured, of string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
	for _, each := range conditions {
		if m, ok := each.(map[string]any); ok && m["type"] == of {
			return m
		}
	}
	return nil
}

// fields checks that each field has the last value that somebody gave it.
func (c *checker) fields(st *state, key string, s *story) {
	conflict := slices.ContainsFunc(st.conflicts, func(ref string) bool { return strings.Contains(ref, conflictPart(key)) })
	for name, writes := range s.fields {
		value := field(st.main[key], name)
		allowed := map[string]bool{}
		for _, side := range []Side{Cluster, Git} {
			for _, v := range last(writes, side) {
				allowed[v] = true
			}
		}
		if !slices.ContainsFunc(writes, func(e Entry) bool { return e.Outcome == Accepted }) {
			allowed[""] = true
		}
		switch {
		case allowed[value]:
			c.ok("fields that have the last value given")
		case conflict:
			// The one that lost is to be in history: see below.
			c.ok("fields that lost a conflict")
		default:
			c.fail(key, "an edit is lost: %s is %q, the last that was given it is one of %q", name, value, slices.Sorted(maps.Keys(allowed)))
		}
	}
}

func conflictPart(key string) string {
	binding, rest, _ := strings.Cut(key, " ")
	return "conflicts/" + binding + "/" + rest + "/"
}

// last are the values that a field may have after the writes of one side.
func last(writes []Entry, side Side) []string {
	var out []string
	var accepted *Entry
	for i := len(writes) - 1; i >= 0; i-- {
		e := writes[i]
		switch {
		case e.Side != side || e.Outcome == Refused:
		case accepted != nil && (e.Outcome != Unknown || e.Sent.Before(accepted.Sent.Add(-late))):
		case e.Outcome == Accepted:
			accepted = &e
			out = append(out, e.Value)
		default:
			out = append(out, e.Value)
		}
	}
	return out
}

// history checks that each accepted value is in the history of main or of a
// conflicts branch, or was overwritten by the same side before it was committed.
func (c *checker) history(ctx context.Context, s *sides) error {
	log, err := s.git(ctx, "log", "--format=commit %h", "-p", "--unified=0", "main", "--glob=refs/heads/conflicts/*")
	if err != nil {
		return err
	}
	// Values are unique: each can be looked for without its path.
	lines := map[string]bool{}
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			lines[strings.TrimSpace(line[1:])] = true
		}
	}
	entries, lostEdits := c.restore.known(c.journal.all())
	c.counts["accepted edits that were lost with the app cluster, as main had not got them"] = lostEdits
	for i, e := range entries {
		if e.Op != Edit || e.Outcome != Accepted || e.Value == "" {
			continue
		}
		name := e.Field[strings.LastIndex(e.Field, ".")+1:]
		switch {
		case lines[name+": "+e.Value], lines[name+`: "`+e.Value+`"`]:
			c.ok("accepted edits that are in history")
		case overwritten(entries, i):
			c.ok("accepted edits that were overwritten or deleted by people before a commit")
		default:
			c.fail(e.Claim, "an accepted edit is not in history: %s=%q by %s", e.Field, e.Value, e.Side)
		}
	}
	return nil
}

// overwritten reports whether the same side wrote the field of an entry again, or
// somebody deleted the claim.
func overwritten(entries []Entry, i int) bool {
	e := entries[i]
	return slices.ContainsFunc(entries, func(o Entry) bool {
		if o.Claim != e.Claim || o.Life != e.Life || !o.Sent.After(e.Sent) || o.Outcome == Refused {
			return false
		}
		return o.Op == Delete || o.Op == Edit && o.Field == e.Field && o.Side == e.Side
	})
}

func (c *checker) api(key string) *api {
	binding, _, _ := strings.Cut(key, " ")
	for _, a := range c.apis {
		if a.binding() == binding {
			return a
		}
	}
	panic("no API " + binding)
}

// story is what people did to a claim.
type story struct {
	// there is what the claim should be now; nil if nobody can know.
	there *bool
	// lives is how many objects it may have had in each cluster.
	lives map[string]int
	uid   string
	// isByGit says that people make it in Git.
	isByGit bool
	// fields are the writes of its last life, in order, and all those of each one.
	fields map[string][]Entry
	all    map[int]map[string][]Entry
	// uids are the objects that people know of.
	uids map[string]bool
}

// live begins a life, or goes on with one.
func (s *story) live(life int, again bool) {
	if again || s.all[life] == nil {
		s.all[life] = map[string][]Entry{}
	}
	s.fields = s.all[life]
}

func tell(entries []Entry) map[string]*story {
	stories := map[string]*story{}
	for _, e := range entries {
		if e.Side == Control || e.Side == Review {
			continue
		}
		s := stories[e.Claim]
		if s == nil {
			s = &story{there: new(false), lives: map[string]int{}, all: map[int]map[string][]Entry{}, uids: map[string]bool{}}
			s.live(e.Life, false)
			stories[e.Claim] = s
		}
		switch {
		case e.Outcome == Refused:
		case e.Op == Create || e.Op == Delete:
			s.there = new(e.Op == Create)
			if e.Outcome == Unknown {
				s.there = nil
			}
			if e.Op == Create {
				s.lives["app"]++
				s.lives["control"]++
				s.uid, s.isByGit = e.Note, e.Side == Git
				s.live(e.Life, true)
			}
		case e.Op == Edit:
			s.fields[e.Field] = append(s.fields[e.Field], e)
		case e.Op == Release:
			s.lives["app"]++
			s.uid = e.Note
		case e.Op == Look:
			s.there, s.uid = new(e.Note != ""), e.Note
			s.live(e.Life, false)
			if e.Note != "" && !s.uids[e.Note] {
				s.lives["app"]++ // The konnector made another one of its file.
			}
		}
		if s.uid != "" {
			s.uids[s.uid] = true
		}
	}
	for _, s := range stories {
		for _, writes := range s.fields {
			slices.SortStableFunc(writes, func(a, b Entry) int { return a.Sent.Compare(b.Sent) })
		}
	}
	return stories
}
