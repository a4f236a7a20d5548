// Package cli is the kubectl plugin: `kubectl gitbind`.
//
// Each subcommand is a package: flags become an Input, and Do does it. What the
// plugin does in a cluster it does with the rights of the person's kubeconfig,
// and at a backend with the person's own sign-in. It is in no data path: what is
// bound goes on without it.
package cli
