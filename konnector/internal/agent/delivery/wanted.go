package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/encryption"
)

// wanted is a Secret as it should be.
type wanted struct {
	claim    Claim
	secret   encryption.Secret
	sequence int64
}

// open checks that a file is of this claim, and decrypts it.
func (c Claim) open(s Secret, o *encryption.Opener) (*wanted, error) {
	if v1alpha1.IsSystemNamespace(c.Key.Namespace) {
		return nil, &Trouble{Reason: SystemNamespace, Message: fmt.Sprintf(
			"Secret %s is not taken: no control plane has a say in namespace %s, which has the cluster's own credentials. Make the claim in another namespace.", s.Name, c.Key.Namespace)}
	}
	if o == nil {
		return nil, noKey(s.Name)
	}
	e, secret, err := o.Open(contract.SecretKey{Binding: c.Key.Binding, Namespace: c.Key.Namespace, Name: s.Name}, s.File)
	switch {
	case err != nil:
		return nil, unopened(s.Name, s.File, err)
	case e.Claim.Name != c.Key.Name:
		return nil, notForThisClaim(s.Name, "another claim, "+strconv.QuoteToASCII(e.Claim.Name))
	case !c.is(e.Claim.UID):
		return nil, notForThisClaim(s.Name, "another claim of this name, with another UID")
	case e.Sequence != s.Sequence:
		return nil, notListed(s.Name)
	case encryption.NeverTravels(secret.Type):
		return nil, &Trouble{Reason: Refused, Message: fmt.Sprintf("Secret %s is not taken: its type is %s, which is for this cluster's own credentials.", s.Name, secret.Type)}
	}
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	return &wanted{c, secret, e.Sequence}, nil
}

// is reports whether a Secret that was sealed for a UID is this claim's. As long as the
// control plane knows another object, or none, as after the app cluster was rebuilt from
// main, it seals for that one.
func (c Claim) is(uid string) bool {
	if c.AnsweredUID == string(c.UID) && uid == "" {
		return true
	}
	return uid == c.AnsweredUID
}

func (w *wanted) object() *corev1.Secret {
	return w.over(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.claim.Key.Namespace, Name: w.secret.Name}})
}

// over is a Secret that is there, as it should be. What others put into its metadata
// stays.
func (w *wanted) over(live *corev1.Secret) *corev1.Secret {
	s := live.DeepCopy()
	s.Type, s.Data = w.secret.Type, maps.Clone(w.secret.Data)
	metav1.SetMetaDataLabel(&s.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.ManagedByKonnector)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.SequenceAnnotation, strconv.FormatInt(w.sequence, 10))
	delete(s.Annotations, v1alpha1.AdoptAnnotation)
	s.OwnerReferences = slices.DeleteFunc(s.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Controller != nil && *r.Controller || r.UID == w.claim.UID
	})
	// It goes when the claim is gone, and keeps nobody from deleting that.
	s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{
		APIVersion: w.claim.APIVersion, Kind: w.claim.Kind, Name: w.claim.Key.Name, UID: w.claim.UID, Controller: new(true),
	})
	return s
}

func same(a, b *corev1.Secret) bool {
	return a.Type == b.Type && equality.Semantic.DeepEqual(a.Data, b.Data) && equality.Semantic.DeepEqual(a.ObjectMeta, b.ObjectMeta)
}

// mayWrite says whose a Secret is, where it is not this claim's.
func (c Claim) mayWrite(live *corev1.Secret) error {
	owner := metav1.GetControllerOf(live)
	switch {
	case c.controls(live), c.controlledBefore(live):
		return nil
	case owner != nil:
		return exists(c, live.Name, owner.Kind+" "+owner.Name)
	case live.Annotations[v1alpha1.AdoptAnnotation] == c.Key.Name:
		return nil
	}
	return exists(c, live.Name, "")
}

// controls reports whether a Secret was delivered for this very object.
func (c Claim) controls(live *corev1.Secret) bool {
	owner := metav1.GetControllerOf(live)
	return owner != nil && owner.UID == c.UID
}

// controlledBefore reports whether a Secret was delivered for an object of this name
// that is no more.
func (c Claim) controlledBefore(live *corev1.Secret) bool {
	owner := metav1.GetControllerOf(live)
	if owner == nil || live.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByKonnector {
		return false
	}
	return owner.Kind == c.Kind && owner.Name == c.Key.Name && groupOf(owner.APIVersion) == groupOf(c.APIVersion)
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

// sequenceOf is that of the version that was delivered for this object; 0 for none.
func (c Claim) sequenceOf(live *corev1.Secret) int64 {
	if !c.controls(live) {
		return 0
	}
	n, err := strconv.ParseInt(live.Annotations[v1alpha1.SequenceAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
