package connect

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
)

// chooseName gives the name of the Connection. A control plane has one; that of another one
// counts only if it is given, since the control plane may have got another URL: checkMoved.
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
		case !same && c.Name == name && wanted == "":
			return "", errOther(c, backendURL)
		}
	}
	return name, nil
}

// errOther says that a Connection's name is not free for the control plane at a URL.
func errOther(c v1alpha1.Connection, backendURL string) error {
	return fmt.Errorf("this cluster is connected to another control plane, %s, as %q: if you mean that one, give its URL, or --name %[2]s if it is at another URL now; to connect the cluster to %[3]s as well, give another --name",
		urlOf(c), c.Name, backendURL)
}

// checkMoved refuses to make a second Connection to a control plane that got another URL: the
// cluster's one credential would end, which the first one has, and with it all APIs. The
// Connection whose name is given goes there, if the person's cluster of its id is there.
func checkMoved(in Input, named bool, connections []v1alpha1.Connection, clusters []restapi.Cluster) error {
	for _, c := range connections {
		if c.Spec.BackendURL == in.BackendURL {
			return nil
		}
	}
	for _, c := range connections {
		own := slices.ContainsFunc(clusters, func(there restapi.Cluster) bool {
			return there.ID == c.Spec.ClusterID && there.Owner == ""
		})
		switch {
		case c.Name == in.Name && !own:
			return errOther(c, in.BackendURL)
		case c.Name != in.Name && own && !named:
			return fmt.Errorf("this cluster is connected to %s, as %q, and is your cluster %s at %s, too: if that is the same control plane at another URL, add --name %[2]s; to connect the cluster to another one as well, give another --name",
				urlOf(c), c.Name, c.Spec.ClusterID, in.BackendURL)
		}
	}
	return nil
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
