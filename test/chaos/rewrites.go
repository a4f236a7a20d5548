package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/contract"
)

// rewrite tries one of what the Git host must refuse to everybody: to take main back, to
// remove a branch that is followed, to write status. It changes nothing.
func (a *author) rewrite(run context.Context, rng *rand.Rand) {
	tries := [][]string{
		{"--force", "origin", "FETCH_HEAD~1:refs/heads/main"},
		{"origin", ":refs/heads/main"},
		{"origin", ":refs/heads/status"},
		{"--force", "origin", "FETCH_HEAD:refs/heads/status"},
	}
	args := append([]string{"push", "--quiet"}, tries[rng.IntN(len(tries))]...)
	a.host.RLock()
	defer a.host.RUnlock()
	ctx, cancel := context.WithTimeout(run, 4*answerTimeout)
	defer cancel()
	if _, err := a.git(ctx, "fetch", "--quiet", "origin", "main"); err != nil {
		return
	}
	switch _, err := a.git(ctx, args...); {
	case err == nil:
		a.journal.giveUp("", "the Git host has taken what it must refuse: git %s", strings.Join(args, " "))
	case strings.Contains(err.Error(), "rejected"):
		a.journal.note("the Git host has refused: git %s", strings.Join(args, " "))
		a.refusals++
	default:
		a.journal.note("git %s: %v", strings.Join(args, " "), err)
	}
}

// remotes is where a clone has the branches of the host, and lost the versions that lost a
// conflict.
const (
	remotes = "refs/remotes/origin/"
	lost    = remotes + contract.ConflictsPrefix
)

// mergeLost merges a version that lost a conflict into main: where both differ, the one that
// lost is taken.
func (a *author) mergeLost(run context.Context, rng *rand.Rand) {
	sent := time.Now()
	branch := ""
	var err error
	for ; run.Err() == nil; sleep(run, 100*time.Millisecond) {
		a.host.RLock()
		ctx, cancel := context.WithTimeout(run, 4*answerTimeout)
		err = nil
		if branch == "" {
			branch, err = a.chooseLost(ctx, rng)
		}
		if branch != "" {
			err = a.merge(ctx, branch)
		}
		cancel()
		a.host.RUnlock()
		switch {
		case err == nil && branch == "":
			return
		case err == nil:
			a.noteMerge(run, sent, branch)
			return
		case errors.Is(err, errCannotMerge):
			return
		}
	}
	if err != nil {
		a.journal.giveUp("", "a version that lost could not be merged for %s: %v", time.Since(sent).Round(time.Second), err)
	}
}

// chooseLost is one of the versions that lost and that main does not have, "" for none. It is of
// a claim that is edited here: what becomes of one that its owner deletes meanwhile, nobody
// would decide.
func (a *author) chooseLost(ctx context.Context, rng *rand.Rand) (string, error) {
	if _, err := a.git(ctx, "fetch", "--quiet", "--prune", "origin", "+refs/heads/conflicts/*:"+lost+"*", "+refs/heads/main:refs/remotes/origin/main"); err != nil {
		return "", err
	}
	out, err := a.git(ctx, "for-each-ref", "--no-merged=refs/remotes/origin/main", "--format=%(refname)", lost)
	branches := slices.DeleteFunc(strings.Fields(out), func(branch string) bool {
		return !slices.ContainsFunc(slices.Concat(a.both, a.own), func(c *claim) bool {
			return strings.HasPrefix(branch, remotes+contract.ConflictBranch(c.id(), ""))
		})
	})
	if err != nil || len(branches) == 0 {
		return "", err
	}
	return branches[rng.IntN(len(branches))], nil
}

var errCannotMerge = errors.New("its file is gone from main")

// merge merges a branch into the newest main and pushes that. Others push all the time: it
// starts as few processes as it can.
func (a *author) merge(ctx context.Context, branch string) error {
	if err := a.newest(ctx); err != nil {
		return err
	}
	if _, err := a.git(ctx, "merge-base", "--is-ancestor", branch, "HEAD"); err == nil {
		return nil // The host has it: an answer was lost.
	}
	if out, err := a.git(ctx, "merge", "--quiet", "--no-edit", "--no-ff", "--strategy-option=theirs", branch); err != nil {
		// The next attempt resets what is left of it.
		if said := out + err.Error(); strings.Contains(said, "modify/delete") || strings.Contains(said, "deleted in HEAD") {
			return errCannotMerge
		}
		return err
	}
	_, err := a.git(ctx, "push", "--quiet", "origin", "HEAD:main")
	return err
}

// noteMerge writes down which fields the merge of a branch has changed.
func (a *author) noteMerge(ctx context.Context, sent time.Time, branch string) {
	commits, err := a.git(ctx, "rev-list", "--merges", "--ancestry-path", branch+"..HEAD")
	merges := strings.Fields(commits)
	if err != nil || len(merges) == 0 {
		a.journal.giveUp("", "main is said to have %s, and no merge of it: %v", branch, err)
		return
	}
	merge := merges[len(merges)-1]
	changed, err := a.git(ctx, "diff", "--name-only", merge+"^1", merge)
	for _, c := range slices.Concat(a.both, a.own) {
		if !slices.Contains(strings.Fields(changed), c.path()) {
			continue
		}
		before, errBefore := a.at(ctx, merge+"^1", c)
		after, errAfter := a.at(ctx, merge, c)
		err = errors.Join(err, errBefore, errAfter)
		for _, name := range slices.Concat(c.api.cluster, c.api.git, c.api.shared) {
			if value := field(after, name); value != field(before, name) {
				a.journal.write(Entry{Sent: sent, Side: Git, Op: Edit, Claim: c.key(), Life: 1, Field: name, Value: value, Outcome: Accepted, Note: "merged " + branch})
			}
		}
	}
	if err != nil {
		a.journal.giveUp("", "the merge of %s cannot be read: %v", branch, err)
	}
	a.merges++
}

// at is a claim as its file was in a commit.
func (a *author) at(ctx context.Context, commit string, c *claim) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	data, err := a.git(ctx, "show", commit+":"+c.path())
	if err == nil {
		err = yaml.Unmarshal([]byte(data), &u.Object)
	}
	return u, err
}
