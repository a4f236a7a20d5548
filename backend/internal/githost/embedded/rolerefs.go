package embedded

import (
	"fmt"
	"regexp"
	"strings"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
)

const (
	mainRef   = contract.MainRef
	statusRef = contract.StatusRef

	changesPrefix   = contract.HeadsPrefix + contract.ChangesPrefix
	conflictsPrefix = contract.HeadsPrefix + contract.ConflictsPrefix

	// bindingsDir is the one folder of the root that the konnector writes.
	bindingsDir = "bindings"
)

// ruling is why a push is refused: which ref, and the words for its author.
type ruling struct {
	Ref   string
	Words string
}

func (r *ruling) Error() string { return r.Ref + ": " + r.Words }

// proposal tells whether ref is a branch of one proposed change, or one that
// keeps a version that lost a conflict.
func proposal(ref string) bool {
	for _, prefix := range []string{changesPrefix, conflictsPrefix} {
		if rest, ok := strings.CutPrefix(ref, prefix); ok && rest != "" {
			return true
		}
	}
	return false
}

// refRules gives why a caller in this role may not make the updates of a push, whatever is in
// them, and nil if they may.
func refRules(role access.Role, req *pushRequest) *ruling {
	changes := 0
	for _, c := range req.Commands {
		if why := refRule(role, c); why != "" {
			return &ruling{c.Ref, why}
		}
		if !recorded(role, c) {
			continue
		}
		if changes++; changes > maxPushedChanges {
			return &ruling{c.Ref, fmt.Sprintf("it sets more than %d change branches: push them in several pushes", maxPushedChanges)}
		}
	}
	return nil
}

// refRule tells whether a caller in this role may make this update at all,
// whatever is in it. It gives "" or the reason why not.
func refRule(role access.Role, c command) string {
	switch {
	case c.create() && c.remove():
		// Git sends this for a delete of a full ref name that the host has not listed.
		return "there is no such branch to delete"
	case c.Ref == mainRef && role == access.Bridge:
		return "the bridge writes the branch status and nothing else: main says what should be, and belongs to the konnector and to people"
	case c.Ref == statusRef && role != access.Bridge:
		return "the branch status says what is, and only the bridge writes it"
	case c.Ref == mainRef || c.Ref == statusRef:
		if c.remove() {
			return "this branch cannot be deleted"
		}
		return ""
	case proposal(c.Ref) && role == access.Bridge:
		return "the bridge writes the branch status and nothing else"
	case role == access.Member && strings.HasPrefix(c.Ref, conflictsPrefix):
		return "the branches conflicts/… are the konnector's and the owner's: push a branch changes/… instead"
	case c.create() && strings.HasPrefix(c.Ref, changesPrefix) && !plainBranch.MatchString(strings.TrimPrefix(c.Ref, changesPrefix)):
		return "the name of a branch changes/… has letters, digits and -._+=@%, each part beginning with a letter or a digit, as others copy it into commands: choose another one"
	case c.create() && blocksClaims(strings.TrimPrefix(c.Ref, changesPrefix)):
		return "a branch that begins with the name of an API is named changes/<api>/<namespace>/<name>: this one would keep the konnector from proposing changes of claims"
	case proposal(c.Ref):
		return ""
	case strings.HasPrefix(c.Ref, "refs/tags/"):
		return "this repository has no tags: push a branch changes/… instead"
	}
	return "only the branches main, changes/… and conflicts/… can be pushed"
}

// blocksClaims tells whether a branch of this name below changes/ stands where Git would put a
// folder for the branches of claims, or the other way round.
func blocksClaims(name string) bool {
	parts := strings.Split(name, "/")
	return strings.Contains(parts[0], ".") && len(parts) != 3
}

// plainBranch are names, without changes/, that no shell reads as anything else.
var plainBranch = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+=@%-]*(/[A-Za-z0-9][A-Za-z0-9._+=@%-]*)*$`)

// mayForce tells whether a branch may be set to a commit that does not descend
// from its head: only the status branch, whose history the bridge cuts.
func mayForce(role access.Role, ref string) bool {
	return role == access.Bridge && ref == statusRef
}

// onlyBindings tells whether commits by this role may change files below
// bindings/ and no others. The paths of members are judged in memberpaths.go.
func onlyBindings(role access.Role) bool { return role == access.Konnector }

// changeOutside gives the first name outside bindings/ in which two root trees differ, or
// "". A root in which bindings is no folder counts as changed there.
func changeOutside(all []difference) string {
	for _, d := range all {
		if _, isFolder := d.after.folder(); d.name != bindingsDir || !isFolder {
			return d.name
		}
	}
	return ""
}

func outsideWords(name string, commit string) string {
	return fmt.Sprintf("the konnector changes files below bindings/ and no others; commit %s changes %q", short(commit), abbreviate(name))
}

func short(hash string) string { return hash[:min(len(hash), 10)] }
