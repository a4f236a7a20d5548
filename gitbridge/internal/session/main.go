package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/request"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

// Hold is why main is not followed, and what can be done.
type Hold struct {
	Reason  string
	Message string
}

// Approve takes a commit of main for a new begin: nothing that it lacks is
// deleted, all that it has is applied.
func (s *Session) Approve(ctx context.Context, commit store.Hash) error {
	s.following.Lock()
	defer s.following.Unlock()
	if s.approved == commit {
		return nil
	}
	s.approved = commit
	if commit == "" || s.seen == nil || s.seen.Head() != commit || !s.View().Held {
		return nil
	}
	return s.consider(ctx, s.seen)
}

// IsApproved reports whether an approval of main was acted on, or is of no use:
// main is followed, and has that commit.
func (s *Session) IsApproved(ctx context.Context, commit store.Hash) (bool, error) {
	view := s.View()
	if view.Main == nil || view.Held {
		return false, nil
	}
	_, in, err := s.options.Main.Log(ctx, commit, view.Main.Head())
	return in, err
}

func (s *Session) onMain(ctx context.Context, new *store.Snapshot) error {
	s.following.Lock()
	defer s.following.Unlock()
	s.seen = new
	return s.consider(ctx, new)
}

// consider decides whether a head of main counts, and if so has what it changed
// looked at.
func (s *Session) consider(ctx context.Context, new *store.Snapshot) error {
	view := s.View()
	accepted := view.Main.Head()
	if accepted == "" {
		accepted = s.Memory().Accepted
	}
	commits, descends, err := s.options.Main.Log(ctx, accepted, new.Head())
	if err != nil {
		return fmt.Errorf("compare main with %s: %w", accepted.Short(), err)
	}
	hold := judge(new, accepted, descends, s.lost)
	begin := accepted == ""
	if hold != nil && s.approved != "" && s.approved == new.Head() {
		hold, begin = nil, true
	}
	if hold != nil {
		s.hold(hold)
		return nil
	}
	if begin {
		if err := s.begin(ctx, new); err != nil {
			return err
		}
	}
	missing, err := s.missing(ctx, view.Main, new, commits, begin)
	if err != nil {
		return err
	}
	s.mu.Lock()
	switch {
	case begin:
		s.base = new.Head()
	case s.base == "":
		s.base = accepted
	}
	s.mu.Unlock()
	s.take(view.Main, new, commits, missing)
	if begin && view.Main != nil {
		// Its branch status may be another one, too.
		s.options.Began()
	}
	return nil
}

// judge says why a head of main does not count, nil if it does.
func judge(new *store.Snapshot, accepted store.Hash, descends, statusLost bool) *Hold {
	const wayOn = "Nothing is applied or deleted meanwhile. To take main as it is: kubectl gitbind approve --main %s"
	head := new.Head()
	switch {
	case head == "":
		return &Hold{"MainMissing", "the repository has no branch main. Nothing is applied or deleted until it has"}
	case accepted != "" && !descends:
		return &Hold{"MainRewritten", fmt.Sprintf("main is at %s, which does not descend from %s, the last commit that was accepted. "+wayOn, head.Short(), accepted, head)}
	case accepted != "" && new.Files() == 0:
		return &Hold{"MainEmptied", fmt.Sprintf("main was emptied by commit %s. "+wayOn, head.Short(), head)}
	case statusLost:
		return &Hold{"StatusLost", fmt.Sprintf("the branch status is not the one that was written here, so it is not known what was applied before. "+wayOn, head)}
	}
	return nil
}

func (s *Session) hold(h *Hold) {
	s.mu.Lock()
	was := s.view.Held
	s.view.Held = true
	s.mu.Unlock()
	s.health.hold(h)
	if !was && s.View().Main == nil {
		// The state of what was applied before is still answered.
		s.enqueueAll(nil)
	}
}

// begin keeps what was answered before and main lacks from being deleted, and
// writes down from where main is followed.
func (s *Session) begin(ctx context.Context, main *store.Snapshot) error {
	// A repository that was replaced has another branch status, too. What was
	// answered before is held all the same.
	before := s.Status.Snapshot()
	if _, err := s.options.Status.Fetch(ctx); err != nil {
		return fmt.Errorf("look at status again: %w", err)
	}
	s.lookAtStatus()
	if s.lost {
		s.lost = false
		s.open(newEpoch(), statusbranch.Observed(s.Status.Snapshot()), 0)
	}
	// An epoch that is remembered is one that the branch has.
	if err := s.Status.Start(ctx); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for e := range before.List(contract.Root) {
		path := e.Path
		if _, ok := main.Entry(path); ok {
			continue
		}
		present, err := s.present(before, path)
		if err != nil || present == nil || present.Answers.Blob == "" && present.Result != contract.Held {
			continue
		}
		held := unproven(path, main.Head(), present)
		if held == nil {
			continue
		}
		group.Go(func() error {
			data, err := contract.EncodeStatus(held)
			if err != nil {
				return err
			}
			return s.Status.Write(groupCtx, statusbranch.Change{Path: contract.StatusPath(path), Data: data, Subject: "status: Held " + path})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.remember(ctx, main.Head())
}

// unproven is the answer for what main lacks at a begin; nil for what is neither
// a claim nor a request.
func unproven(path string, head store.Hash, present *contract.Status) *contract.Status {
	if key, err := contract.ParsePath(path); err == nil {
		return decision.Held(path, key, decision.Unproven(string(head)), present)
	}
	if binding, ok := contract.ParseRequestPath(path); ok {
		return request.Facts{Path: path, Binding: binding, Head: string(head), Present: present}.Unproven()
	}
	return nil
}

// take makes a head the one that counts.
func (s *Session) take(old, new *store.Snapshot, commits []store.Commit, missing judged) {
	paths := map[string]bool{}
	// What was looked at while main was held, was for its status only.
	if missing.all || s.View().Held {
		for path := range s.paths(new, contract.Root) {
			paths[path] = true
		}
	}
	var back []string
	for c := range store.Diff(old, new, contract.Root) {
		if contract.IsReserved(c.Path) {
			continue
		}
		paths[c.Path] = true
		if c.New != nil {
			back = append(back, c.Path)
		}
	}
	uids := map[string]string{}
	for _, c := range commits { // newest first
		for _, t := range contract.ParseObjectTrailers(c.Message) {
			if path := t.Key.Path(); uids[path] == "" {
				uids[path] = t.UID
				// It may have come and gone between two looks.
				paths[path] = true
			}
		}
	}

	s.mu.Lock()
	maps.Copy(s.uids, uids)
	if missing.all {
		clear(s.removals)
	}
	for _, path := range back {
		delete(s.removals, path)
	}
	maps.Copy(s.removals, missing.removals)
	s.pass(missing.passed)
	s.view = View{Main: new, Generation: s.Status.Advance(new.Head(), slices.Collect(maps.Keys(paths)))}
	s.mu.Unlock()
	s.health.hold(nil)
	if old == nil {
		s.options.Began()
	}
	s.enqueue(paths, func(path string) bool {
		_, named := uids[path]
		return old != nil || named || !s.isAnswered(path)
	})
	s.rememberLater()
}

// enqueue has paths looked at, first those that are news: after a start there are
// many others that are only to be checked.
func (s *Session) enqueue(paths map[string]bool, isNews func(path string) bool) {
	var others []string
	for path := range paths {
		if isNews(path) {
			s.options.Enqueue(path, true)
		} else {
			others = append(others, path)
		}
	}
	for _, path := range others {
		s.options.Enqueue(path, false)
	}
}

// isAnswered reports whether status says anything of a path.
func (s *Session) isAnswered(path string) bool {
	_, ok := s.Status.Snapshot().Entry(contract.StatusPath(path))
	return ok
}

func (s *Session) enqueueAll(main *store.Snapshot) {
	for path := range s.paths(main, contract.Root) {
		s.options.Enqueue(path, false)
	}
}

// paths goes through the paths of main below a folder that have, or may want, an
// answer. One may come twice.
func (s *Session) paths(main *store.Snapshot, folder string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for e := range main.List(folder) {
			if !contract.IsReserved(e.Path) && !yield(e.Path) {
				return
			}
		}
		status := s.Status.Snapshot()
		for e := range status.List(folder) {
			_, err := contract.ParsePath(e.Path)
			if _, isRequest := contract.ParseRequestPath(e.Path); (err == nil || isRequest) && !yield(e.Path) {
				return
			}
		}
		for e := range status.List(contract.RefusedRoot) {
			data, err := status.Read(e.Path)
			if err != nil {
				continue
			}
			answer, err := contract.DecodeStatus(data)
			if err == nil && answer.Problem != nil && strings.HasPrefix(answer.Problem.File, folder+"/") && !yield(answer.Problem.File) {
				return
			}
		}
	}
}

// Present is the answer to a path that is on status, nil if there is none or it
// cannot be read.
func (s *Session) Present(path string) (*contract.Status, error) {
	return s.present(s.Status.Snapshot(), path)
}

func (s *Session) present(status *store.Snapshot, path string) (*contract.Status, error) {
	entry, ok := status.Entry(contract.StatusPath(path))
	if !ok {
		return nil, nil
	}
	return s.answers.Decode(string(entry.Hash), func() ([]byte, error) { return status.Read(entry.Path) })
}
