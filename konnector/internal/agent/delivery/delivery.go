// Package delivery brings the Secrets of a claim, which lie encrypted on the branch
// status, into the claim's namespace, and takes them away again.
//
// It takes nothing that the bridge did not sign for this very claim, and no older
// version than was taken before. It touches no Secret that is not its claim's, and
// reads none: the API server shows it only what it may write (see Deliverer.read).
// It decides neither when nor which.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/admission"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
)

// Claim is whose Secrets they are.
type Claim struct {
	Key contract.Key
	// APIVersion, Kind and UID are those of its object.
	APIVersion, Kind string
	UID              types.UID
	// AnsweredUID is the UID of the object that the control plane knows; "" as long as
	// it knows none.
	AnsweredUID string
	// MayBeAnother says that it may know the claim by another object, as this one agreed
	// with main without a commit that names it: the app cluster was rebuilt from main.
	MayBeAnother bool
}

// Secret is one that the control plane lists, as this version.
type Secret struct {
	Name     string
	Sequence int64
	// File is the EncryptedSecret.
	File []byte
	// Known says that it was delivered before, as far as is known.
	Known bool
}

// Trouble is why a Secret is not delivered as it should be. What was delivered before
// stays as it is.
type Trouble struct {
	// Reason is one word for programs, Message a sentence for people. It repeats no
	// value.
	Reason, Message string
	// Retry says that it may pass without a change in Git.
	Retry bool
}

func (t *Trouble) Error() string { return t.Message }

// Reasons of a Trouble.
const (
	SecretExists    = "SecretExists"
	SystemNamespace = "SystemNamespace"
	UnknownSigner   = "UnknownSigner"
	NotSigned       = "NotSigned"
	NoKey           = "NoKey"
	NotForThisClaim = "NotForThisClaim"
	Replayed        = "Replayed"
	Refused         = "Refused"
	Forbidden       = "Forbidden"
	Terminating     = "Terminating"
	TooLarge        = "TooLarge"
	Missing         = "Missing"
	Failed          = "Failed"
	Withheld        = "Withheld"
)

// Deliverer writes Secrets.
type Deliverer struct {
	Client client.Writer
	// FieldOwner is who writes, in managedFields.
	FieldOwner client.FieldOwner
}

// handedOver is how an API server names the policy of `kubectl gitbind connect` by which the
// konnector touches only what it delivered, or was given.
const handedOver = "ValidatingAdmissionPolicy 'gitbind-konnector-secrets'"

// maxTries is how often a Secret that changes meanwhile is looked at.
const maxTries = 4

// Deliver makes a claim's namespace have a Secret as its file says, and returns the
// sequence of the version that is there then. The error is a Trouble where people
// should know of it; the sequence is then that of the version that was kept, 0 if that
// was not looked at.
func (d Deliverer) Deliver(ctx context.Context, c Claim, s Secret, o *encryption.Opener) (int64, error) {
	want, err := c.open(s, o)
	if err != nil {
		return 0, err
	}
	known := s.Known
	for range maxTries {
		if !known {
			err := d.Client.Create(ctx, want.object(), d.FieldOwner)
			if apierrors.IsAlreadyExists(err) {
				known = true
				continue
			}
			if err != nil {
				return 0, d.failed(c, s.Name, err)
			}
			return want.sequence, nil
		}
		live, err := d.read(ctx, c, s.Name)
		if live == nil && err == nil {
			known = false
			continue
		}
		if err != nil {
			return 0, d.failed(c, s.Name, err)
		}
		sequence, err := d.bringUpToDate(ctx, want, live)
		if !admission.Stale(err) {
			return sequence, d.failed(c, s.Name, err)
		}
	}
	return 0, &Trouble{Reason: Failed, Retry: true, Message: fmt.Sprintf("Secret %s is not delivered: somebody in this cluster keeps changing it. It is tried again by itself.", s.Name)}
}

// bringUpToDate makes a Secret that is there what it should be. A conflict says that it
// is to be looked at again.
func (d Deliverer) bringUpToDate(ctx context.Context, want *wanted, live *corev1.Secret) (int64, error) {
	if err := want.claim.mayWrite(live); err != nil {
		return 0, err
	}
	kept := want.claim.sequenceOf(live)
	if kept > want.sequence {
		return kept, replayed(want.claim, live.Name)
	}
	next := want.over(live)
	if same(next, live) {
		return want.sequence, nil
	}
	if next.Type != live.Type || live.Immutable != nil && *live.Immutable {
		// A type cannot be changed. It is created when it is looked at again.
		if err := d.delete(ctx, live); err != nil {
			return kept, err
		}
		return 0, apierrors.NewConflict(corev1.Resource("secrets"), live.Name, errors.New("it is made again"))
	}
	// A patch, as to update Secrets is not among the konnector's rights.
	if err := d.Client.Patch(ctx, next, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), d.FieldOwner); err != nil {
		return kept, err
	}
	return want.sequence, nil
}

// Remove deletes a Secret that was delivered for this claim. Any other one stays.
func (d Deliverer) Remove(ctx context.Context, c Claim, name string) error {
	live, err := d.read(ctx, c, name)
	switch {
	case live == nil && err == nil, errors.As(err, new(*Trouble)):
		return nil
	case err != nil:
		return d.failed(c, name, err)
	case !c.controls(live) && !c.controlledBefore(live):
		return nil
	}
	return d.failed(c, name, client.IgnoreNotFound(d.delete(ctx, live)))
}

func (d Deliverer) delete(ctx context.Context, live *corev1.Secret) error {
	return d.Client.Delete(ctx, live, client.Preconditions{UID: new(live.UID), ResourceVersion: new(live.ResourceVersion)})
}

// read is a Secret as it is, nil where there is none.
//
// It is the answer to a patch that would change nothing and is not carried out. To get
// Secrets would be the right to read any one in the cluster, as roles know no labels;
// patches pass a policy, which lets the konnector touch only what it delivered
// or what was handed over to it.
func (d Deliverer) read(ctx context.Context, c Claim, name string) (*corev1.Secret, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Key.Namespace, Name: name}}
	err := d.Client.Patch(ctx, s, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll, d.FieldOwner)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case admission.Denied(err) && strings.Contains(err.Error(), handedOver):
		return nil, exists(c, name, "")
	case err != nil:
		return nil, err
	case s.DeletionTimestamp != nil:
		return nil, &Trouble{Reason: Terminating, Retry: true, Message: fmt.Sprintf("Secret %s is being deleted, and something keeps it: it is delivered again when it is gone.", name)}
	}
	return s, nil
}

// failed turns the API server's no into words. It repeats of it only which fields are
// wrong, as the rest might be a value.
func (d Deliverer) failed(c Claim, name string, err error) error {
	var status apierrors.APIStatus
	if err == nil || errors.As(err, new(*Trouble)) || !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &Trouble{Reason: Terminating, Message: fmt.Sprintf("Namespace %s is being deleted: Secret %s is not delivered there.", c.Key.Namespace, name)}
	case s.Code == http.StatusForbidden:
		return forbidden(c, name)
	case admission.Stale(err):
		return fmt.Errorf("deliver Secret %s/%s: it changed meanwhile", c.Key.Namespace, name)
	case s.Code == http.StatusInternalServerError:
		return &Trouble{Reason: Failed, Retry: true, Message: fmt.Sprintf(
			"Secret %s could not be written: this cluster's API server has an internal error, such as an admission webhook that does not answer. It is tried again by itself.", name)}
	case s.Code == http.StatusBadRequest, s.Code == http.StatusUnprocessableEntity, s.Code == http.StatusRequestEntityTooLarge:
		var fields []string
		if s.Details != nil {
			for _, cause := range s.Details.Causes {
				fields = append(fields, cause.Field)
			}
		}
		slices.Sort(fields)
		return &Trouble{Reason: Refused, Retry: true, Message: fmt.Sprintf(
			"Secret %s is refused by this cluster's API server (%s %s). The operator of the control plane must change the Secret there, or who administers this cluster the rule.",
			name, s.Reason, strings.Join(slices.Compact(fields), ", "))}
	}
	// A webhook may say no with any code.
	return &Trouble{Reason: Failed, Retry: true, Message: fmt.Sprintf(
		"Secret %s could not be written: this cluster's API server says no (%d %s). It is tried again by itself.", name, s.Code, s.Reason)}
}
