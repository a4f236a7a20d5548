package repository

import (
	"errors"
	"fmt"
	"strings"

	"gitbind.dev/gitbridge/store"
)

// Reasons of a condition that is False because of the repository.
const (
	ReasonUnreachable       = "RepositoryUnreachable"
	ReasonCredentialRefused = "CredentialRefused"
	ReasonHostKeyRefused    = "HostKeyRefused"
	ReasonNotFound          = "RepositoryNotFound"
	ReasonRejected          = "PushRejected"
	ReasonNotTaken          = "PushNotTaken"
	ReasonNoCredential      = "SecretMissing"
	ReasonUnusable          = "RepositoryUnusable"
	ReasonTooLarge          = "RepositoryTooLarge"
	ReasonCopied            = "Copied"
	ReasonNotAlone          = "NotAlone"
)

// Explain gives an error's reason and what to say of it to people. Both stay
// the same while the trouble is the same.
func Explain(err error) (reason, message string) {
	var limit *store.LimitError
	var notTaken *store.NotTakenError
	var ssh *store.SSHError
	switch {
	case errors.As(err, &limit) && limit.Passing:
		return ReasonTooLarge, fmt.Sprintf("The branch %s is not read: %s. It is tried again by itself.", limit.Branch, limit.Reason)
	case errors.As(err, &limit):
		return ReasonTooLarge, fmt.Sprintf("The branch %s is at commit %s, and not read: %s. Nothing is written in either direction. Push a commit that takes away what is too much, or set the branch back to one without it: that is followed by itself.", limit.Branch, limit.Head.Short(), limit.Reason)
	case errors.Is(err, ErrCopied):
		return ReasonCopied, "Another copy of this cluster is live, and both are held: the Connection says how to go on."
	case errors.Is(err, ErrNotAlone):
		return ReasonNotAlone, "The konnector was started a moment ago, and the backend has not confirmed yet that no other copy of this cluster is live. What is removed goes when it has: within seconds, if the backend can be reached."
	case errors.Is(err, ErrSuspended):
		return ReasonNoCredential, "The Secret with the credential for the repository is missing. It is tried again when the Secret is there."
	case errors.As(err, &ssh):
		reason = map[error]string{store.ErrHostKey: ReasonHostKeyRefused, store.ErrUnauthorized: ReasonCredentialRefused, store.ErrRepositoryNotFound: ReasonNotFound}[ssh.Kind]
		return reason, "The repository cannot be opened over SSH: " + strings.TrimRight(ssh.Reason, ".") + ". It is tried again by itself."
	case errors.Is(err, ErrOfAnotherHost):
		return ReasonCredentialRefused, "The credential in the Secret is for a repository on another host than that of spec.repositoryURL, which is not shown it. Connect this cluster again (kubectl gitbind connect)."
	case errors.Is(err, store.ErrUnauthorized):
		return ReasonCredentialRefused, "The Git host refuses the credential. Connect this cluster again (kubectl gitbind connect) to get a new one."
	case errors.Is(err, store.ErrRepositoryNotFound):
		return ReasonNotFound, "The Git host has no such repository, or not for this credential. Check spec.repositoryURL of the Connection, or connect this cluster again (kubectl gitbind connect)."
	case errors.Is(err, store.ErrObjectFormat):
		return ReasonUnusable, "The repository names its objects by SHA-256, and only SHA-1 is supported: make one with git init --object-format=sha1, and push to that."
	case errors.Is(err, store.ErrRejected):
		return ReasonRejected, "The Git host rejected the commit: " + err.Error() + ". It is tried again from time to time."
	case errors.As(err, &notTaken):
		return ReasonNotTaken, "The Git host cannot store the commit: " + strings.TrimRight(notTaken.Reason, ".") + ". It is tried again by itself."
	case errors.Is(err, store.ErrConflict):
		return ReasonUnreachable, "Others keep changing main. It is tried again."
	}
	message = "The Git host cannot be reached"
	if c := store.Cause(err); c != "" {
		message += " (" + c + ")"
	}
	return ReasonUnreachable, message + ". It is tried again by itself."
}
