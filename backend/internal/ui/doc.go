// Package ui is the web page: catalogue, clusters, bindings, claims with their
// state and history, rendered on the server and usable without JavaScript.
//
// It shows people what is theirs, and nothing of anybody else: each page asks for
// the cluster in the person's own name first, and a cluster that is somebody
// else's is not there. It changes no text that a person wrote: it grants offers, shares
// repositories, and takes reviews of proposed changes; all else is done with kubectl and
// Git, and the pages say how. It
// refuses requests from other sites, scripts and styles that are not its own
// files, and to show anything of a repository as something else than text:
// anybody who may push could otherwise write on these pages.
//
// A flow per page (catalog.go, clusters.go, binding.go, claim.go, change.go) makes a view,
// which a template shows (templates/). What words and marks a state has is decided
// by pure functions in state.go; what is in Git is gathered by survey.go.
package ui
