package contract

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
)

// ConflictsPrefix is what the branches begin with that keep versions which lost
// a conflict.
const ConflictsPrefix = "conflicts/"

// conflictID is how much of a blob's name tells the versions of one claim apart.
const conflictID = 10

// ConflictBranch is the branch that keeps a version of a claim which lost a
// conflict: conflicts/<binding>/<namespace>/<name>/<id>. Blob is Git's name of
// the version's file, so the same version is kept once.
func ConflictBranch(k Key, blob string) string {
	id := blob[:min(len(blob), conflictID)]
	return ConflictsPrefix + strings.Join([]string{refPart(k.Binding), refPart(k.Namespace), refPart(k.Name), id}, "/")
}

// ChangesPrefix is what the branches begin with that propose a change of main.
const ChangesPrefix = "changes/"

// ChangeBranch is the branch on which the konnector proposes a change of a claim:
// changes/<binding>/<namespace>/<name>.
func ChangeBranch(k Key) string {
	return ChangesPrefix + strings.Join([]string{refPart(k.Binding), refPart(k.Namespace), refPart(k.Name)}, "/")
}

// BranchPath is a branch as a URL's path has it: each part of its name is escaped.
func BranchPath(branch string) string {
	return strings.ReplaceAll(url.PathEscape(branch), "%2F", "/")
}

// refPart is a name as a component of a ref. What Git does not allow there is
// escaped, as in URLs: no name has a "%". What file systems do not allow is hashed.
func refPart(name string) string {
	const longest = 200
	if len(name) > longest {
		return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(name)))
	}
	if base, ok := strings.CutSuffix(name, ".lock"); ok {
		return base + "%2Elock"
	}
	return name
}
