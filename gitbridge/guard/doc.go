// Package guard decides what of a repository's history is followed, and what may go
// because of it: whether a head of main is accepted (judgemain.go), whether the branch
// status is the one that was known (judgestatus.go), whether a removal may go (removals.go),
// whether a file has moved (movedfile.go), and what an approval covers (approval.go). Both
// agents ask it, each with the facts of its side, and each question is answered by one
// Verdict.
//
// It is pure: it has no client, no Git and no clock. What it needs to know of history
// comes in as facts, or is asked of its caller. It carries nothing out, writes no
// checkpoint, and words nothing for people: what they can do differs between the two
// clusters.
package guard
