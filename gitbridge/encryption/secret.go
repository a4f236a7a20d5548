package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gitbind.dev/gitbridge/contract"
)

// purpose is what the signatures of EncryptedSecrets are for.
const purpose = contract.EncryptedSecretKind

// ErrTooLarge says that a Secret, or the inputs of a claim, do not fit into a file.
var ErrTooLarge = errors.New("it is too large to travel")

// Binding is what an EncryptedSecret is bound to, beside its name.
type Binding struct {
	// Cluster is the app cluster's id.
	Cluster string
	// Claim is the Secret's claim, whose namespace it shares.
	Claim contract.Key
	// UID is that of the claim in the app cluster, as far as it is known.
	UID string
}

// Secret is what travels.
type Secret struct {
	Name string
	Type corev1.SecretType
	Data map[string][]byte
}

// NeverTravels reports whether Secrets of a type are no data but their cluster's own: a
// credential, which its controllers fill in, or which lets in who knows it; or the whole
// of an installation, as Helm keeps it.
func NeverTravels(t corev1.SecretType) bool {
	return t == corev1.SecretTypeServiceAccountToken || t == corev1.SecretTypeBootstrapToken || strings.HasPrefix(string(t), "helm.sh/")
}

// Seal writes a Secret for recipients, as its version of this sequence.
func (s *Signer) Seal(b Binding, secret Secret, recipients []string, sequence int64) ([]byte, error) {
	plain, err := manifest(b, secret)
	if err != nil {
		return nil, err
	}
	encrypted, err := encrypt(plain, recipients)
	if err != nil {
		return nil, err
	}
	body, err := contract.EncodeEncryptedSecret(&contract.EncryptedSecret{
		Metadata: contract.StatusMeta{Name: secret.Name, Namespace: b.Claim.Namespace},
		Cluster:  b.Cluster, Claim: contract.SecretClaim{Binding: b.Claim.Binding, Name: b.Claim.Name, UID: b.UID},
		Sequence: sequence, Keys: slices.Collect(maps.Keys(secret.Data)), Recipients: recipients,
		Digest: s.digestOf(plain, recipients), Encrypted: encrypted,
	})
	if err != nil {
		return nil, err
	}
	return s.file(purpose, body)
}

// file is a body with its signature.
func (s *Signer) file(purpose string, body []byte) ([]byte, error) {
	file := contract.AppendSignature(body, s.Sign(purpose, body))
	if len(file) > contract.MaxFileSize {
		return nil, ErrTooLarge
	}
	return file, nil
}

// Compare gives the sequence of a file that this signer wrote, 0 of any other, and
// reports whether it says what Seal would write now, whatever the sequence.
func (s *Signer) Compare(file []byte, b Binding, secret Secret, recipients []string) (sequence int64, same bool) {
	e, err := read(file, []string{s.Public()})
	if err != nil {
		return 0, false
	}
	plain, err := manifest(b, secret)
	return e.Sequence, err == nil && e.Digest == s.digestOf(plain, recipients)
}

// digestOf covers all of a file but the sequence: the manifest says what it is bound
// to.
func (s *Signer) digestOf(plain []byte, recipients []string) string {
	parts := [][]byte{plain}
	for _, r := range slices.Sorted(slices.Values(recipients)) {
		parts = append(parts, []byte(r))
	}
	return s.digest(parts...)
}

// Annotations of the encrypted manifest, which say what it is bound to.
const (
	annotationCluster = "gitbind.dev/cluster"
	annotationClaim   = "gitbind.dev/claim"
	annotationUID     = "gitbind.dev/claim-uid"
)

// manifest is the Secret as kubectl takes it.
func manifest(b Binding, s Secret) ([]byte, error) {
	m := corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: b.Claim.Namespace,
			Annotations: map[string]string{annotationCluster: b.Cluster, annotationClaim: b.Claim.String()},
		},
		Type: s.Type, Data: s.Data,
	}
	if b.UID != "" {
		m.Annotations[annotationUID] = b.UID
	}
	data, err := contract.MarshalYAML(m)
	if err != nil {
		return nil, errors.New("the Secret cannot be written as YAML")
	}
	return data, nil
}

func encrypt(plain []byte, recipients []string) (string, error) {
	if len(recipients) == 0 {
		return "", errors.New("there is nobody to encrypt it to")
	}
	var to []age.Recipient
	for _, r := range recipients {
		recipient, err := age.ParseX25519Recipient(r)
		if err != nil {
			return "", fmt.Errorf("%s is no recipient: want age1 and its letters", strconv.QuoteToASCII(r))
		}
		to = append(to, recipient)
	}
	var out bytes.Buffer
	text := armor.NewWriter(&out)
	w, err := age.Encrypt(text, to...)
	if err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	_, err = w.Write(plain)
	if err := errors.Join(err, w.Close(), text.Close()); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	return out.String(), nil
}

// read checks a file's signature, and what it is.
func read(file []byte, keys []string) (*contract.EncryptedSecret, error) {
	body, err := signedBody(file, keys, purpose)
	if err != nil {
		return nil, err
	}
	return contract.DecodeEncryptedSecret(body)
}

// signedBody is what is signed of a file.
func signedBody(file []byte, keys []string, purpose string) ([]byte, error) {
	if len(file) > contract.MaxFileSize {
		return nil, ErrTooLarge
	}
	body, signature, ok := contract.CutSignature(file)
	if !ok {
		return nil, errors.New("it is not signed")
	}
	return body, Verify(keys, purpose, body, signature)
}

// Opener opens what one side of an app cluster's repository gets from the other.
type Opener struct {
	// Cluster is the app cluster's id.
	Cluster string
	// Keys are the other side's, to check signatures with.
	Keys []string
	// Identities are what it may be encrypted to.
	Identities Identities
}

// Equal reports whether both open the same; either may be nil.
func (o *Opener) Equal(other *Opener) bool {
	if o == nil || other == nil {
		return o == other
	}
	return o.Cluster == other.Cluster && slices.Equal(o.Keys, other.Keys) && slices.Equal(o.Identities.Recipients(), other.Identities.Recipients())
}

// Open checks and decrypts the file that lies at a path of status. The error says in
// words for people why it is refused; it is ErrUnknownSigner or ErrSignature, or
// age.ErrIncorrectIdentity where it is not encrypted to the keys that are here.
func (o *Opener) Open(at contract.SecretKey, file []byte) (*contract.EncryptedSecret, Secret, error) {
	e, err := read(file, o.Keys)
	if err != nil {
		return nil, Secret{}, err
	}
	switch {
	case e.Cluster != o.Cluster:
		return nil, Secret{}, fmt.Errorf("it is for another app cluster, %s", strconv.QuoteToASCII(e.Cluster))
	case e.SecretKey() != at:
		return nil, Secret{}, fmt.Errorf("it is of another place, %s", strconv.QuoteToASCII(e.SecretKey().Path()))
	}
	plain, err := o.decrypt(e.Encrypted)
	if err != nil {
		return nil, Secret{}, err
	}
	var m corev1.Secret
	if contract.UnmarshalStrict(plain, &m) != nil {
		return nil, Secret{}, errors.New("what it holds is no Secret")
	}
	if m.Name != at.Name || m.Namespace != at.Namespace || m.Annotations[annotationCluster] != o.Cluster {
		return nil, Secret{}, errors.New("the Secret in it has another name, namespace or cluster")
	}
	return e, Secret{Name: m.Name, Type: m.Type, Data: m.Data}, nil
}

func (o *Opener) decrypt(text string) ([]byte, error) {
	ids := make([]age.Identity, len(o.Identities))
	for i, id := range o.Identities {
		ids[i] = id
	}
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader([]byte(text))), ids...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, fmt.Errorf("it is not encrypted to the key that is here: %w", age.ErrIncorrectIdentity)
	case err != nil:
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, contract.MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("decrypt: %w", err)
	}
	return plain, nil
}
