// Package bound makes of an offer's policies what the API server of an app cluster judges
// the claims of one bound API by. It is pure.
//
// A policy comes from Git, so nothing that it says about what it matches counts beyond the
// bound API: its rules are narrowed to that one resource, and only to creating and
// changing claims (a policy for API servers alone may be about deletes, too). That is
// checked a second time by the API server: a policy judges nothing until a binding turns
// it on, and the bindings, which have the same match, are installed by a person. Who
// could write both could read any Secret (docs/decisions/2026-11-24-the-first-gate.md).
//
// It refuses what would give another verdict than at the other gates.
package bound
