package encryption

import (
	"encoding/json"
	"maps"

	"gitbind.dev/gitbridge/contract"
)

// List says which versions of which Secrets travel with a claim: in the words of the
// present list, if that says so and is this signer's, and otherwise in a new one, whose
// sequence is now or one more than the present one's. It is nil where there is nothing
// to say and never was.
func (s *Signer) List(b Binding, versions map[string]int64, present *contract.SecretList, now int64) *contract.SecretList {
	if len(versions) == 0 {
		if present == nil {
			return nil
		}
		versions = nil
	}
	if present != nil && present.UID == b.UID && maps.Equal(present.Versions, versions) && s.isOwn(b, present) {
		return present
	}
	l := s.sign(b, contract.SecretList{UID: b.UID, Sequence: s.Next(b, present, now), Versions: versions})
	return &l
}

// Next is now, or one more than a claim's present list has if that is later: the clock may have
// been ahead. The list of another signer counts for nothing.
func (s *Signer) Next(b Binding, present *contract.SecretList, now int64) int64 {
	if s.isOwn(b, present) {
		now = max(now, present.Sequence+1)
	}
	return now
}

// isOwn reports whether this signer has signed a list of a claim.
func (s *Signer) isOwn(b Binding, l *contract.SecretList) bool {
	return l != nil && s.sign(b, *l).Signature == l.Signature
}

// sign signs a list of a claim. Equal ones get equal signatures.
func (s *Signer) sign(b Binding, l contract.SecretList) contract.SecretList {
	l.Signature = s.Sign(contract.SecretListKind, listed(b.Cluster, b.Claim, &l))
	return l
}

// listed is what is signed of a list.
func listed(cluster string, claim contract.Key, l *contract.SecretList) []byte {
	// Nothing of it is what JSON cannot say, and keys of maps are sorted.
	data, _ := json.Marshal(struct {
		Cluster, Binding, Namespace, Name, UID string
		Sequence                               int64
		Versions                               map[string]int64 `json:",omitempty"`
	}{cluster, claim.Binding, claim.Namespace, claim.Name, l.UID, l.Sequence, l.Versions})
	return data
}

// CheckList says why a list is not what the bridge says of a claim of this cluster. The
// error is ErrUnknownSigner or ErrSignature.
func (o *Opener) CheckList(claim contract.Key, l *contract.SecretList) error {
	return Verify(o.Keys, contract.SecretListKind, listed(o.Cluster, claim, l), l.Signature)
}
