package repository

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
)

// accept looks at the head of main, and returns it with words if it does not
// continue what was accepted before.
func (r *Repository) accept(ctx context.Context) (*store.Snapshot, string, error) {
	main := r.Remote.Main.Snapshot()
	if words, known := r.judgedMain(main.Head()); known {
		return main, words, nil
	}
	r.accepting.Lock()
	defer r.accepting.Unlock()
	// It is read again: an older one would look as if it went back.
	main = r.Remote.Main.Snapshot()
	if words, known := r.judgedMain(main.Head()); known {
		return main, words, nil
	}
	r.mu.Lock()
	accepted, tree := r.memory.Accepted, r.acceptedTree
	r.mu.Unlock()
	continues, passed, err := r.continues(ctx, accepted, main)
	if err != nil {
		return nil, "", fmt.Errorf("history of main since %s: %w", accepted.Short(), err)
	}
	if continues && tree != nil {
		if err := r.noteMoves(ctx, tree, main, passed); err != nil {
			return nil, "", err
		}
	}
	r.mu.Lock()
	recovered := continues && r.replaced
	if continues {
		r.take(main, passed)
	} else {
		r.replaced, r.replacedBy = true, main.Head()
	}
	r.mu.Unlock()
	if recovered || r.someRefused() {
		// Those who wait may be fewer now.
		r.tellRecovered()
	}
	r.stateChanged()
	words, _ := r.judgedMain(main.Head())
	return main, words, nil
}

// maxRecent is how many heads are remembered with what they held.
const maxRecent = 64

// take makes a head the accepted one. The caller holds mu.
func (r *Repository) take(main *store.Snapshot, passed []store.Commit) {
	r.replaced = false
	if r.memory.Accepted != main.Head() {
		r.keep(func(m *Memory) { m.Accepted = main.Head() })
	}
	r.acceptedTree = main
	r.ancestors[main.Head()] = true
	for _, c := range passed {
		r.ancestors[c.Hash] = true
	}
	if _, ok := r.recent[main.Head()]; !ok {
		r.recent[main.Head()] = main
		r.recentHeads = append(r.recentHeads, main.Head())
	}
	if len(r.recentHeads) > maxRecent {
		delete(r.recent, r.recentHeads[0])
		r.recentHeads = r.recentHeads[1:]
	}
}

func (r *Repository) someRefused() bool {
	r.judging.Lock()
	defer r.judging.Unlock()
	return r.anyRefused()
}

func (r *Repository) judgedMain(head store.Hash) (words string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.replaced && head == r.replacedBy:
		return r.replacedWords(), true
	case !r.replaced && head == r.memory.Accepted && (r.acceptedTree != nil || head == ""):
		return "", true
	}
	return "", false
}

func (r *Repository) replacedWords() string {
	what := fmt.Sprintf("at %s, which does not contain it", r.replacedBy.Short())
	if r.replacedBy == "" {
		what = "gone"
	}
	return fmt.Sprintf("Branch main was at commit %s and is now %s: the repository was restored from a backup, rewritten or replaced. Nothing is written in either direction. Push the missing commits to main; or, if it is right as it is now: kubectl gitbind approve --main %s. Nothing that it lacks is deleted for that.", r.memory.Accepted.Short(), what, approvable(r.replacedBy))
}

// continues reports whether a head descends from what was accepted, and which
// commits lie between.
func (r *Repository) continues(ctx context.Context, accepted store.Hash, head *store.Snapshot) (bool, []store.Commit, error) {
	switch {
	case accepted == "", accepted == head.Head():
		return true, nil, nil
	case head.Head() == "":
		return false, nil, nil
	}
	if slices.Equal(head.Commit().Parents, []store.Hash{accepted}) {
		return true, []store.Commit{head.Commit()}, nil
	}
	commits, descends, err := r.Remote.Main.Log(ctx, accepted, head.Head())
	if err != nil || !descends {
		return false, nil, err
	}
	return true, commits, nil
}

// Continues reports whether main, as it was accepted, descends from a commit.
func (r *Repository) Continues(ctx context.Context, from store.Hash) (bool, error) {
	r.mu.Lock()
	head, known := r.memory.Accepted, r.ancestors[from]
	r.mu.Unlock()
	if known || from == "" {
		return known, nil
	}
	commits, descends, err := r.Remote.Main.Log(ctx, from, head)
	if err != nil || !descends {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory.Accepted == head {
		r.ancestors[from] = true
		for _, c := range commits {
			r.ancestors[c.Hash] = true
		}
	}
	return true, nil
}

// Agreed reports whether what an object and its file agreed on at a commit of main
// still counts. It does as long as main was never rewritten; after that, if the
// commit is part of it.
func (r *Repository) Agreed(ctx context.Context, at store.Hash) (bool, error) {
	r.mu.Lock()
	begun := r.memory.Begun
	r.mu.Unlock()
	if begun == "" {
		return true, nil
	}
	return r.Continues(ctx, at)
}

// Follows reports whether one commit of main came after another.
func (r *Repository) Follows(ctx context.Context, from, to store.Hash) (bool, error) {
	if from == "" || to == "" || from == to {
		return false, nil
	}
	_, descends, err := r.Remote.Main.Log(ctx, from, to)
	return descends, err
}

// OwnWork reports whether a claim's file is as this cluster's konnector pushed it
// last, and that for the object with this UID as it was at this generation or
// before. Since is a commit of main after which that was; "" if that is not
// known. A push of a later generation shows that the object was restored from a
// backup: Git has what came after it, and is ahead.
func (r *Repository) OwnWork(ctx context.Context, since store.Hash, file Pushed, uid types.UID, generation int64) (bool, error) {
	t, err := r.LastPush(ctx, since, file.Key)
	return !t.Merged && t.Blob == string(file.Blob) && t.UID == string(uid) && t.Generation <= generation, err
}

// LastPush is what this cluster's konnector pushed last of a claim, since a
// commit of main, or ever if that is ""; the zero value for nothing.
func (r *Repository) LastPush(ctx context.Context, since store.Hash, key contract.Key) (contract.ObjectTrailer, error) {
	head := r.Accepted()
	if since == "" {
		return r.ownWork.of(ctx, r, head, key)
	}
	commits, descends, err := r.Remote.Main.Log(ctx, since, head)
	if err != nil || !descends {
		return contract.ObjectTrailer{}, err
	}
	for _, c := range commits {
		for _, t := range r.trailers(c) {
			if t.Key == key {
				return t, nil
			}
		}
	}
	return contract.ObjectTrailer{}, nil
}

// Pushed is a version of a claim's file.
type Pushed struct {
	Key  contract.Key
	Blob store.Hash
}

// own reports whether a commit is this cluster's konnector's. That goes by the
// committer: hosts refuse the identity from anybody else.
func (r *Repository) own(c store.Commit) bool {
	_, email := contract.Identity(Committer, r.ClusterID)
	return c.Committer.Email == email
}

// trailers are those of a commit of ours.
func (r *Repository) trailers(c store.Commit) []contract.ObjectTrailer {
	if !r.own(c) {
		return nil
	}
	return contract.ParseObjectTrailers(c.Message)
}

// ownWork is what this cluster's konnector has pushed of each claim last. It
// takes the whole history, so it is made only when it is asked for: for an
// object that has no base beside a file that differs.
type ownWork struct {
	mu   sync.Mutex
	upTo store.Hash
	last map[contract.Key]contract.ObjectTrailer
}

func (o *ownWork) of(ctx context.Context, r *Repository, head store.Hash, key contract.Key) (contract.ObjectTrailer, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.upTo != head {
		commits, descends, err := r.Remote.Main.Log(ctx, o.upTo, head)
		if err == nil && o.upTo != "" && !descends {
			o.upTo = ""
			commits, _, err = r.Remote.Main.Log(ctx, "", head)
		}
		if err != nil {
			return contract.ObjectTrailer{}, err
		}
		if o.upTo == "" {
			o.last = map[contract.Key]contract.ObjectTrailer{}
		}
		for _, c := range slices.Backward(commits) {
			for _, t := range r.trailers(c) {
				o.last[t.Key] = t
			}
		}
		o.upTo = head
	}
	return o.last[key], nil
}

// Committer is the name under which the konnector commits.
const Committer = "konnector"
