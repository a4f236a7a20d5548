// Package claim keeps the claims of one bound API in step between this cluster
// and Git: for each one it gathers facts, lets package decision decide, and
// acts. It installs nothing, and knows neither Connections nor bindings: the
// caller that starts it for an API says how its schema and its repository are.
//
// In here, package contract is what the clusters have in common
// (gitbridge/contract), and an object is a claim in this cluster.
package claim
