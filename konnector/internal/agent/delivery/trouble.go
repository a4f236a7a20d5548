package delivery

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
)

// unopened says why a file is not taken.
func unopened(name string, file []byte, err error) *Trouble {
	_, _, signed := contract.CutSignature(file)
	no := func(reason, then string) *Trouble {
		return &Trouble{Reason: reason, Message: fmt.Sprintf("Secret %s is not taken: %s. %s", name, err, then)}
	}
	switch {
	case errors.Is(err, encryption.ErrUnknownSigner):
		return no(UnknownSigner, "The konnector asks the backend whether the control plane has a new key; if it has not, somebody else wrote to branch status.")
	case errors.Is(err, encryption.ErrTooLarge):
		return no(TooLarge, "The operator of the control plane must make the Secret smaller.")
	case errors.Is(err, encryption.ErrSignature), !signed:
		return no(NotSigned, "The control plane did not write it so: ask its operator who else writes to branch status.")
	case errors.Is(err, age.ErrIncorrectIdentity):
		return no(NoKey, "The control plane encrypts it again when it knows the key; condition Encryption of the Connection says whether it does.")
	}
	return no(Refused, "Ask the operator of the control plane.")
}

// NotSent says why the control plane does not send a Secret; contract.AllSecrets is for all of them.
func NotSent(name, why string) *Trouble {
	if name == contract.AllSecrets {
		return &Trouble{Reason: Withheld, Message: "The control plane sends no Secrets: " + strings.TrimSuffix(why, ".") + "."}
	}
	return &Trouble{Reason: Withheld, Message: fmt.Sprintf("The control plane does not send Secret %s: %s.", name, strings.TrimSuffix(why, "."))}
}

func noKey(name string) *Trouble {
	return &Trouble{Reason: NoKey, Message: fmt.Sprintf("Secret %s cannot be opened: this cluster has no key yet, or does not know the control plane's. Condition Encryption of the Connection says why.", name)}
}

func notForThisClaim(name string, why string) *Trouble {
	return &Trouble{Reason: NotForThisClaim, Message: fmt.Sprintf("Secret %s is not taken: it is of %s. Ask the operator of the control plane.", name, why)}
}

// notListed says that a file is of another version than the list has.
func notListed(name string) *Trouble {
	return &Trouble{Reason: Replayed, Message: fmt.Sprintf("Secret %s is not taken: its file on branch status is of another version than the control plane lists. Ask its operator who else writes to branch status.", name)}
}

// exists says that a Secret of that name is somebody else's.
func exists(c Claim, name, owner string) *Trouble {
	whose := "is not this claim's"
	if owner != "" {
		whose = "is controlled by " + owner
	}
	return &Trouble{Reason: SecretExists, Retry: true, Message: fmt.Sprintf(
		"Secret %s exists and %s: it is left as it is, and the service's is not delivered. Delete it, or hand it over to this claim, which overwrites it: kubectl annotate secret -n %s %s %s=%s --overwrite",
		name, whose, c.Key.Namespace, name, v1alpha1.AdoptAnnotation, c.Key.Name)}
}

func replayed(c Claim, name string) *Trouble {
	return &Trouble{Reason: Replayed, Retry: true, Message: fmt.Sprintf(
		"Secret %s is newer here than on branch status: the repository was restored from a backup, or somebody put an old version back. It is left as it is. If the old one is right, delete this one, and the old one comes within a minute: kubectl delete secret -n %s %s",
		name, c.Key.Namespace, name)}
}

func forbidden(c Claim, name string) *Trouble {
	return &Trouble{Reason: Forbidden, Retry: true, Message: fmt.Sprintf(
		"The konnector may not write Secret %s in namespace %s: its right is missing (ClusterRole gitbind-konnector-secrets), or a quota is used up. To install what is missing: kubectl gitbind connect", name, c.Key.Namespace)}
}
