// Package cli is the kubectl plugin: `kubectl gitbind`.
//
// Each subcommand is a package: its command.go has its help and its flags, which
// become an Input, and Do does it; package command has the order in which that
// happens, and what several have in common. What the plugin does in a cluster it
// does with the rights of the person's kubeconfig, and at a backend with the
// person's own sign-in. It is in no data path: what is bound goes on without it.
package cli
