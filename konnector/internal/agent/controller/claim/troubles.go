package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/brief"
)

// maxTroubles is how many troubles of a claim are told of at once.
const maxTroubles = 3

// trouble is a part of a condition.
type trouble struct{ reason, message string }

// sumTroubles is a condition's reason and message for several troubles, of which there is
// at least one.
func sumTroubles(all []trouble) (reason, message string) {
	slices.SortFunc(all, func(a, b trouble) int {
		return cmp.Or(strings.Compare(a.reason, b.reason), strings.Compare(a.message, b.message))
	})
	var words []string
	for _, t := range all[:min(len(all), maxTroubles)] {
		words = append(words, t.message)
	}
	if more := len(all) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("And %d more.", more))
	}
	return all[0].reason, strings.Join(words, " ")
}

// shortened names the first of some objects.
func shortened(names []string) string { return brief.List(names, 10, ", ") }
