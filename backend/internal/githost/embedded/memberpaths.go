package embedded

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// maxParts bounds the parts of a repository that a member changes with one push: each of
// them is a question to the control plane's API server, or three.
const maxParts = 100

var errParts = fmt.Errorf("it changes more than %d namespaces and bindings: push them in several pushes", maxParts)

// right is that of a role on a part of a repository.
type right struct {
	role restapi.RepositoryRole
	part access.Part
}

// has tells whether the caller has a right, as it was when the push first asked.
func (c *check) has(r right) (bool, error) {
	if may, asked := c.may[r]; asked {
		return may, nil
	}
	if len(c.may) > maxParts {
		return false, errParts
	}
	may, err := c.caller.Rights.May(c.ctx, r.role, r.part)
	if err == nil {
		c.may[r] = may
	}
	return may, err
}

// permitted refuses a push by a member that changes what the repository is not shared
// with them for. It looks at each commit that is new to the branch, and for main, which
// changes services, at all that would change: a merge may take back what others have done.
func (c *check) permitted(cmd command, fresh, exits []plumbing.Hash) error {
	role := restapi.RepositoryPropose
	if cmd.Ref == mainRef {
		role = restapi.RepositoryWrite
	}
	if all, err := c.has(right{role, access.Part{}}); err != nil || all {
		return err
	}
	fresh, err := c.unjudged(cmd, fresh, exits)
	if err != nil {
		return err
	}
	changed := parts{}
	if cmd.Ref == mainRef {
		if err := c.compare(cmd.Old, cmd.New, changed); err != nil {
			return err
		}
	} else {
		changed[strings.TrimPrefix(cmd.Ref, contract.HeadsPrefix)] = ofBranch(cmd.Ref)
	}
	for _, name := range fresh {
		if cmd.Ref == mainRef {
			err = c.touchedBy(name, cmd.Old, changed)
		} else {
			err = c.changedBy(name, changed)
		}
		if err != nil {
			return err
		}
		if len(changed) > maxParts {
			break
		}
	}
	return c.mayChange(cmd, role, changed)
}

// unjudged are the commits of a push that are neither on its branch nor on main. Clients
// may send some that are, too.
func (c *check) unjudged(cmd command, fresh, exits []plumbing.Hash) ([]plumbing.Hash, error) {
	if cmd.remove() {
		return nil, nil
	}
	main, err := readRef(c.repo.dir, mainRef)
	if err != nil {
		return nil, err
	}
	known := some(cmd.Old, main)
	if fresh, err = c.newTo(cmd, fresh, exits, known); err != nil {
		return nil, err
	}
	var unjudged, had []plumbing.Hash
	for _, name := range fresh {
		switch has, err := c.reader.hasCommit(name); {
		case err != nil:
			return nil, err
		case has:
			had = append(had, name)
		default:
			unjudged = append(unjudged, name)
		}
	}
	if len(had) == 0 {
		return unjudged, nil
	}
	// They come with what is below them.
	return c.newTo(cmd, unjudged, had, known)
}

// parts are parts of a repository that differ, by the path below which they do.
type parts map[string]access.Part

// reaches tells whether there is something at a path, or above it.
func (p parts) reaches(at string) bool {
	for ; at != "."; at = path.Dir(at) {
		if _, ok := p[at]; ok {
			return true
		}
	}
	return false
}

// overlap are the parts that are in both: of two, one below the other, the lower one.
func overlap(a, b parts) parts {
	both := parts{}
	for _, side := range [][2]parts{{a, b}, {b, a}} {
		for at, part := range side[0] {
			if side[1].reaches(at) {
				both[at] = part
			}
		}
	}
	return both
}

func (c *check) mayChange(cmd command, role restapi.RepositoryRole, changed parts) error {
	if len(changed) > maxParts {
		return errParts
	}
	for _, at := range slices.Sorted(maps.Keys(changed)) {
		part := changed[at]
		ok, err := c.has(right{role, part})
		if err != nil {
			return err
		}
		if !ok {
			return &ruling{cmd.Ref, fmt.Sprintf("you (%s) may not %s %s, which is %s: the cluster's owner lets you with kubectl gitbind share %s", c.caller.Name, role, abbreviate(at), part, role)}
		}
	}
	return nil
}

// ofBranch is the part that a branch changes/<binding>/<namespace>/<name> is about.
func ofBranch(ref string) access.Part {
	f := strings.Split(strings.TrimPrefix(ref, changesPrefix), "/")
	if len(f) < 3 {
		return access.Part{}
	}
	return part(f[0], f[1])
}

// part is the part of these names; all of the repository for one that could be taken for
// another in RBAC.
func part(binding, namespace string) access.Part {
	if binding == "" || strings.ContainsAny(binding, ":*") {
		return access.Part{}
	}
	return access.Part{Binding: binding, Namespace: namespace}
}

// changedBy adds the parts that a commit changes: a merge those that it has otherwise than
// each of its parents.
func (c *check) changedBy(name plumbing.Hash, changed parts) error {
	commit, err := c.commit(name)
	if err != nil {
		return err
	}
	if len(commit.Parents) == 0 {
		return c.compareRoots(emptyTree, commit.Tree, changed)
	}
	return c.compareAll(commit.Parents, name, changed)
}

// compareAll adds the parts that a commit has otherwise than each of some others.
func (c *check) compareAll(before []plumbing.Hash, after plumbing.Hash, changed parts) error {
	var common parts
	for i, name := range before {
		against := parts{}
		if err := c.compare(name, after, against); err != nil {
			return err
		}
		if i > 0 {
			if err := c.countNames(len(common) + len(against)); err != nil {
				return err
			}
			against = overlap(common, against)
		}
		if common = against; len(common) == 0 {
			break // it has all as this one, or some other one, has it
		}
	}
	maps.Copy(changed, common)
	return nil
}

// compare adds the parts in which two commits differ.
func (c *check) compare(before, after plumbing.Hash, changed parts) error {
	parent, err := c.commit(before)
	if err != nil {
		return err
	}
	child, err := c.commit(after)
	if err != nil {
		return err
	}
	return c.compareRoots(parent.Tree, child.Tree, changed)
}

func (c *check) compareRoots(before, after plumbing.Hash, changed parts) error {
	return c.eachDifference(before, after, func(d difference) error {
		before, after, ok := d.folders()
		if d.name != bindingsDir || !ok {
			changed[d.name] = access.Part{}
			return nil
		}
		return c.eachDifference(before, after, func(d difference) error {
			before, after, ok := d.folders()
			if !ok {
				changed[bindingsDir+"/"+d.name] = access.Part{}
				return nil
			}
			return c.compareBindings(d.name, before, after, changed)
		})
	})
}

// namespacedDirs are the folders of a binding that have one for each namespace.
var namespacedDirs = []string{"claims", "inputs"}

func (c *check) compareBindings(binding string, before, after plumbing.Hash, changed parts) error {
	at := bindingsDir + "/" + binding
	return c.eachDifference(before, after, func(d difference) error {
		before, after, ok := d.folders()
		at := at + "/" + d.name
		if !ok || !slices.Contains(namespacedDirs, d.name) {
			changed[at] = part(binding, "")
			return nil
		}
		return c.eachDifference(before, after, func(d difference) error {
			namespace := d.name
			if _, _, ok := d.folders(); !ok {
				namespace = ""
			}
			changed[at+"/"+d.name] = part(binding, namespace)
			return nil
		})
	})
}

func (c *check) eachDifference(before, after plumbing.Hash, do func(difference) error) error {
	all, err := c.differ(before, after)
	if err == nil {
		err = c.countNames(len(all))
	}
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := do(d); err != nil {
			return err
		}
	}
	return nil
}
