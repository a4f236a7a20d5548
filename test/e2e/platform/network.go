package platform

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"gitbind.dev/test/proxy"
)

// Network is what lies between the components and the servers that they use,
// if Options.Network asked for it. People and Crossplane do not go through it.
type Network struct {
	// git is in front of the backend, for everybody; its clients are told apart
	// by their credentials.
	git *proxy.Proxy
	// api are in front of the API servers, one for each process that uses one.
	api map[string]*proxy.Proxy
}

// Link is the way from one component to a server: "konnector-app" to "api" or
// to "git".
type Link struct{ Client, Server string }

func (l Link) String() string { return l.Client + "→" + l.Server }

// gitUsers are the users of basic authentication by which a component is known
// to the backend.
var gitUsers = map[string]string{"konnector": "konnector", "gitbridge": "bridge"}

// Set makes a link good or bad. The link of an agent to git is that of all its
// replicas, in all clusters.
func (n *Network) Set(l Link, mode proxy.Mode) error {
	if l.Server == "git" {
		for prefix, user := range gitUsers {
			if strings.HasPrefix(l.Client, prefix) {
				n.git.Set(user, mode)
				return nil
			}
		}
	}
	if p := n.api[l.Client]; p != nil && l.Server == "api" {
		p.Set("", mode)
		return nil
	}
	return fmt.Errorf("there is no link %s", l)
}

// Links are all of them, in no order.
func (n *Network) Links() []Link {
	links := []Link{{"konnector", "git"}, {"gitbridge", "git"}}
	for client := range n.api {
		links = append(links, Link{client, "api"})
	}
	return links
}

// close ends all connections.
func (n *Network) close() {
	_ = n.git.Close()
	for _, p := range n.api {
		_ = p.Close()
	}
}

// publicURL is where the backend is reached that listens on a port. It has the
// name localhost: to no address, not even 127.0.0.1, does Dex send the browser of
// somebody who signs in at the web page back with a public client.
func (p *Platform) publicURL(port int) string {
	reached := address(port)
	if p.Network != nil {
		p.Network.git.SetTarget(reached)
		reached = p.Network.git.Addr()
	}
	return "http://" + strings.Replace(reached, "127.0.0.1", "localhost", 1)
}

// kubeconfigFor is that of a ServiceAccount of ours, for one process.
func (p *Platform) kubeconfigFor(ctx context.Context, cluster, account, process string) (string, error) {
	c := p.Cluster(cluster)
	path, err := c.KubeconfigFor(ctx, "gitbind-system", account)
	if err != nil || p.Network == nil {
		return path, err
	}
	server, err := url.Parse(c.URL)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	through := p.Network.api[process]
	if through == nil {
		if through, err = proxy.Start(server.Host); err != nil {
			return "", err
		}
		p.Network.api[process] = through
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(path), "through-proxy-"+process+".yaml")
	return path, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), server.Host, through.Addr())), 0o600)
}
