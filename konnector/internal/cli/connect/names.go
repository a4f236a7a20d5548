package connect

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"gitbind.dev/gitbridge/api/v1alpha1"
)

// chooseName gives the name of the Connection, which no other control plane's
// may have. A control plane has one.
func chooseName(wanted, backendURL string, connections []v1alpha1.Connection) (string, error) {
	if msgs := validation.IsDNS1123Subdomain(wanted); wanted != "" && len(msgs) > 0 {
		return "", fmt.Errorf("--name %q: %s", wanted, msgs[0])
	}
	name := wanted
	if name == "" {
		name = defaultName(backendURL)
	}
	for _, c := range connections {
		switch same := c.Spec.BackendURL == backendURL; {
		case same && wanted == "":
			return c.Name, nil
		case same && c.Name != wanted:
			return "", fmt.Errorf("this cluster is connected to %s already, as %q: use --name %s", backendURL, c.Name, c.Name)
		case !same && c.Name == name:
			return "", fmt.Errorf("this cluster is connected to another control plane, %s, as %q: if you mean that one, give its URL; to connect the cluster to %s as well, give another --name",
				urlOf(c), name, backendURL)
		}
	}
	return name, nil
}

// urlOf is the URL that people know a connection's control plane by. One whose agent was given
// a repository alone has no backend's.
func urlOf(c v1alpha1.Connection) string { return cmp.Or(c.Spec.BackendURL, c.Spec.RepositoryURL) }

// defaultName is the host, if it is a name that tells control planes apart.
func defaultName(backendURL string) string {
	u, err := url.Parse(backendURL)
	if err != nil || net.ParseIP(u.Hostname()) != nil || !strings.Contains(u.Hostname(), ".") ||
		len(validation.IsDNS1123Subdomain(u.Hostname())) > 0 {
		return "default"
	}
	return u.Hostname()
}

// maxDisplayName is the longest that the control plane takes.
const maxDisplayName = 63

func displayName(in Input) string {
	name := in.ClusterName
	if name == "" {
		name = in.Cluster.Context
	}
	if name == "" {
		name = in.Name
	}
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	// Contexts can be long, and their ends tell them apart.
	if runes := []rune(name); len(runes) > maxDisplayName {
		name = string(runes[len(runes)-maxDisplayName:])
	}
	return name
}
