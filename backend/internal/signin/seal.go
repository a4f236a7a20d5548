package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// KeySize is the length of a seal's key.
const KeySize = 32

// Seal keeps what is in a cookie from being read or changed: AES-256-GCM under
// a key that does not leave this side.
type Seal struct{ aead cipher.AEAD }

// NewSeal takes a key of KeySize bytes that is random.
func NewSeal(key []byte) (*Seal, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("session key has %d bytes: want %d", len(key), KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Seal{aead: aead}, nil
}

// NewKey makes a key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// seal makes a cookie's value. What is sealed for one purpose cannot be opened
// for another.
func (s *Seal) seal(purpose string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose))), nil
}

var errSeal = errors.New("the seal is broken")

func (s *Seal) open(purpose, value string, v any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return errSeal
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return errSeal
	}
	return json.Unmarshal(plain, v)
}
