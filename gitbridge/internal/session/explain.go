package session

import (
	"errors"
	"strings"

	"gitbind.dev/gitbridge/store"
)

// ErrNoCredential says that the credential for the repository is not there.
var ErrNoCredential = errors.New("there is no credential for the repository")

// explain is what to say of an error to people.
func explain(err error) Condition {
	var limit *store.LimitError
	var notTaken *store.NotTakenError
	var ssh *store.SSHError
	switch {
	case errors.As(err, &limit):
		v := tooLarge(limit)
		return Condition{"False", string(v.Reason), v.Message}
	case errors.Is(err, ErrNoCredential):
		return Condition{"False", "SecretMissing", "the Secret gitbind-bridge with username and password, or for SSH with ssh-privatekey and known_hosts, is missing in the tenant namespace, or is for a repository on another host"}
	case errors.As(err, &ssh):
		reason := map[error]string{store.ErrHostKey: "HostKeyRefused", store.ErrUnauthorized: "CredentialRefused", store.ErrRepositoryNotFound: "RepositoryNotFound"}[ssh.Kind]
		return Condition{"False", reason, "the repository cannot be opened over SSH with the Secret gitbind-bridge, which is read again at each try: " + ssh.Reason}
	case errors.Is(err, store.ErrUnauthorized):
		return Condition{"False", "CredentialRefused", "the Git host refuses the credential in the Secret gitbind-bridge: it is read again at each try"}
	case errors.Is(err, store.ErrRepositoryNotFound):
		return Condition{"False", "RepositoryNotFound", "the Git host has no such repository, or not for the credential in the Secret gitbind-bridge, which is read again at each try"}
	case errors.Is(err, store.ErrObjectFormat):
		return Condition{"False", "RepositoryUnusable", "the repository names its objects by SHA-256, and only SHA-1 is supported: make one with git init --object-format=sha1, and push to that"}
	case errors.Is(err, store.ErrRejected):
		return Condition{"False", "PushRejected", "the Git host refuses what the bridge pushes: " + rejection(err)}
	case errors.As(err, &notTaken):
		return Condition{"False", "PushNotTaken", "the Git host cannot store what the bridge pushes: " + notTaken.Reason}
	}
	message := "the Git host cannot be reached"
	if c := store.Cause(err); c != "" {
		message += " (" + c + ")"
	}
	message += ": it is tried again"
	if store.IsUntrusted(err) {
		message += ". Whom the bridge trusts it reads from --ca-file when it starts: restart it where that has changed since"
	}
	return Condition{"False", "RepositoryUnreachable", message}
}

// rejection is what the host said, in its words, which come last.
func rejection(err error) string {
	text := err.Error()
	if _, words, ok := strings.Cut(text, store.ErrRejected.Error()+": "); ok {
		return words
	}
	return text
}
