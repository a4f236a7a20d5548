package contract

import (
	"net/url"
	"strings"
	"unicode"
)

// ReservedDomain is the domain of all identities that gitbind writes into
// commits. Hosts refuse it from anybody else.
const ReservedDomain = "gitbind.dev"

// UnknownUser is the author of a change that nobody was seen making.
const UnknownUser = "unknown"

// userPrefix stands before the name of a user who is called as something else that
// commits for a cluster.
const userPrefix = "user:"

// Identity is how a user of an app cluster is named in Git: the name as the
// API server knows it, and an address in the reserved domain. No two users have the
// same address, and none has that of a component, or shows its name.
func Identity(user, clusterID string) (name, email string) {
	name = shown(user)
	if name == "" {
		return ComponentIdentity(UnknownUser, clusterID)
	}
	if strings.EqualFold(name, Konnector) || strings.EqualFold(name, UnknownUser) || strings.HasPrefix(name, userPrefix) {
		name, user = userPrefix+name, userPrefix+user
	}
	return name, url.QueryEscape(user) + "@" + ClusterDomain(clusterID)
}

// ComponentIdentity is that of Konnector, and of UnknownUser.
func ComponentIdentity(component, clusterID string) (name, email string) {
	return component, component + "@" + ClusterDomain(clusterID)
}

// shown is a user's name without what ends a line of a commit, and what cannot be
// seen.
func shown(user string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '<' || r == '>' {
			return -1
		}
		return r
	}, user))
}

// ClusterDomain is the mail domain of an app cluster's users.
func ClusterDomain(clusterID string) string { return clusterID + ".clusters." + ReservedDomain }

// PeopleDomain is the mail domain of those whom the backend has let in.
const PeopleDomain = "people." + ReservedDomain

// PersonIdentity is how somebody is named in Git whom the backend has let in: the
// username as the control plane's RBAC has it, and an address in the reserved domain.
func PersonIdentity(user string) (name, email string) {
	if name = shown(user); name == "" {
		name = UnknownUser
	}
	return name, url.QueryEscape(user) + "@" + PeopleDomain
}

// BridgeIdentity is the bridge's own.
func BridgeIdentity() (name, email string) {
	return "gitbridge", "gitbridge@control-plane." + ReservedDomain
}

// Konnector is the user as whom an app cluster's konnector commits.
const Konnector = "konnector"
