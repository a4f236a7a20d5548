package gitstore

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"gitbind.dev/gitbridge/signing"
	"gitbind.dev/gitbridge/store"
)

// hostKeys are the keys of one host, by a file known_hosts of OpenSSH. x/crypto reads such
// files from a disk only. Lines @cert-authority do not count.
type hostKeys struct {
	// address is host:port, and name what the file calls it.
	address, name  string
	known, revoked []ssh.PublicKey
}

func hostKeysOf(address string, file []byte) *hostKeys {
	k := &hostKeys{address: address, name: strings.ToLower(knownhosts.Normalize(address))}
	for line := range bytes.Lines(file) {
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
		switch {
		case err != nil || !signing.MatchesList(hosts, func(pattern string) bool { return matches(pattern, k.name) }):
			// As OpenSSH does: what is no line is no key.
		case marker == "revoked":
			k.revoked = append(k.revoked, key)
		case marker == "":
			k.known = append(k.known, key)
		}
	}
	return k
}

// matches reports whether a pattern of a line is one of a host, as it is or hashed.
func matches(pattern, name string) bool {
	hashed, ok := strings.CutPrefix(pattern, "|1|")
	if !ok {
		return signing.MatchesPattern(strings.ToLower(pattern), name)
	}
	salt, sum, _ := strings.Cut(hashed, "|")
	key, errKey := base64.StdEncoding.DecodeString(salt)
	want, errSum := base64.StdEncoding.DecodeString(sum)
	mac := hmac.New(sha1.New, key)
	mac.Write([]byte(name))
	return errKey == nil && errSum == nil && hmac.Equal(mac.Sum(nil), want)
}

// algorithms are those that are asked for, first those of known keys: a host has several
// keys, and shows one.
func (k *hostKeys) algorithms() []string {
	all := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	unknown := func(algorithm string) int {
		if slices.ContainsFunc(k.known, func(key ssh.PublicKey) bool {
			return key.Type() == algorithm || key.Type() == ssh.KeyAlgoRSA && strings.HasPrefix(algorithm, "rsa-")
		}) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(unknown(a), unknown(b)) })
	return all
}

// check is an ssh.HostKeyCallback.
func (k *hostKeys) check(_ string, _ net.Addr, shown ssh.PublicKey) error {
	is := func(key ssh.PublicKey) bool { return bytes.Equal(key.Marshal(), shown.Marshal()) }
	host, port, _ := net.SplitHostPort(k.address)
	what := fmt.Sprintf("%s shows the key %s (%s)", k.name, ssh.FingerprintSHA256(shown), shown.Type())
	scan := fmt.Sprintf("ssh-keyscan -p %s %s", port, host)
	switch {
	case slices.ContainsFunc(k.revoked, is):
		return &store.SSHError{Kind: store.ErrHostKey, Reason: what + ", which known_hosts has as revoked"}
	case slices.ContainsFunc(k.known, is):
		return nil
	case len(k.known) == 0:
		return &store.SSHError{Kind: store.ErrHostKey, Reason: what + ", and known_hosts has none of it. If it is the one that those who run the host name, add the lines that " + scan + " prints"}
	}
	return &store.SSHError{Kind: store.ErrHostKey, Reason: what + ", and known_hosts has another one: somebody else may be in its place. If those who run the host say that it has a new key, replace the lines by those that " + scan + " prints"}
}
