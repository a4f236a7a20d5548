package access

import (
	"fmt"
	"time"
)

// Role is in what part a caller comes to a repository.
type Role int

const (
	// Konnector is the agent of the app cluster that the repository is for.
	Konnector Role = iota + 1
	// Bridge is gitbridge.
	Bridge
	// Owner is the person who connected the cluster.
	Owner
	// Member is a person with whom the cluster's repository is shared.
	Member
)

func (r Role) String() string {
	switch r {
	case Konnector:
		return "konnector"
	case Bridge:
		return "bridge"
	case Owner:
		return "owner"
	case Member:
		return "member"
	}
	return fmt.Sprintf("role %d", int(r))
}

// Caller is who makes a request, once that is proven.
type Caller struct {
	Role Role
	// Cluster is the id of the one cluster that the caller was let in for.
	Cluster string
	// Name is for logs and people: the username, or the role.
	Name string
	// Expires is until when an agent's credential counts; zero for others, and
	// for one that does not expire.
	Expires time.Time
	// Hash is that of an agent's token, "" for others.
	Hash string
	// Rights are a Member's, nil for others.
	Rights Rights
}
