// Package signing signs commits as git does with gpg.format=ssh, and says whose
// signatures count. It reads no repository and knows no agent.
package signing

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// namespace keeps a signature of a commit from counting as one of something else.
const namespace = "git"

// maxSignature bounds what is read of a signature, in bytes: the largest keys in use make
// a twentieth of it.
const maxSignature = 64 << 10

// Signer signs commits.
type Signer struct{ key ssh.Signer }

// NewSigner makes a Signer of a key.
func NewSigner(key ed25519.PrivateKey) (*Signer, error) {
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("make an SSH key: %w", err)
	}
	return &Signer{signer}, nil
}

// Sign is the signature of a commit object's content, as it stands in its header gpgsig.
func (s *Signer) Sign(commit []byte) string {
	signature, err := sshsig.Sign(bytes.NewReader(commit), s.key, sshsig.HashSHA512, namespace)
	if err != nil {
		// An ed25519 key signs whatever it is given.
		return ""
	}
	return string(sshsig.Armor(signature))
}

// Key is the public key; "" without a Signer.
func (s *Signer) Key() Key {
	if s == nil {
		return ""
	}
	return keyOf(s.key.PublicKey())
}

// Key is a public key as OpenSSH writes it, without a comment: "ssh-ed25519 AAAA…". Two
// keys are the same when they are equal.
type Key string

func keyOf(k ssh.PublicKey) Key {
	return Key(k.Type() + " " + base64.StdEncoding.EncodeToString(k.Marshal()))
}

// Ed25519Key is the Key of an ed25519 public key in base64, 32 bytes.
func Ed25519Key(public string) (Key, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(public)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return "", errors.New("it is no ed25519 public key: want 32 bytes in base64")
	}
	key, err := ssh.NewPublicKey(ed25519.PublicKey(raw))
	if err != nil {
		return "", fmt.Errorf("read an ed25519 public key: %w", err)
	}
	return keyOf(key), nil
}

// SignedBy is the key that a commit was signed with; "" where there is no signature, one
// that is not of this commit, or one in another form than SSH's. Whether the key counts,
// it does not ask.
func SignedBy(commit []byte, signature string) Key {
	if signature == "" || len(signature) > maxSignature {
		return ""
	}
	s, err := sshsig.Unarmor([]byte(signature))
	if err != nil || sshsig.Verify(bytes.NewReader(commit), s, s.PublicKey, s.HashAlgorithm, namespace) != nil {
		return ""
	}
	return keyOf(s.PublicKey)
}
