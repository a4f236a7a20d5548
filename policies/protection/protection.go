// Package protection makes the API server of an app cluster refuse to delete what
// would take claims along: the policies beside this file. A person installs them.
// They protect objects from being lost by a slip; that no service is deleted for
// it is the konnector's own rule, with or without them. Likewise they refuse at once
// what the konnector would undo, where claims are written in Git, and who may not, to pass
// over the review of a change.
package protection

// AllowAnnotation with the value "true" lets a protected object be deleted.
const AllowAnnotation = "gitbind.dev/allow-deletion"
