package contract

import (
	"net/url"
	"strings"
)

// ReservedDomain is the domain of all identities that gitbind writes into
// commits. Hosts refuse it from anybody else.
const ReservedDomain = "gitbind.dev"

// UnknownUser is the author of a change that nobody was seen making.
const UnknownUser = "unknown"

// Identity is how a user of an app cluster is named in Git: the name as the
// API server knows it, and an address in the reserved domain.
func Identity(user, clusterID string) (name, email string) {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, user)
	if name = strings.TrimSpace(name); name == "" {
		name = UnknownUser
	}
	return name, url.QueryEscape(name) + "@" + ClusterDomain(clusterID)
}

// ClusterDomain is the mail domain of an app cluster's users.
func ClusterDomain(clusterID string) string { return clusterID + ".clusters." + ReservedDomain }

// BridgeIdentity is the bridge's own.
func BridgeIdentity() (name, email string) {
	return "gitbridge", "gitbridge@control-plane." + ReservedDomain
}

// Konnector is the user as whom an app cluster's konnector commits.
const Konnector = "konnector"
