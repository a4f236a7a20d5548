package session

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/internal/decision"
	"gitbind.dev/gitbridge/internal/request"
	"gitbind.dev/gitbridge/internal/statusbranch"
	"gitbind.dev/gitbridge/store"
)

func (s *Session) onMain(ctx context.Context, new *store.Snapshot) error {
	s.following.Lock()
	defer s.following.Unlock()
	s.seen = new
	return s.accept(ctx, new)
}

// accept asks the guard about a head of main, and if it is accepted, has what it changed
// looked at. Where that fails the follower of main tries again, also for an approval.
func (s *Session) accept(ctx context.Context, new *store.Snapshot) (err error) {
	defer func() { s.unjudged.Store(err != nil) }()
	view := s.View()
	accepted, commits, descends, err := s.sinceAccepted(ctx, view.Main, new)
	switch v, ok := tooLong(err, new.Head()); {
	case ok && s.approved != new.Head():
		s.hold(v)
		return nil
	case !ok && err != nil:
		return err
	}
	v := guard.Main{
		Head: string(new.Head()), Accepted: string(accepted), Descends: descends, Empty: new.Files() == 0,
		Unsigned:   string(s.unsigned(new, accepted, commits)),
		StatusLost: s.statusLost, Approval: string(s.approved),
	}.Judge()
	if v.IsHeld() {
		v.Message = wordsOfMain(v, accepted)
		s.hold(v)
		return nil
	}
	read := s.Removals.branch.Commits(commits)
	uids, err := s.uidsOf(read, new.Head())
	switch v, ok := tooLong(err, new.Head()); {
	case ok:
		s.hold(v)
		return nil
	case err != nil:
		return fmt.Errorf("read the commits before %s: %w", new.Head().Short(), err)
	}
	begin := accepted == "" || v.Approved
	if begin {
		defer s.refuseOutdated()()
		if err := s.begin(ctx, new); err != nil {
			return err
		}
	}
	s.Removals.judging.Lock()
	removals, err := s.Removals.judgeHead(ctx, view.Main, new, read, begin)
	if err == nil {
		s.take(new, uids, removals)
	}
	s.Removals.judging.Unlock()
	if err != nil {
		return err
	}
	head, words := s.unanswerable()
	s.mainAnswer.set(contract.Invalid, head, words)
	if begin && view.Main != nil {
		// Its branch status may be another one, too.
		s.options.Began()
	}
	return nil
}

// sinceAccepted are the commit of main that was accepted last, "" for none, the commits from there
// to a new head, and whether that descends from it. Where those are more than is read, the error
// is a LimitError that lasts.
func (s *Session) sinceAccepted(ctx context.Context, old, new *store.Snapshot) (accepted store.Hash, commits []store.Commit, descends bool, err error) {
	accepted = old.Head()
	if accepted == "" {
		accepted = s.Checkpoints.Last().Accepted
	}
	commits, descends, err = s.options.Main.Log(ctx, accepted, new.Head())
	if err != nil {
		return accepted, commits, descends, fmt.Errorf("compare main with %s: %w", accepted.Short(), err)
	}
	if answered := s.answered(); old == nil && descends && answered != "" {
		// The bridge before this one may have gone on from there without saving it.
		_, has, err := s.options.Main.Log(ctx, answered, new.Head())
		switch {
		case store.LastingLimit(err) != nil:
			// It is so far back that it was saved since.
		case err != nil:
			return "", nil, false, fmt.Errorf("compare main with %s: %w", answered.Short(), err)
		case !has:
			return answered, commits, false, nil
		}
	}
	return accepted, commits, descends, nil
}

// refuseOutdated has what was decided on the views until now not be written any more. As long
// as the next view is not there, nothing is: what is decided meanwhile may be on what begin is
// about to change. End is to be called when begin is over, whether or not there is another view.
func (s *Session) refuseOutdated() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begins++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.view.begins = s.begins
	}
}

// answered is the commit of main that the branch status says it answers, "" for none.
func (s *Session) answered() store.Hash {
	o := statusbranch.Observed(s.Status.Snapshot())
	if s.statusLost || o.Epoch != s.Status.Epoch() {
		return ""
	}
	return store.Hash(o.Commit)
}

func (s *Session) hold(v guard.Verdict) {
	s.mu.Lock()
	was := s.view.Held
	s.view.Held = true
	s.mu.Unlock()
	s.health.hold(v)
	if !was && s.View().Main == nil {
		// The state of what was applied before is still answered.
		s.enqueueAll(nil)
	}
}

// begin keeps what was answered before and main lacks from being deleted, and
// saves from where main is followed.
func (s *Session) begin(ctx context.Context, main *store.Snapshot) error {
	// A repository that was replaced has another branch status, too. What was
	// answered before is held all the same.
	before := s.Status.Snapshot()
	if _, err := s.options.Status.Fetch(ctx); err != nil {
		return fmt.Errorf("look at status again: %w", err)
	}
	if _, err := s.lookAtStatus(ctx); err != nil {
		return err
	}
	if s.statusLost {
		s.statusLost = false
		s.open(newEpoch(), statusbranch.Observed(s.Status.Snapshot()), 0)
	}
	lacks := false
	if answered := s.answered(); answered != "" {
		_, has, err := s.options.Main.Log(ctx, answered, main.Head())
		lacks = !has
		if err != nil && store.LastingLimit(err) == nil {
			return fmt.Errorf("compare main with %s: %w", answered.Short(), err)
		}
	}
	// An epoch that is remembered is one that the branch has.
	if err := s.Status.Start(ctx, lacks); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for e := range before.List(contract.Root) {
		path := e.Path
		if _, ok := main.Entry(path); ok {
			continue
		}
		present, err := s.Answers.in(before, path)
		if err != nil || present == nil || present.Answers.Blob == "" && present.Result != contract.Held {
			continue
		}
		held := heldAtBegin(path, main.Head(), present)
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
	return s.Checkpoints.begin(ctx, main.Head())
}

// heldAtBegin is the answer for what main lacks at a begin; nil for what is neither
// a claim nor a request.
func heldAtBegin(path string, head store.Hash, present *contract.Status) *contract.Status {
	if key, err := contract.ParsePath(path); err == nil {
		return decision.Held(path, key, notRemoved(head).Verdict, present)
	}
	if binding, ok := contract.ParseRequestPath(path); ok {
		return request.Facts{Path: path, Binding: binding, Head: string(head), Present: present}.Unproven()
	}
	return nil
}

// take makes a head the accepted one. Uids are those that its commits name.
func (s *Session) take(new *store.Snapshot, uids map[string]string, removals judged) {
	view := s.View()
	old, paths := view.Main, map[string]bool{}
	s.mu.Lock()
	before := s.strays
	s.mu.Unlock()
	strays, wanted := countStrays(before, old, new), s.Answers.strayFilter(before)
	// What was looked at while main was held, was for its status only. And of strays
	// that were too many, others are answered now.
	again := removals.replaces || view.Held
	if again || before > maxStrays && strays <= maxStrays {
		for path := range s.Answers.paths(new, contract.Root) {
			paths[path] = true
		}
	}
	var present []string
	for c := range store.Diff(old, new, contract.Root) {
		if key, ok := contract.ParseInputsPath(c.Path); ok {
			if _, claimed := new.Entry(key.Path()); claimed {
				paths[key.Path()] = true
			}
		}
		if contract.IsReserved(c.Path) || !wanted(c.Path) {
			continue
		}
		paths[c.Path] = true
		if c.New != nil {
			present = append(present, c.Path)
		}
	}
	for path := range uids {
		// It may have come and gone between two looks.
		paths[path] = true
	}
	waitFor := slices.Collect(maps.Keys(paths))
	// They are there before the head is: a claim is not looked at between the two.
	s.Removals.take(new, removals, present)
	s.mu.Lock()
	s.strays = strays
	s.unanswered.add(uids)
	known := s.objectsKnown
	if again || !known {
		waitFor = append(waitFor, unnamed)
	}
	s.view = View{Main: new, Generation: s.Status.Advance(new.Head(), waitFor), begins: s.begins}
	s.mu.Unlock()
	s.health.hold(guard.Verdict{})
	if old == nil {
		s.options.Began()
	}
	s.enqueue(paths, func(path string) bool {
		_, named := uids[path]
		return old != nil || named || !s.Answers.has(path)
	})
	if again && known {
		s.lookAtUnnamed(new)
	}
	s.Checkpoints.saveLater()
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

func (s *Session) enqueueAll(main *store.Snapshot) { s.enqueueBelow(main, "") }

// enqueueBelow has the claims of a binding looked at, with "" of all.
func (s *Session) enqueueBelow(main *store.Snapshot, binding string) {
	folder := contract.Root
	if binding != "" {
		folder = contract.BindingPath(binding)
	}
	for path := range s.Answers.paths(main, folder) {
		s.options.Enqueue(path, false)
	}
	for path := range withoutFile(s.options.OnControlPlane(binding), main) {
		s.options.Enqueue(path, false)
	}
}

// unnamed stands, among the paths that wait for an answer, for the claims that have an
// object and no file, until these are known. Where a bridge ended before it answered, and
// the file went since, nothing else tells of them; and what was told of the object before
// main was known is dropped.
const unnamed = ""

// ObjectsKnown is to be called when all objects are known that the control plane had at the
// start, or can be.
func (s *Session) ObjectsKnown() {
	s.mu.Lock()
	s.objectsKnown = true
	main := s.view.Main
	s.mu.Unlock()
	if main != nil {
		s.lookAtUnnamed(main)
	}
}

// OnControlPlane are the claims of a binding that have an object, as far as objects are known;
// known says that all are that there were at the start.
func (s *Session) OnControlPlane(binding string) (objects map[string]store.Hash, known bool) {
	s.mu.Lock()
	known = s.objectsKnown
	s.mu.Unlock()
	return s.options.OnControlPlane(binding), known
}

// withoutFile are those of the claims' objects, by their paths, of which main has no file.
func withoutFile(objects map[string]store.Hash, main *store.Snapshot) iter.Seq2[string, store.Hash] {
	return func(yield func(string, store.Hash) bool) {
		for path, applied := range objects {
			if _, named := main.Entry(path); !named && !yield(path, applied) {
				return
			}
		}
	}
}

// lookAtUnnamed has the claims looked at that have an object and no file: a head of main is
// not answered before these are.
func (s *Session) lookAtUnnamed(main *store.Snapshot) {
	var paths []string
	for path := range withoutFile(s.options.OnControlPlane(""), main) {
		paths = append(paths, path)
	}
	s.Status.Replace(unnamed, paths)
	for _, path := range paths {
		s.options.Enqueue(path, false)
	}
}
