package contract

// Refs of a repository. All of its branches have names that begin with HeadsPrefix.
const (
	HeadsPrefix = "refs/heads/"
	MainRef     = HeadsPrefix + "main"
	StatusRef   = HeadsPrefix + "status"
)
