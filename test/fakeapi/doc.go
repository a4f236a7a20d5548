// Package fakeapi mends the fake clients of controller-runtime and client-go where an API
// server does otherwise and a test relies on it, has the errors of an API server as it words
// them and the scheme of our programs, and answers who may do what by RBAC rules.
//
// Behave is the table of what is imitated. The fakes pass it in this package's test, and an
// API server does in that of test/env: what is not in it, no test may rely on. The fakes know
// no schema and no defaults, and the fake client of controller-runtime gives the
// resourceVersion of an object that is gone to the next one of its name.
package fakeapi
