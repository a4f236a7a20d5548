package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// valueOf is a field of an object of a claim.
type valueOf struct {
	claim, field string
	uid          types.UID
	// era counts how often the cluster was restored: its objects say again then what they
	// said before.
	era int
}

// look looks at the namespace in both clusters until ctx ends.
func (r *reviewer) look(ctx context.Context, s *sides) {
	for ; ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, answerTimeout)
		app, control := map[string]*unstructured.Unstructured{}, map[string]*unstructured.Unstructured{}
		if err := s.list(once, s.app, r.api, app); err == nil {
			r.judge(app)
		}
		if err := s.list(once, s.control, r.api, control); err == nil {
			r.keep(control)
		}
		cancel()
	}
}

func isReviewed(key string) bool { return strings.Contains(key, " "+reviewedNamespace+"/") }

// judge finds the objects that are deleted or held though nobody has asked for that.
func (r *reviewer) judge(app map[string]*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, u := range app {
		wrong := ""
		held := condition(u, "Held")
		switch {
		case !isReviewed(key):
			continue
		case u.GetDeletionTimestamp() != nil && !r.isAsked[u.GetUID()]:
			wrong = "its object is deleted though nobody has asked for that"
		case held["status"] == "True" && !r.mayBeHeld(held["reason"]) && !r.restore.pending(key):
			wrong = fmt.Sprintf("it is held though nobody has asked for that: %v: %v", held["reason"], held["message"])
		}
		if id := fmt.Sprint(u.GetUID(), wrong); wrong != "" && !r.isTold[id] {
			r.isTold[id] = true
			r.journal.giveUp(key, "%s", wrong)
			r.journal.note("%s: %s", key, wrong)
		}
	}
}

// mayBeHeld reports whether something that people do, or a fault, has a claim held.
func (r *reviewer) mayBeHeld(reason any) bool {
	switch reason {
	case "Rejected", "FileRefused": // The webhook refuses.
		return true
	case "HistoryReplaced":
		return r.host.restores.Load() > 0
	}
	return false
}

// keep remembers what the control plane has.
func (r *reviewer) keep(control map[string]*unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, u := range control {
		if said := spec(r.api, u); isReviewed(key) && !slices.Contains(r.onControl[key], said) {
			r.onControl[key] = append(r.onControl[key], said)
		}
	}
}

// watch keeps each version of the objects until ctx ends: one that is set back may be so for
// some milliseconds only.
func (r *reviewer) watch(ctx context.Context, s *sides) {
	for ; ctx.Err() == nil; sleep(ctx, 100*time.Millisecond) {
		w, err := s.app.Resource(r.api.resource).Namespace(reviewedNamespace).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetUID() != "" {
				r.note(u)
			}
		}
	}
}

func (r *reviewer) note(u *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.api.cluster {
		of := valueOf{r.api.binding() + " " + u.GetNamespace() + "/" + u.GetName(), name, u.GetUID(), r.era}
		if said, value := r.values[of], field(u, name); len(said) == 0 || said[len(said)-1] != value {
			r.values[of] = append(said, value)
		}
	}
}

// setBack checks that objects got no value more often than people gave it to them.
func (c *checker) setBack(values map[valueOf][]string) {
	given := map[string]int{}
	for _, e := range c.journal.all() {
		if e.Op == Edit && e.Side == Cluster && e.Outcome != Refused {
			given[e.Claim+" "+e.Field+"="+e.Value]++
		}
	}
	for of, said := range values {
		got := map[string]int{}
		for _, value := range said[1:] {
			got[value]++
		}
		for value, times := range got {
			if times > given[of.claim+" "+of.field+"="+value] {
				c.fail(of.claim, "its object got %s=%q though nobody has asked for that: it said %q", of.field, value, said)
			} else {
				c.ok("values of reviewed objects that people gave them")
			}
		}
	}
}

// seenOnControl are the specs that were seen on the control plane, by claim.
func (r *reviewer) seenOnControl() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.onControl
}

// approved checks that main and the control plane have had nothing of the reviewed namespace
// that was not approved.
func (c *checker) approved(ctx context.Context, s *sides, onControl map[string][]string) error {
	heads := map[string]bool{}
	for _, e := range c.journal.all() {
		if e.Op == Approve && e.Outcome != Refused {
			heads[e.Value] = true
		}
	}
	log, err := s.git(ctx, "log", "--first-parent", "--diff-merges=first-parent", "--no-renames", "--name-only", "--format=commit %H %P", "main", "--", ":(glob)bindings/*/*/"+reviewedNamespace+"/**")
	if err != nil {
		return err
	}
	versions := map[string][]string{}
	var commit []string
	for line := range strings.Lines(string(log)) {
		path := strings.TrimSpace(line)
		if f := strings.Fields(path); len(f) > 1 {
			commit = f[1:]
			continue
		}
		key, ok := keyOf(path, "claims")
		if !ok {
			continue
		}
		if len(commit) != 3 || !heads[commit[2]] {
			c.fail(key, "commit %s changed its file on main, and nobody had approved that", commit[0])
			continue
		}
		other, err := s.git(ctx, "diff", "--name-only", commit[0], commit[2], "--", path)
		if err != nil {
			return err
		}
		if len(other) > 0 {
			c.fail(key, "merge %s has another file than %s, which was approved", commit[0], commit[2])
			continue
		}
		c.ok("changes on main that were approved")
		file, err := s.at(ctx, commit[0], path)
		if err != nil {
			return err
		}
		if file != nil {
			versions[key] = append(versions[key], spec(c.api(key), file))
		}
	}
	for key, seen := range onControl {
		for _, said := range seen {
			if !slices.Contains(versions[key], said) {
				c.fail(key, "the control plane had what nobody had approved: %s", said)
			} else {
				c.ok("versions on the control plane that were approved")
			}
		}
	}
	return nil
}
