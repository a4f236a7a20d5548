package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"gitbind.dev/backend/internal/refusal"
)

// Claims that can be the username of people; ClaimEmail counts only when the
// issuer has verified it.
const (
	ClaimEmail   = "email"
	ClaimSubject = "sub"
)

// Config says whose tokens count, and how they are read. Claims and prefixes
// must be those of the API server's own OIDC configuration, where it has one:
// RBAC is asked about the name that comes out.
type Config struct {
	// URL is the issuer's, as its tokens say it.
	URL string
	// Audiences are those of which a token must have one.
	Audiences []string
	// CA holds the issuer's CA certificates as PEM; "" means the system's.
	CA string
	// Username and Groups say which claims are the names in RBAC.
	Username, Groups Mapping
	// Required are claims that a token must have with just this value.
	Required map[string]string
	// MaxLifetime is how long a token may live from its issue to its end; 0 means
	// DefaultMaxLifetime.
	MaxLifetime time.Duration

	log *slog.Logger
}

// Mapping reads a name from a claim and puts a prefix before it.
type Mapping struct {
	Claim  string `json:"claim"`
	Prefix string `json:"prefix"`
}

func (c *Config) check() error {
	switch {
	case c.URL == "":
		return errors.New("OIDC issuer: its URL is missing")
	case !private(c.URL):
		return fmt.Errorf("OIDC issuer %s: it must be https, for its keys decide who anybody is (http is for this machine only)", c.URL)
	case len(c.Audiences) == 0 || slices.Contains(c.Audiences, ""):
		return fmt.Errorf("OIDC issuer %s: name the client id that its tokens are for", c.URL)
	case c.Username.Claim == "":
		return fmt.Errorf("OIDC issuer %s: name the claim that is the username", c.URL)
	case slices.Contains(open, strings.TrimSuffix(c.URL, "/")) && len(c.Required) == 0:
		return fmt.Errorf("OIDC issuer %s: anybody can get a token of it: require a claim that only yours have with claimValidationRules in the file of issuers, repository_owner or namespace_path for example", c.URL)
	}
	for _, prefix := range c.prefixes() {
		// Without one, an issuer's group "system:masters" would be that of the
		// control plane.
		if reserved(prefix) {
			return fmt.Errorf("OIDC issuer %s: prefix %q of names: use one that Kubernetes' own names do not have, oidc: for example", c.URL, prefix)
		}
	}
	return nil
}

// kubernetesOwn begin the names that Kubernetes gives a meaning of its own.
var kubernetesOwn = []string{"system:", "kubeadm:"}

// reserved tells whether a name that begins with prefix can be one of Kubernetes'
// own: with "sys", a group "tem:masters" would be system:masters.
func reserved(prefix string) bool {
	return slices.ContainsFunc(kubernetesOwn, func(own string) bool {
		return strings.HasPrefix(own, prefix) || strings.HasPrefix(prefix, own)
	})
}

// private tells whether nobody on the way can read or change what is said to a
// URL: by https, or because it stays on this machine.
func private(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// prefixes are those of all names that the issuer can give.
func (c *Config) prefixes() []string {
	if c.Groups.Claim == "" {
		return []string{c.Username.Prefix}
	}
	return []string{c.Username.Prefix, c.Groups.Prefix}
}

// identity reads a verified token.
func (c *Config) identity(token *oidc.IDToken) (Identity, error) {
	claims := map[string]json.RawMessage{}
	if err := token.Claims(&claims); err != nil {
		return Identity{}, refusal.Because(err, refusal.Unauthenticated, "the ID token's claims cannot be read")
	}
	if token.Subject == "" {
		return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token names no subject")
	}
	for claim, want := range c.Required {
		if got, ok := text(claims[claim]); !ok || got != want {
			return Identity{}, refusal.New(refusal.Unauthenticated, "the ID token's claim %s is not one that may sign in here", claim)
		}
	}
	id := Identity{Issuer: token.Issuer, Subject: token.Subject}
	name, err := c.username(claims)
	if err != nil {
		return Identity{}, err
	}
	id.Username = c.Username.Prefix + name
	id.Groups, err = c.groups(claims)
	return id, err
}

// groups are none when no claim is named for them: its prefix was not checked.
func (c *Config) groups(claims map[string]json.RawMessage) ([]string, error) {
	if c.Groups.Claim == "" {
		return nil, nil
	}
	names, ok := list(claims[c.Groups.Claim])
	if !ok {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token's claim %s is neither a name nor a list of names", c.Groups.Claim)
	}
	if len(names) > mostGroups {
		return nil, refusal.New(refusal.Unauthenticated, "the ID token's claim %s has %d names, at most %d: have its issuer send those only that gitbind needs", c.Groups.Claim, len(names), mostGroups)
	}
	var groups []string
	for _, g := range names {
		if !isName(g) {
			return nil, refusal.New(refusal.Unauthenticated, "the ID token's claim %s has %.40q, which is no name: it is empty, too long or has control characters", c.Groups.Claim, g)
		}
		groups = append(groups, c.Groups.Prefix+g)
	}
	return groups, nil
}

const (
	// longestName is more than any real name has, and fits where it is kept.
	longestName = 512
	// mostGroups is more than issuers put into a token that travels in a header.
	mostGroups = 500
)

// isName tells whether a text can be the name of a user or a group: it is put into
// logs, pages and requests of the API server.
func isName(s string) bool {
	return s != "" && len(s) <= longestName && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func (c *Config) username(claims map[string]json.RawMessage) (string, error) {
	name, ok := text(claims[c.Username.Claim])
	if c.Username.Claim == ClaimEmail {
		var verified bool
		// An address that nobody has confirmed could be anybody's.
		if json.Unmarshal(claims["email_verified"], &verified) != nil || !verified || name == "" {
			return "", refusal.New(refusal.Unauthenticated, "the ID token has no verified email address: ask for the scope email, and have the address confirmed at the issuer")
		}
	}
	if !ok || name == "" {
		return "", refusal.New(refusal.Unauthenticated, "the ID token has no claim %s, which is the username here", c.Username.Claim)
	}
	if !isName(name) {
		return "", refusal.New(refusal.Unauthenticated, "the ID token's claim %s is no username: it is too long or has control characters", c.Username.Claim)
	}
	return name, nil
}

// text is a claim that is a string.
func text(raw json.RawMessage) (s string, ok bool) {
	return s, !missing(raw) && json.Unmarshal(raw, &s) == nil
}

func missing(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// list is a claim that is a list of strings, or one; a missing one is empty.
func list(raw json.RawMessage) (l []string, ok bool) {
	if missing(raw) {
		return nil, true
	}
	if one, ok := text(raw); ok {
		return []string{one}, true
	}
	return l, json.Unmarshal(raw, &l) == nil
}

// unverified are what a token says of itself. Who is asked about it, and words,
// are chosen by them; nothing else.
type unverified struct {
	Issuer string `json:"iss"`
}

// peek reads a token's claims without believing them; nil when it is no token.
func peek(raw string) *unverified {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var u unverified
	if json.Unmarshal(payload, &u) != nil {
		return nil
	}
	return &u
}
