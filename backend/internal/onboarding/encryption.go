package onboarding

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/encryption"
)

const (
	// maxKeys is how many keys of a kind an app cluster may register.
	maxKeys = 4
	// maxRegistration is the largest body of a registration, in bytes.
	maxRegistration = 8 << 10
	// registerEvery is how often one cluster's keys may be registered, after registerBurst times
	// at once: for other keys, the bridge seals all its Secrets again.
	registerEvery = time.Second
	registerBurst = 5
)

// mountEncryption adds how a konnector registers the keys of its app cluster.
func (s *Service) mountEncryption(mux *http.ServeMux) {
	mux.Handle("PUT /v1/clusters/{id}/encryption", s.Konnectors.Handle(func(r *http.Request, who access.Caller) (any, error) {
		var in restapi.Registration
		if err := json.NewDecoder(io.LimitReader(r.Body, maxRegistration)).Decode(&in); err != nil {
			return nil, refusal.New(refusal.Invalid, "the keys to register cannot be read: %s", err)
		}
		if err := checkKeys(in.EncryptionKeys); err != nil {
			return nil, err
		}
		if _, wait := s.registrations.Take(who.Cluster, registerEvery, registerBurst, s.Now()); wait > 0 {
			return nil, refusal.New(refusal.Unavailable, "keys were registered several times a moment ago: try again")
		}
		var answer *restapi.Encryption
		// Others write the status of the same object all the time.
		err := decideAgain(func() (err error) {
			answer, err = s.register(r.Context(), who.Cluster, in)
			return err
		})
		return answer, err
	}))
}

// register has the keys of an app cluster replaced. Keys that must not replace those
// that are registered are no error: the answer says so, and what counts. A conflict
// says that it is to be judged again.
func (s *Service) register(ctx context.Context, cluster string, in restapi.Registration) (*restapi.Encryption, error) {
	var cb v1alpha1.ClusterBinding
	if err := s.Live.Get(ctx, client.ObjectKey{Name: cluster}, &cb); err != nil {
		return nil, trouble(fmt.Errorf("get ClusterBinding: %w", err))
	}
	var answer restapi.Encryption
	if cb.Spec.Encryption != nil {
		answer.Registered = *cb.Spec.Encryption
	}
	if b := cb.Status.Bridge; b != nil && b.Encryption != nil {
		answer.Bridge = *b.Encryption
	}
	same := areKeys(answer.Registered.Recipients, in.Recipients) && areKeys(answer.Registered.SigningKeys, in.SigningKeys)
	switch {
	case same && !cb.Spec.AwaitsKeys:
		return &answer, nil
	case same, cb.Spec.AwaitsKeys:
	case encryption.Verify(answer.Registered.SigningKeys, restapi.RegistrationPurpose, in.Message(cluster, answer.Registered), in.Signature) != nil:
		answer.Refused = "other keys are registered, and none of them has signed these: have the cluster's owner connect it again (kubectl gitbind connect)"
		s.Log.WarnContext(ctx, "Keys refused", "cluster", cluster)
		return &answer, nil
	}
	before := cb.DeepCopy()
	cb.Spec.Encryption, cb.Spec.AwaitsKeys = &in.EncryptionKeys, false
	if err := s.patchAsRead(ctx, before, &cb); err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "Keys registered", "cluster", cluster, "recipients", in.Recipients)
	answer.Registered = in.EncryptionKeys
	return &answer, nil
}

// awaitKeys lets the konnector register keys, whichever are registered.
func (s *Service) awaitKeys(ctx context.Context, cluster string) error {
	var cb v1alpha1.ClusterBinding
	if err := s.Live.Get(ctx, client.ObjectKey{Name: cluster}, &cb); err != nil {
		return trouble(fmt.Errorf("get ClusterBinding: %w", err))
	}
	if cb.Spec.AwaitsKeys {
		return nil
	}
	before := cb.DeepCopy()
	cb.Spec.AwaitsKeys = true
	return trouble(s.Client.Patch(ctx, &cb, client.MergeFrom(before), fieldOwner))
}

func checkKeys(k v1alpha1.EncryptionKeys) error {
	if n := len(k.Recipients); n == 0 || n > maxKeys || len(k.SigningKeys) != 1 {
		return refusal.New(refusal.Invalid, "want 1 to %d recipients and one signing key: there are %d and %d", maxKeys, n, len(k.SigningKeys))
	}
	for _, r := range k.Recipients {
		if !encryption.IsRecipient(r) {
			return refusal.New(refusal.Invalid, "%q is no recipient: want age1 and its letters", r)
		}
	}
	if key, err := base64.StdEncoding.Strict().DecodeString(k.SigningKeys[0]); err != nil || len(key) != 32 {
		return refusal.New(refusal.Invalid, "the signing key is not an Ed25519 public key in base64")
	}
	return nil
}

// areKeys compares without order.
func areKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
