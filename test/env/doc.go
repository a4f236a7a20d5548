// Package env builds and starts the real parts that gitbind runs against:
// Kubernetes API servers with their etcd and controller manager, Crossplane
// with a composition function and provider-kubernetes, and Dex.
//
// Everything runs as a child process on 127.0.0.1, in a directory of its own
// and on free ports, so that several environments can run beside each other.
// The parts are built from source, once per version, into the user's cache
// directory; nothing but Go, git and a C compiler is needed for that.
//
// The package holds no stand-ins: a part that cannot be built or started is an
// error, never a mock. It starts no pods (there is no node) and it is no way to
// run anything of value: etcd does not wait for the disk.
package env
