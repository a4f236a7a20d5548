//go:build !race

package embedded

// underRace says whether the race detector is on.
const underRace = false
