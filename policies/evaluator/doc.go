// Package evaluator judges claims by ValidatingAdmissionPolicies without an API
// server, with the verdict and the words that an API server would have.
//
// Parse reads manifests, Compile makes a Set of them, and Set.Evaluate and Set.Judge
// judge one change. A Set never changes and may be used by many goroutines at once;
// when its manifests change, compile another and put it in the place of the first.
//
// Only what every gate can know is judged by: object, oldObject, params, and of request
// the name, namespace, operation and API. A policy that asks for more is refused by
// Compile (refuse.go says what that is), with file, line and expression, unless
// AdmissionOnly labels it as one that only API servers judge.
//
// CEL is compiled and run by the API server's own packages, in the environment and with
// the cost limits that it uses. What is written again here, because the packages that
// have it import gRPC and informers (docs/decisions/2026-11-23-policies.md), is how
// results become a verdict; the tests here and in policies/library hold that beside
// a real API server.
package evaluator
