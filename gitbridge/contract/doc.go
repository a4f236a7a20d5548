// Package contract is the contract between an app cluster and the control plane:
// where a claim lies in Git, how it is written there, what comes back, and who
// is named as author. Everything in it is a pure function of its arguments: no
// client, no Git, no clock. It refuses what the contract refuses, with a
// Problem that names file, line and reason, and it never guesses.
package contract
