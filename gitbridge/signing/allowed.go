package signing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Allowed is a key that counts.
type Allowed struct {
	Key Key
	// Principals are whose it is, as the line has them.
	Principals string
	// After and Before bound the time of the commits that it counts for; zero is no
	// bound.
	After, Before time.Time
}

// AllowedSigners are keys that count.
type AllowedSigners []Allowed

// AllowedSigner is a line of such a file for commits signed with one key.
func AllowedSigner(principal string, key Key) string {
	return fmt.Sprintf("%s namespaces=%q %s", principal, namespace, key)
}

// ParseAllowedSigners reads a file in the form of OpenSSH's allowed_signers, which git
// reads, too (gpg.ssh.allowedSignersFile): "principals [options] keytype key [comment]".
// Of the options it knows namespaces, valid-after and valid-before; a line with another
// one is an error, and so is a certificate authority: it would allow less than it says.
// Patterns of principals are not compared with the committer: a key counts for
// anybody who has it.
func ParseAllowedSigners(text string) (AllowedSigners, error) {
	var all AllowedSigners
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		allowed, counts, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the allowed signers: %w", n, err)
		}
		if counts {
			all = append(all, allowed)
		}
	}
	return all, nil
}

// parseLine reads one line; counts is false for one of other namespaces.
func parseLine(line string) (a Allowed, counts bool, err error) {
	var rest string
	a.Principals, rest, _ = strings.Cut(line, " ")
	// The rest has the form of authorized_keys.
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(rest)))
	if err != nil {
		return a, false, fmt.Errorf("want principals, options, a key's type and the key: %w", err)
	}
	a.Key, counts = keyOf(key), true
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			counts = MatchesList(strings.Split(value, ","), func(pattern string) bool { return MatchesPattern(pattern, namespace) })
		case "valid-after":
			a.After, err = parseTime(value)
		case "valid-before":
			a.Before, err = parseTime(value)
		default:
			err = fmt.Errorf("option %s is not understood", name)
		}
		if err != nil {
			return a, false, err
		}
	}
	return a, counts, nil
}

// parseTime reads "YYYYMMDD[HHMM[SS]][Z]". Without Z, OpenSSH takes the machine's time
// zone; all machines are to read the same here, and it is UTC.
func parseTime(text string) (time.Time, error) {
	digits := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if at, err := time.Parse(layout, digits); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want YYYYMMDD[HHMM[SS]]Z", text)
}

// Allows tells whether a key counts for a commit of some time.
func (all AllowedSigners) Allows(key Key, at time.Time) bool {
	return key != "" && slices.ContainsFunc(all, func(a Allowed) bool {
		return a.Key == key && (a.After.IsZero() || !at.Before(a.After)) && (a.Before.IsZero() || at.Before(a.Before))
	})
}
