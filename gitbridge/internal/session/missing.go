package session

import (
	"context"
	"fmt"

	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/store"
)

// judged is what is thought of the claims that a head of main lacks.
type judged struct {
	removals map[string]*Removal
	// all says that these are in the place of all that was known.
	all    bool
	passed []breaker.Removal
}

// missing judges the claims that a head of main lacks and the one before had;
// where none is known before, those that status shows to have been there.
func (s *Session) missing(ctx context.Context, old, new *store.Snapshot, commits []store.Commit, begin bool) (judged, error) {
	j := judged{removals: map[string]*Removal{}, all: old == nil || begin}
	var removed, added []string
	if j.all {
		var err error
		if removed, err = s.unanswered(ctx, new, commits, begin, j.removals); err != nil {
			return judged{}, err
		}
		if len(removed) > 0 {
			added = s.unknown(new)
		}
	} else {
		for c := range store.Diff(old, new, contract.Root) {
			switch _, err := contract.ParsePath(c.Path); {
			case err != nil:
			case c.New == nil:
				removed = append(removed, c.Path)
			case c.Old == nil:
				added = append(added, c.Path)
			}
		}
	}
	s.judge(&j, new, removed, added, commits)
	return j, nil
}

// judge decides which removals may pass.
func (s *Session) judge(j *judged, main *store.Snapshot, removed, added []string, commits []store.Commit) {
	head := string(main.Head())
	limits, known := s.passes()
	var counted []string
	for _, path := range removed {
		j.removals[path] = &Removal{Removal: decision.Removal{Commit: head}, With: added}
		// What passed before a restart need not pass again.
		if j.all && isPassed(known, path) {
			continue
		}
		if present, err := s.Present(path); err != nil || matters(present) {
			counted = append(counted, path)
		}
	}
	list, approved := pushes(counted, commits, s.Cluster.ID, s.options.Now())
	for path, yes := range approved {
		if r := j.removals[path]; r != nil {
			// The konnector removes a file because somebody deleted the object:
			// no file has moved, whatever else came with it.
			r.Approved, r.With = yes, nil
		}
	}
	var held map[string]int
	j.passed, held = judgePushes(limits, known, list, claimsIn(main))
	for path, together := range held {
		j.removals[path].Removal = *decision.Many(head, together)
	}
}

func isPassed(passed []breaker.Removal, path string) bool {
	for _, r := range passed {
		if r.Path == path {
			return true
		}
	}
	return false
}

// claimsIn counts the claims of bindings, each once.
func claimsIn(main *store.Snapshot) func(binding string) int {
	counts := map[string]int{}
	return func(binding string) int {
		n, ok := counts[binding]
		if !ok {
			for range main.List(contract.ClaimsPath(binding)) {
				n++
			}
			counts[binding] = n
		}
		return n
	}
}

// unknown are the claims of main that status does not answer.
func (s *Session) unknown(main *store.Snapshot) []string {
	status := s.Status.Snapshot()
	var out []string
	for e := range main.List(contract.Root) {
		if _, err := contract.ParsePath(e.Path); err != nil {
			continue
		}
		if _, ok := status.Entry(e.Path); !ok {
			out = append(out, e.Path)
		}
	}
	return out
}

// unanswered looks for the claims that status answers, or commits name, and main
// lacks. Those whose removal is not answered yet are returned; what is held
// stays so.
func (s *Session) unanswered(ctx context.Context, main *store.Snapshot, commits []store.Commit, begin bool, held map[string]*Removal) ([]string, error) {
	followed := s.lineage(main.Head(), commits)
	seen := map[string]bool{}
	var removed []string
	for e := range s.Status.Snapshot().List(contract.Root) {
		if _, err := contract.ParsePath(e.Path); err != nil {
			continue
		}
		seen[e.Path] = true
		if _, ok := main.Entry(e.Path); ok {
			continue
		}
		present, err := s.Present(e.Path)
		switch {
		case err != nil:
			// It is not known what it says: nothing is deleted for it.
			held[e.Path] = &Removal{Removal: *decision.Unproven(string(main.Head()))}
		case present.Result == contract.Gone:
			s.Status.Bury(e.Path, present.Since)
		case present.Result == contract.Held && present.Answers.Blob == "":
			held[e.Path] = wasHeld(present)
		case present.Answers.Blob != "":
			switch yes, err := followed(ctx, store.Hash(present.Answers.Commit)); {
			case err != nil:
				return nil, err
			case yes:
				removed = append(removed, e.Path)
			default:
				held[e.Path] = &Removal{Removal: *decision.Unproven(string(main.Head()))}
			}
		}
	}
	if begin {
		return removed, nil
	}
	_, konnector := contract.Identity(contract.Konnector, s.Cluster.ID)
	for _, c := range commits {
		if c.Committer.Email != konnector {
			continue
		}
		for _, path := range removedBy(c) {
			if _, ok := main.Entry(path); !ok && !seen[path] {
				seen[path] = true
				removed = append(removed, path)
			}
		}
	}
	return removed, nil
}

// wasHeld is a removal as its answer tells it.
func wasHeld(present *contract.Status) *Removal {
	r := decision.Removal{Commit: present.Answers.Commit, Reason: present.Reason, Message: present.Message}
	if r.Reason == "" {
		// Something else was in the way, and what is known of the removal is lost.
		r = *decision.Unproven(r.Commit)
	}
	return &Removal{Removal: r}
}

// lineage says of commits whether they are head or before it.
func (s *Session) lineage(head store.Hash, commits []store.Commit) func(context.Context, store.Hash) (bool, error) {
	// Beyond so many questions all of history is the better answer.
	const many = 8
	known := map[store.Hash]bool{head: true}
	for _, c := range commits {
		known[c.Hash] = true
	}
	asked := 0
	return func(ctx context.Context, h store.Hash) (bool, error) {
		if yes, ok := known[h]; ok || asked > many {
			return yes, nil
		}
		if asked++; asked > many {
			all, _, err := s.options.Main.Log(ctx, "", head)
			if err != nil {
				return false, fmt.Errorf("read main's history: %w", err)
			}
			for _, c := range all {
				known[c.Hash] = true
			}
			return known[h], nil
		}
		_, yes, err := s.options.Main.Log(ctx, h, head)
		if err != nil {
			return false, fmt.Errorf("compare main with %s: %w", h.Short(), err)
		}
		known[h] = yes
		return yes, nil
	}
}
