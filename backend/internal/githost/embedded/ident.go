package embedded

import (
	"fmt"
	"regexp"
	"strings"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store/limits"
)

// controlPlaneDomain is that of gitbind's own components in the control plane.
const controlPlaneDomain = "control-plane." + contract.ReservedDomain

// ident is "name <email> seconds zone", as git writes it in a commit.
var ident = regexp.MustCompile(`^[^<>\x00\n]*<([^<>\x00\n ]+)> [0-9]+ [+-][0-9]{4}$`)

// identityRule tells whether a caller may push a new commit with this author
// and committer. It gives "" or the reason why not.
func identityRule(caller access.Caller, c commit) string {
	if len(c.Message) > limits.Message {
		return fmt.Sprintf("its message has %d bytes, at most %d: shorten it with git commit --amend", len(c.Message), limits.Message)
	}
	// Git shows a commit's lines decoded, and what is harmless text in one
	// encoding is an @ in another.
	if c.Encoding != "" && !strings.EqualFold(c.Encoding, "UTF-8") {
		return fmt.Sprintf("its encoding is %q: commit in UTF-8, with git config --unset i18n.commitEncoding", abbreviate(c.Encoding))
	}
	for _, id := range []struct{ what, line string }{{"author", c.Author}, {"committer", c.Committer}} {
		if why := identRule(caller, id.what, id.line); why != "" {
			return why
		}
	}
	if caller.Role == access.Konnector || caller.Role == access.Bridge {
		return ""
	}
	return messageRule(c.Message)
}

// credit begins a line that names a person: Co-authored-by, Signed-off-by and
// their like, in each way that git reads.
var credit = regexp.MustCompile(`(?i)^[a-z0-9-]*-by\s*:`)

// messageRule refuses a person's message that names a user of an app cluster as
// one who took part: histories show that beside the author.
func messageRule(message string) string {
	if !strings.Contains(strings.ToLower(message), contract.ReservedDomain) {
		return ""
	}
	first := "" // of a line that goes on in the lines below it
	for line := range strings.Lines(message) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			first = line
		}
		if credit.MatchString(first) && strings.Contains(strings.ToLower(line), contract.ReservedDomain) {
			return fmt.Sprintf("its message has the line %q, and only gitbind's own agents name somebody of %s: take it out with git commit --amend (in a commit below the last, with git rebase -i)",
				abbreviate(strings.TrimSpace(line)), contract.ReservedDomain)
		}
	}
	return ""
}

// maxIdent is how long the line of an author or a committer may be, in bytes.
const maxIdent = 1 << 10

func identRule(caller access.Caller, what, line string) string {
	if len(line) > maxIdent {
		return fmt.Sprintf("its %s line has %d bytes, at most %d: set a shorter user.name and user.email", what, len(line), maxIdent)
	}
	m := ident.FindStringSubmatch(line)
	if m == nil {
		return fmt.Sprintf("its %s line %q is not of the form: name <email> seconds zone", what, abbreviate(line))
	}
	switch caller.Role {
	case access.Konnector:
		if domain := contract.ClusterDomain(caller.Cluster); !ofDomain(m[1], domain) {
			return fmt.Sprintf("its %s is <%s>, but the konnector of cluster %s commits as <…@%s> only", what, abbreviate(m[1]), caller.Cluster, domain)
		}
		return ""
	case access.Bridge:
		if !ofDomain(m[1], controlPlaneDomain) {
			return fmt.Sprintf("its %s is <%s>, but the bridge commits as <…@%s> only", what, abbreviate(m[1]), controlPlaneDomain)
		}
		return ""
	}
	// Anywhere in the line, not only as the address's domain: a name that looks
	// like a reserved address would fool a reader just as well.
	if strings.Contains(strings.ToLower(line), contract.ReservedDomain) {
		return fmt.Sprintf("its %s names %s, a domain that only gitbind's own agents commit as; set your own with: git commit --amend --reset-author", what, contract.ReservedDomain)
	}
	return ""
}

// ofDomain tells whether email is a local part, one @, and exactly this domain.
func ofDomain(email, domain string) bool {
	local, ok := strings.CutSuffix(email, "@"+domain)
	return ok && local != "" && !strings.Contains(local, "@")
}
