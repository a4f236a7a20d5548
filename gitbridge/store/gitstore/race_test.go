//go:build race

package gitstore_test

// underRace says whether the race detector is on.
const underRace = true
