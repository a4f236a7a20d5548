// Package credential makes and compares the tokens that open one repository:
// the konnector's and the bridge's. It keeps nothing, and it never returns
// whether a token was nearly right. Konnectors' are issued, renewed, replaced
// and revoked by package keyring, as package onboarding is asked to.
package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Prefixes of tokens, so that secret scanners and people recognise them.
const (
	KonnectorPrefix = "gbk_"
	BridgePrefix    = "gbb_"
)

// Usernames of HTTP basic.
const (
	KonnectorUser = "konnector"
	BridgeUser    = "bridge"
)

// New is a new token of 256 random bits.
func New(prefix string) string {
	var b [tokenBytes]byte
	// crypto/rand.Read never fails: it ends the program when the system has no
	// randomness to give.
	_, _ = rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// tokenBytes are the random bytes of a token.
const tokenBytes = 32

// IsToken tells whether a text could have been made by New: whatever could not
// needs no looking up.
func IsToken(prefix, token string) bool {
	rest, ok := strings.CutPrefix(token, prefix)
	b, err := base64.RawURLEncoding.DecodeString(rest)
	return ok && err == nil && len(b) == tokenBytes
}

// Hash is what is kept of a token: hexadecimal SHA-256. A token has 256 random
// bits, so neither salt nor a slow hash would add anything.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
