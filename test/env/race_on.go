//go:build race

package env

// underRace says whether the race detector is on.
const underRace = true
