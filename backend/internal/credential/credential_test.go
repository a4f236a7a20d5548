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
