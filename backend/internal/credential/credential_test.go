package credential

import (
	"strings"
	"testing"
)

func TestTokensAreRecognisableLongAndNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		token := New(KonnectorPrefix)
		if !strings.HasPrefix(token, "gbk_") || len(token) != len("gbk_")+43 {
			t.Fatalf("token %q: want gbk_ and 43 characters (256 bits)", token)
		}
		if seen[token] {
			t.Fatal("the same token twice")
		}
		seen[token] = true
	}
}

func TestMatches(t *testing.T) {
	token := New(BridgePrefix)
	for _, c := range []struct {
		name, hash, token string
		want              bool
	}{
		{"the token itself", Hash(token), token, true},
		{"another token", Hash(token), New(BridgePrefix), false},
		{"no token", Hash(token), "", false},
		{"no hash", "", token, false},
		{"neither", "", "", false},
		{"the hash as the token", Hash(token), Hash(token), false},
	} {
		if got := Matches(c.hash, c.token); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
