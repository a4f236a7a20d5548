package delivery

import (
	"errors"
	"fmt"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
)

// Accept says why a list is not taken: it must be what the bridge says of this very
// claim, and no older than the last one that was taken, if any was.
func (c Claim) Accept(list *contract.SecretList, last int64, o *encryption.Opener) error {
	if o == nil {
		return &Trouble{Reason: NoKey, Message: "No Secret is delivered: this cluster does not know the control plane's key yet. Condition Encryption of the Connection says why."}
	}
	err := o.CheckList(c.Key, list)
	switch {
	case errors.Is(err, encryption.ErrUnknownSigner):
		return listNotTaken(UnknownSigner, err.Error(), "The konnector asks the backend whether the control plane has a new key; if it has not, somebody else wrote to branch status.")
	case err != nil:
		return listNotTaken(NotSigned, err.Error(), "The control plane did not write it so: ask its operator who else writes to branch status.")
	case !c.MayBeAnother && list.UID != "" && list.UID != string(c.UID):
		return listNotTaken(NotForThisClaim, "it is of another claim of this name, with another UID", "The control plane writes another one when it knows this claim.")
	case list.Sequence < last:
		return listNotTaken(Replayed, "it is older than the one that was taken last", "The repository was restored from a backup, or somebody put an old version back: ask the operator of the control plane.")
	}
	return nil
}

func listNotTaken(reason, why, then string) *Trouble {
	return &Trouble{Reason: reason, Message: fmt.Sprintf("The list of this claim's Secrets on branch status is not taken: %s. The Secrets stay as they are. %s", why, then)}
}
