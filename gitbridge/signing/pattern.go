package signing

import (
	"regexp"
	"strings"
)

// MatchesList reports whether a list of OpenSSH's patterns holds for something: one of them
// matches, and none that has a "!" before it.
func MatchesList(patterns []string, matches func(pattern string) bool) (yes bool) {
	for _, p := range patterns {
		p, not := strings.CutPrefix(p, "!")
		if !matches(p) {
			continue
		}
		if not {
			return false
		}
		yes = true
	}
	return yes
}

var wildcards = strings.NewReplacer(`\*`, `.*`, `\?`, `.`)

// MatchesPattern reports whether a pattern of OpenSSH, with "*" for any characters and "?" for
// one, matches a text.
func MatchesPattern(pattern, text string) bool {
	yes, err := regexp.MatchString("^"+wildcards.Replace(regexp.QuoteMeta(pattern))+"$", text)
	return yes && err == nil
}
