package repository

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"gitbind.dev/gitbridge/claim"
	"gitbind.dev/gitbridge/store"
)

// accept looks at the head of main, and returns it with words if it does not
// continue what was accepted before.
func (r *Repository) accept(ctx context.Context) (*store.Snapshot, string, error) {
	main := r.Remote.Main.Snapshot()
	if words, known := r.judged(main.Head()); known {
		return main, words, nil
	}
	r.accepting.Lock()
	defer r.accepting.Unlock()
	// It is read again: an older one would look as if it went back.
	main = r.Remote.Main.Snapshot()
	if words, known := r.judged(main.Head()); known {
		return main, words, nil
	}
	r.mu.Lock()
	accepted := r.accepted
	r.mu.Unlock()
	continues, passed, err := r.continues(ctx, accepted, main)
	if err != nil {
		return nil, "", fmt.Errorf("history of main since %s: %w", accepted.Short(), err)
	}
	r.mu.Lock()
	recovered := continues && r.replaced
	if continues {
		r.replaced = false
		r.accepted = main.Head()
		r.ancestors[main.Head()] = true
		for _, h := range passed {
			r.ancestors[h] = true
		}
	} else {
		r.replaced, r.replacedBy = true, main.Head()
	}
	r.mu.Unlock()
	if recovered {
		r.tellRecovered()
	}
	r.stateChanged()
	words, _ := r.judged(main.Head())
	return main, words, nil
}

func (r *Repository) judged(head store.Hash) (words string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.replaced && head == r.replacedBy:
		return r.replacedWords(), true
	case !r.replaced && head == r.accepted:
		return "", true
	}
	return "", false
}

func (r *Repository) replacedWords() string {
	what := fmt.Sprintf("at %s, which does not contain it", r.replacedBy.Short())
	yes := fmt.Sprintf("set status.acceptedCommit of Connection %s to %s", r.Connection, r.replacedBy)
	if r.replacedBy == "" {
		what, yes = "gone", fmt.Sprintf("clear status.acceptedCommit of Connection %s", r.Connection)
	}
	return fmt.Sprintf("Branch main was at commit %s and is now %s: the repository was restored from a backup, rewritten or replaced. Nothing is written in either direction. Push the missing commits to main; or, if it is right as it is now, %s.", r.accepted.Short(), what, yes)
}

// continues reports whether a head descends from what was accepted, and which
// commits lie between.
func (r *Repository) continues(ctx context.Context, accepted store.Hash, head *store.Snapshot) (bool, []store.Hash, error) {
	switch {
	case accepted == "":
		return true, nil, nil
	case head.Head() == "":
		return false, nil, nil
	}
	for _, p := range head.Commit().Parents {
		if p == accepted {
			return true, nil, nil
		}
	}
	commits, descends, err := r.Remote.Main.Log(ctx, accepted, head.Head())
	if err != nil || !descends {
		return false, nil, err
	}
	passed := make([]store.Hash, 0, len(commits))
	for _, c := range commits {
		passed = append(passed, c.Hash)
	}
	return true, passed, nil
}

// Reconsider looks whether a person has decided what is right, while main does
// not continue what was accepted: read returns what is saved as accepted, and
// where that is not what was saved from here, it counts.
func (r *Repository) Reconsider(ctx context.Context, read func(context.Context) (store.Hash, error)) error {
	// Nothing is saved meanwhile, so what differs was not written by us, except
	// where the answer to a write of ours was lost.
	r.saving.Lock()
	defer r.saving.Unlock()
	commit, err := read(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	own := commit == r.saved || r.ancestors[commit] && commit != r.replacedBy
	if !r.replaced || own {
		r.mu.Unlock()
		return nil
	}
	r.accepted, r.saved = commit, commit
	r.replaced, r.replacedBy = false, ""
	r.ancestors = map[store.Hash]bool{}
	r.mu.Unlock()
	r.tellRecovered()
	r.Wake()
	return nil
}

// Accepted is the last commit of main that was accepted, and the one that is
// saved.
func (r *Repository) Accepted() (commit, saved store.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accepted, r.saved
}

// Saved is told what was saved by others.
func (r *Repository) Saved(commit store.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = commit
}

// SaveAccepted makes sure that what was accepted is saved: before anything is
// deleted because of it.
func (r *Repository) SaveAccepted(ctx context.Context) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	commit, saved := r.Accepted()
	if commit == saved {
		return nil
	}
	if err := r.Save(ctx, commit); err != nil {
		return fmt.Errorf("save accepted commit %s: %w", commit.Short(), err)
	}
	r.Saved(commit)
	return nil
}

func (r *Repository) stateChanged() {
	if r.OnState != nil {
		r.OnState()
	}
}

// Continues reports whether main, as it was accepted, descends from a commit.
func (r *Repository) Continues(ctx context.Context, from store.Hash) (bool, error) {
	r.mu.Lock()
	head, known := r.accepted, r.ancestors[from]
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
	if r.accepted == head {
		r.ancestors[from] = true
		for _, c := range commits {
			r.ancestors[c.Hash] = true
		}
	}
	return true, nil
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
// last, and that for the object with this UID. Since is a commit of main after
// which that was; "" if that is not known.
func (r *Repository) OwnWork(ctx context.Context, since store.Hash, file Pushed, uid types.UID) (bool, error) {
	head, _ := r.Accepted()
	if since == "" {
		return r.own.has(ctx, r, head, file, uid)
	}
	commits, descends, err := r.Remote.Main.Log(ctx, since, head)
	if err != nil || !descends {
		return false, err
	}
	for _, c := range commits {
		for _, t := range r.trailers(c) {
			if t.Key == file.Key {
				return t.Blob == string(file.Blob) && t.UID == string(uid), nil
			}
		}
	}
	return false, nil
}

// Pushed is a version of a claim's file.
type Pushed struct {
	Key  claim.Key
	Blob store.Hash
}

// trailers are those of a commit of ours. That goes by the committer: hosts
// refuse the identity from anybody else.
func (r *Repository) trailers(c store.Commit) []claim.ObjectTrailer {
	if _, email := claim.Identity(Committer, r.ClusterID); c.Committer.Email != email {
		return nil
	}
	return claim.ParseObjectTrailers(c.Message)
}

// ownWork is what this cluster's konnector has pushed of each claim last. It
// takes the whole history, so it is made only when it is asked for: for an
// object that has no base beside a file that differs.
type ownWork struct {
	mu   sync.Mutex
	upTo store.Hash
	last map[claim.Key]claim.ObjectTrailer
}

func (o *ownWork) has(ctx context.Context, r *Repository, head store.Hash, file Pushed, uid types.UID) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.upTo != head {
		commits, descends, err := r.Remote.Main.Log(ctx, o.upTo, head)
		if err == nil && o.upTo != "" && !descends {
			o.upTo = ""
			commits, _, err = r.Remote.Main.Log(ctx, "", head)
		}
		if err != nil {
			return false, err
		}
		if o.upTo == "" {
			o.last = map[claim.Key]claim.ObjectTrailer{}
		}
		for _, c := range slices.Backward(commits) {
			for _, t := range r.trailers(c) {
				o.last[t.Key] = t
			}
		}
		o.upTo = head
	}
	t := o.last[file.Key]
	return t.Blob == string(file.Blob) && t.UID == string(uid), nil
}

// Committer is the name under which the konnector commits.
const Committer = "konnector"
