package gitstore

import (
	"regexp"
	"strings"

	"gitbind.dev/gitbridge/store"
)

// sshWords are those by which hosts surely say that a repository is not there, or that a key
// may not do that: OpenSSH with git, Gitea and Forgejo, GitHub, GitLab. SSH has no status
// codes, and all else may be trouble that passes.
var sshWords = []struct {
	kind error
	line *regexp.Regexp
}{
	{store.ErrRepositoryNotFound, regexp.MustCompile(`^fatal: '.*' does not appear to be a git repository$`)},
	{store.ErrRepositoryNotFound, regexp.MustCompile(`^(Gitea|Forgejo|error): Cannot find repository:? `)},
	{store.ErrUnauthorized, regexp.MustCompile(`^(Gitea|Forgejo|error): .*[kK]ey: .* is not authorized to (read|write to) `)},
	{store.ErrUnauthorized, regexp.MustCompile(`^(Gitea|Forgejo|error): (Cannot find key: |Your account is disabled)`)},
	{store.ErrRepositoryNotFound, regexp.MustCompile(`^ERROR: Repository not found\.$`)},
	{store.ErrUnauthorized, regexp.MustCompile(`^ERROR: Permission to .* denied to `)},
	{store.ErrUnauthorized, regexp.MustCompile(`^ERROR: The key you are authenticating with has been marked as read only`)},
	{store.ErrRepositoryNotFound, regexp.MustCompile(`^(ERROR|GitLab): (The project you were looking for could not be found|A repository for this project does not exist yet)`)},
	{store.ErrUnauthorized, regexp.MustCompile(`^(ERROR|GitLab): (You are not allowed to (upload|download|push) code|(This|The) deploy key does not have write access)`)},
}

// kindOfWords is the kind of error that words of a host are; nil for one that passes.
func kindOfWords(words string) error {
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "remote: "))
		for _, w := range sshWords {
			if w.line.MatchString(line) {
				return w.kind
			}
		}
	}
	return nil
}

// keyRefused reports whether a handshake ended because the host does not take the key, and
// not while it was asked. The library has no types for these.
func keyRefused(err error) bool {
	return strings.Contains(err.Error(), "ssh: unable to authenticate") || strings.Contains(err.Error(), "Too many authentication failures")
}
