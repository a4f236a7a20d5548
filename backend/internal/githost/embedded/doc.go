// Package embedded is the Git host that comes with the backend: a front end in
// Go over ordinary bare repositories and the git program. Git does what Git is
// good at (quarantine, compare-and-swap, connectivity, storage); the front end
// authenticates, and looks at every push before git sees it: which branches,
// which new commits, whose identity, which paths.
//
// What agents and people push one change at a time goes without git, in a tenth of the
// time: a small pack of plain objects, on top of its branch (direct.go, plain.go,
// connectivity.go, storepack.go), and the same bytes again for the agent that waits for them
// (recent.go). Of a pack with deltas, as stock git sends it, one of whole objects is made.
// It is a part of what git would take, checked as strictly; all else goes to git, and the
// repository on the disk is an ordinary one.
//
// It refuses the dumb protocol, tags and any other ref, push options and
// certificates, and it never reads a slow client's request while it holds a
// repository's queue.
//
// The rules are pure functions (rules.go, ident.go); what they are applied to
// is taken from the received pack and, where that does not suffice, from the
// repository (check.go). Which paths people may change with whom a repository is
// shared is what they have rights on: the control plane is asked (memberpaths.go).
package embedded
