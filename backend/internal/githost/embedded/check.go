package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/store/pack"
)

// maxNewCommits bounds the commits that a push may bring to a branch on which
// each of them is compared with its parents.
const maxNewCommits = 5000

// maxParents bounds the parents of a commit that a push brings. A merge has two;
// more than git's own octopus ever has are there to cost time.
const maxParents = 16

// maxRootTree bounds the root folder, and each other, that a commit is judged by, at about 20,000
// names: the konnector's own is one of a few.
const maxRootTree = 1 << 20

// check applies the rules to one push. It reads the refs as they are; because a
// push is refused unless its old values are those, and git sets a ref only if
// it still has the old value, what was checked is what is applied.
type check struct {
	ctx    context.Context
	caller access.Caller
	repo   *repository
	reader *reader
	// charge claims memory for the push.
	charge func(bytes int64) error
	// pack is what the push brings; of one that is refused, how much was unpacked.
	pack *pack.Pack
	// commits are those of pack, read.
	commits map[plumbing.Hash]commit
	// compared are the names in which pairs of folders differ.
	compared map[[2]plumbing.Hash][]difference
	// may has which rights the caller has, as far as that was asked.
	may map[right]bool
	// names counts those that were compared, and merges those that were compared with main.
	names, merges int
}

// newCheck is the check of one push. Its reader must be closed.
func newCheck(ctx context.Context, repo *repository, caller access.Caller, charge func(int64) error) *check {
	return &check{
		ctx: ctx, caller: caller, repo: repo,
		reader: &reader{repo: repo, ctx: ctx}, charge: charge,
		pack: &pack.Pack{}, commits: map[plumbing.Hash]commit{}, compared: map[[2]plumbing.Hash][]difference{}, may: map[right]bool{},
	}
}

// push applies the rules to all of a push. The error is a *ruling when a rule
// says no; one ref that is refused refuses the whole.
func (c *check) push(req *pushRequest, received io.Reader, size int64) error {
	if size > 0 {
		var err error
		c.pack, err = readPush(received, c.reader, c.charge)
		if errors.Is(err, pack.ErrMalformed) || errors.Is(err, pack.ErrLimit) {
			return &ruling{req.Commands[0].Ref, err.Error()}
		}
		if err != nil {
			return err
		}
	}
	for _, cmd := range req.Commands {
		if err := c.command(cmd, c.update); err != nil {
			return err
		}
	}
	return c.command(req.Commands[0], c.identities)
}

// stillAbsent refuses a push with a delta on an object that the repository did not have when
// the rules looked, and has now, as the host itself has written it: git would make an object
// of it that no rule has seen. A delta on what is not there is one on a file, or refused by git.
func (c *check) stillAbsent(req *pushRequest) error {
	for _, name := range c.pack.Absent {
		typ, _, err := c.reader.info(name)
		if err != nil {
			return err
		}
		if typ != plumbing.InvalidObject {
			return &ruling{req.Commands[0].Ref, fmt.Sprintf("its pack has a delta on %s, which was made only after the push had come", short(name.String()))}
		}
	}
	return nil
}

// command applies a rule to one ref update.
func (c *check) command(cmd command, rule func(command) error) error {
	err := rule(cmd)
	if errors.Is(err, errObject) || errors.Is(err, errCompared) || errors.Is(err, errMerges) || errors.Is(err, errParts) {
		return &ruling{cmd.Ref, err.Error()}
	}
	return err
}

func (c *check) update(cmd command) error {
	if cmd.remove() {
		if c.caller.Role == access.Member {
			if err := c.permitted(cmd, nil, nil); err != nil {
				return err
			}
		}
		return c.removal(cmd)
	}
	fresh, exits, err := c.walk(cmd)
	if err != nil {
		return err
	}
	if !cmd.create() && !mayForce(c.caller.Role, cmd.Ref) {
		if err := c.forward(cmd, exits); err != nil {
			return err
		}
	}
	for _, name := range fresh {
		if err := c.identity(cmd, name); err != nil {
			return err
		}
	}
	switch {
	case onlyBindings(c.caller.Role):
		err = c.paths(cmd, fresh, exits)
	case c.caller.Role == access.Member:
		err = c.permitted(cmd, fresh, exits)
	}
	if err != nil {
		return err
	}
	return c.extent(cmd)
}

// removal refuses a delete that loses commits: conflicts/… keeps what lost, and
// changes/… what was proposed. What main has is nothing that could be lost, and what was
// rejected, or withdrawn by the konnector that proposed it, nothing that is waited for.
func (c *check) removal(cmd command) error {
	main, err := readRef(c.repo.dir, mainRef)
	if err != nil {
		return err
	}
	if !main.IsZero() {
		ok, err := c.repo.isAncestor(c.ctx, cmd.Old, main)
		if err != nil || ok {
			return err
		}
	}
	if !strings.HasPrefix(cmd.Ref, changesPrefix) {
		return &ruling{cmd.Ref, "main does not have its commits, which would be lost: it stays until it is merged, or until the platform's operator removes it"}
	}
	if c.caller.Role == access.Konnector {
		if own, err := c.isOwn(cmd.Old, main); err != nil || own {
			return err
		}
	}
	head := cmd.Old.String()
	events, err := c.repo.events(c.ctx, []string{head})
	if err != nil || (&githost.Change{Head: head, Events: events[head]}).Rejected() {
		return err
	}
	return &ruling{cmd.Ref, "main does not have its commits, which would be lost: it stays until it is merged or rejected (kubectl gitbind review)"}
}

// isOwn tells whether the konnector made all commits of a change that main does not have:
// it withdraws what it has proposed. The host refuses its address from anybody else.
func (c *check) isOwn(head, main plumbing.Hash) (bool, error) {
	commits, err := c.repo.commitsBetween(c.ctx, []plumbing.Hash{head}, some(main), githost.MaxChangeCommits+1)
	if err != nil || len(commits) > githost.MaxChangeCommits {
		return false, err
	}
	for _, name := range commits {
		made, err := c.commit(name)
		if err != nil || identRule(c.caller, "committer", made.Committer) != "" {
			return false, err
		}
	}
	return true, nil
}

// walk goes from the new head down: fresh are the commits that the push brings,
// exits those of the repository on which they stand.
func (c *check) walk(cmd command) (fresh, exits []plumbing.Hash, err error) {
	seen := map[plumbing.Hash]bool{}
	queue := []plumbing.Hash{cmd.New}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		if _, ours := c.pack.Objects[name]; name == cmd.Old || !ours {
			if err := c.known(cmd, name); err != nil {
				return nil, nil, err
			}
			exits = append(exits, name)
			continue
		}
		commit, err := c.commit(name)
		if err != nil {
			return nil, nil, err
		}
		if n := len(commit.Parents); n > maxParents {
			return nil, nil, &ruling{cmd.Ref, fmt.Sprintf("commit %s has %d parents, at most %d", short(name.String()), n, maxParents)}
		}
		fresh = append(fresh, name)
		queue = append(queue, commit.Parents...)
	}
	return fresh, exits, nil
}

// known refuses a push whose new commits stand on something that is no commit
// of this repository.
func (c *check) known(cmd command, name plumbing.Hash) error {
	if name == cmd.Old {
		return nil
	}
	ok, err := c.reader.hasCommit(name)
	if err != nil {
		return err
	}
	if !ok {
		return &ruling{cmd.Ref, fmt.Sprintf("neither the push nor the repository has commit %s", short(name.String()))}
	}
	return nil
}

// forward refuses an update that loses commits.
func (c *check) forward(cmd command, exits []plumbing.Hash) error {
	if slices.Contains(exits, cmd.Old) {
		return nil
	}
	if len(exits) > 0 {
		ok, err := c.repo.isAncestor(c.ctx, cmd.Old, exits...)
		if err != nil || ok {
			return err
		}
	}
	return &ruling{cmd.Ref, "this would rewrite history that others have built on; commits are taken back with git revert"}
}

// identities looks at all commits that a push brings. One that no branch gets now would
// count as judged when a later push brings a branch to it.
func (c *check) identities(cmd command) error {
	for name, o := range c.pack.Objects {
		if o.Type != plumbing.CommitObject {
			continue
		}
		if err := c.identity(cmd, name); err != nil {
			return err
		}
	}
	return nil
}

// identity refuses a new commit in somebody else's name. A commit that the
// repository has was judged when somebody first pushed it: people merge
// branches of the konnector.
func (c *check) identity(cmd command, name plumbing.Hash) error {
	commit, err := c.commit(name)
	if err != nil {
		return err
	}
	why := identityRule(c.caller, commit)
	if why == "" {
		return nil
	}
	// Asked only now: it is rare, and may cost a process.
	had, err := c.reader.hasCommit(name)
	if err != nil || had {
		return err
	}
	return &ruling{cmd.Ref, fmt.Sprintf("commit %s is refused: %s", short(name.String()), why)}
}

// newTo are the commits that are new beside those that are known, with all below these:
// what the push brings, and what the repository has from elsewhere, such as somebody's
// change branch.
func (c *check) newTo(cmd command, fresh, exits, known []plumbing.Hash) ([]plumbing.Hash, error) {
	known = some(known...)
	fromElsewhere := slices.DeleteFunc(slices.Clone(exits), func(h plumbing.Hash) bool { return slices.Contains(known, h) })
	if len(fromElsewhere) > 0 {
		more, err := c.repo.commitsBetween(c.ctx, fromElsewhere, known, maxNewCommits+1)
		if err != nil {
			return nil, err
		}
		fresh = append(slices.Clone(fresh), more...)
	}
	if len(fresh) > maxNewCommits {
		return nil, &ruling{cmd.Ref, fmt.Sprintf("more than %d commits that are new to this branch", maxNewCommits)}
	}
	return fresh, nil
}

// paths compares every commit that is new to the branch with each of its parents.
func (c *check) paths(cmd command, fresh, exits []plumbing.Hash) error {
	base := cmd.Old
	if cmd.create() {
		var err error
		if base, err = readRef(c.repo.dir, mainRef); err != nil {
			return err
		}
	}
	fresh, err := c.newTo(cmd, fresh, exits, []plumbing.Hash{base})
	if err != nil {
		return err
	}
	// Clients may send more than is needed: what is on the branch already was
	// judged before. That is asked once, for all of them.
	var doubtful []plumbing.Hash
	words := map[plumbing.Hash]string{}
	for _, name := range fresh {
		outside, err := c.outside(name)
		if err != nil {
			return err
		}
		if outside == "" {
			continue
		}
		words[name] = outsideWords(outside, name.String())
		had, err := c.reader.hasCommit(name)
		if err != nil {
			return err
		}
		if !had || base.IsZero() {
			return &ruling{cmd.Ref, words[name]}
		}
		doubtful = append(doubtful, name)
	}
	if len(doubtful) == 0 {
		return nil
	}
	missing, err := c.repo.commitsBetween(c.ctx, doubtful, some(base), maxNewCommits+1)
	if err != nil || len(missing) == 0 {
		return err
	}
	i := slices.IndexFunc(doubtful, func(name plumbing.Hash) bool { return slices.Contains(missing, name) })
	return &ruling{cmd.Ref, words[doubtful[max(i, 0)]]}
}

// some are the hashes that are not zero.
func some(hashes ...plumbing.Hash) []plumbing.Hash {
	return slices.DeleteFunc(hashes, plumbing.Hash.IsZero)
}

// outside gives the first name outside bindings/ in which a commit differs from
// one of its parents, or "".
func (c *check) outside(name plumbing.Hash) (string, error) {
	commit, err := c.commit(name)
	if err != nil {
		return "", err
	}
	if len(commit.Parents) == 0 {
		return c.changed(emptyTree, commit.Tree)
	}
	for _, p := range commit.Parents {
		parent, err := c.commit(p)
		if err != nil {
			return "", err
		}
		if n, err := c.changed(parent.Tree, commit.Tree); n != "" || err != nil {
			return n, err
		}
	}
	return "", nil
}

// changed gives the first name outside bindings/ in which two root trees
// differ, or "".
func (c *check) changed(before, after plumbing.Hash) (string, error) {
	all, err := c.differ(before, after)
	return changeOutside(all), err
}

func (c *check) commit(name plumbing.Hash) (commit, error) {
	if known, ok := c.commits[name]; ok {
		return known, nil
	}
	o, err := c.object(name, plumbing.CommitObject)
	if err != nil {
		return commit{}, err
	}
	parsed, err := parseCommit(o.Data)
	if err != nil {
		return commit{}, err
	}
	c.commits[name] = parsed
	return parsed, nil
}

func (c *check) tree(name plumbing.Hash) ([]treeEntry, error) {
	o, err := c.object(name, plumbing.TreeObject)
	if err != nil {
		return nil, err
	}
	if len(o.Data) > maxRootTree {
		return nil, fmt.Errorf("%w: a folder of %d bytes, at most %d", errObject, len(o.Data), maxRootTree)
	}
	return parseTree(o.Data)
}

// object finds an object in the push, or else in the repository.
func (c *check) object(name plumbing.Hash, want plumbing.ObjectType) (object, error) {
	o, ok := c.pack.Objects[name]
	if !ok {
		var err error
		if o, ok, err = c.reader.object(name); err != nil {
			return object{}, err
		}
	}
	if !ok {
		return object{}, fmt.Errorf("%w: no %s %s", errObject, want, name)
	}
	if o.Type != want {
		return object{}, fmt.Errorf("%w: %s is a %s, not a %s", errObject, name, o.Type, want)
	}
	return o, nil
}

// remember keeps what the next push will be compared with: the commits and folders
// that this one brought.
func (c *check) remember() {
	for name, o := range c.pack.Objects {
		if judged(o.Type) {
			c.repo.objects.put(name, o)
		}
	}
}
