package encryption

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"

	"gitbind.dev/gitbridge/signing"
)

// Signer signs what one side writes.
type Signer struct {
	key ed25519.PrivateKey
	// digests is the key of digests: others must not find out by them what a value is.
	digests []byte
}

// GenerateSeed makes the secret that a Signer is made of, 32 bytes.
func GenerateSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	// It never fails.
	_, _ = rand.Read(seed)
	return seed
}

// NewSigner makes a Signer of a seed from GenerateSeed.
func NewSigner(seed []byte) (*Signer, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("a signing key's seed has %d bytes: want %d", len(seed), ed25519.SeedSize)
	}
	digests, err := hkdf.Key(sha256.New, seed, nil, "gitbind.dev digest", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key of digests: %w", err)
	}
	return &Signer{key: ed25519.NewKeyFromSeed(seed), digests: digests}, nil
}

// SigningKeyEntry is where the data of a side's Secret has its signing key.
const SigningKeyEntry = "signing.key"

// GenerateSigningKey makes a signing key as it lies in a Secret: a seed in base64.
func GenerateSigningKey() []byte {
	return []byte(base64.StdEncoding.EncodeToString(GenerateSeed()))
}

// ParseSigningKey is the Signer of a signing key as it lies in a Secret.
func ParseSigningKey(text []byte) (*Signer, error) {
	seed, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		// What is wrong might repeat a part of it.
		return nil, errors.New("a signing key is not in base64")
	}
	return NewSigner(seed)
}

// Public is the key to check signatures with, in base64.
func (s *Signer) Public() string {
	return base64.StdEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
}

// Commits signs commits with the same key.
func (s *Signer) Commits() (*signing.Signer, error) { return signing.NewSigner(s.key) }

// Sign signs a message for one purpose, for example "EncryptedSecret": a signature
// for one counts for no other.
func (s *Signer) Sign(purpose string, message []byte) string {
	return s.Public() + ":" + base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, signed(purpose, message)))
}

// digest is a keyed hash of parts.
func (s *Signer) digest(parts ...[]byte) string {
	h := hmac.New(sha256.New, s.digests)
	for _, p := range parts {
		sum := sha256.Sum256(p)
		h.Write(sum[:])
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

var (
	// ErrUnknownSigner says that a signature is by a key that is not known. It may be a
	// new one.
	ErrUnknownSigner = errors.New("it is signed with a key that is not known")
	// ErrSignature says that a signature does not fit what it is of.
	ErrSignature = errors.New("it is not as it was signed")
)

// Verify checks a signature by Sign. keys are those of the signer that count.
func Verify(keys []string, purpose string, message []byte, signature string) error {
	public, sum, ok := strings.Cut(signature, ":")
	if !ok {
		return ErrSignature
	}
	if !slices.Contains(keys, public) {
		return ErrUnknownSigner
	}
	key, err := base64.StdEncoding.Strict().DecodeString(public)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return ErrUnknownSigner
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(sum)
	if err != nil || !ed25519.Verify(key, signed(purpose, message), raw) {
		return ErrSignature
	}
	return nil
}

func signed(purpose string, message []byte) []byte {
	return append([]byte("gitbind.dev "+purpose+"\n"), message...)
}

// GenerateIdentity makes a key to decrypt with: the identity as age's programs take
// it, "AGE-SECRET-KEY-1...", and its recipient, "age1...".
func GenerateIdentity() (identity, recipient string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("make an age key: %w", err)
	}
	return id.String(), id.Recipient().String(), nil
}

// IdentitiesEntry is where the data of a side's Secret has its identities as age-keygen
// writes them, newest first.
const IdentitiesEntry = "age.key"

// keptIdentities is how many identities stay when another one is made: what was encrypted
// to the one before must be read until the other side has encrypted it again.
const keptIdentities = 2

// RotateIdentities puts another identity before those of a file as age-keygen writes it,
// which may be empty.
func RotateIdentities(file []byte) ([]byte, error) {
	identity, recipient, err := GenerateIdentity()
	if err != nil {
		return nil, err
	}
	out := fmt.Appendf(nil, "# public key: %s\n%s\n", recipient, identity)
	left := keptIdentities - 1
	for line := range strings.Lines(string(file)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "AGE-SECRET-KEY-") && left > 0 {
			out = fmt.Appendln(out, line)
			left--
		}
	}
	return out, nil
}

// IsRecipient reports whether a text is a recipient, "age1...".
func IsRecipient(text string) bool {
	_, err := age.ParseX25519Recipient(text)
	return err == nil
}

// Identities are the keys of one side, newest first.
type Identities []*age.X25519Identity

// ParseIdentities reads a file as age-keygen writes it: an identity in each line,
// empty lines and comments between them. The error repeats nothing of it.
func ParseIdentities(file []byte) (Identities, error) {
	var out Identities
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, err := age.ParseX25519Identity(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is no age key: want AGE-SECRET-KEY-1 and its letters", n)
		}
		out = append(out, id)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no age key")
	}
	return out, nil
}

// Recipients are the public keys, "age1...".
func (ids Identities) Recipients() []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.Recipient().String()
	}
	return out
}
