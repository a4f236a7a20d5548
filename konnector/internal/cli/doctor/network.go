package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/notify"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
)

const askNetwork = "check spec.repositoryURL, and the DNS, firewall and proxy of this machine"

// dns finds out whom to speak with: the Git host, or the proxy to it.
func (c *connection) dns(ctx context.Context) Finding {
	repository, err := url.Parse(c.Spec.RepositoryURL)
	if err != nil {
		return fail(reconnect, "spec.repositoryURL: %v", err)
	}
	c.at = repository
	through := ""
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: repository}); err == nil && proxy != nil {
		c.at, through = proxy, ", the proxy to "+repository.Host
	}
	if net.ParseIP(c.at.Hostname()) != nil {
		return ok("%s%s is an address", c.at.Hostname(), through)
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, c.at.Hostname())
	if err != nil {
		return fail(askNetwork, "%s%s: %v", c.at.Hostname(), through, err)
	}
	return ok("%s%s is %s", c.at.Hostname(), through, addresses[0])
}

func (c *connection) tcp(ctx context.Context) Finding {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", hostPort(c.at))
	if err != nil {
		return fail(askNetwork, "%v", err)
	}
	defer conn.Close()
	return ok("%s answers in %s", conn.RemoteAddr(), time.Since(began).Round(time.Millisecond))
}

func (c *connection) tls(ctx context.Context) Finding {
	repository, err := url.Parse(c.Spec.RepositoryURL)
	switch {
	case err != nil:
		return fail(reconnect, "%v", err)
	case repository.Scheme == "ssh":
		return ok("none: SSH encrypts, and the host must show a key of known_hosts")
	case repository.Scheme != "https" && !session.Private(c.Spec.RepositoryURL):
		return warn("have the Git host speak https", "none: anybody on the way can read the credential")
	case repository.Scheme != "https":
		return ok("none, on this machine only")
	case c.at.Host != repository.Host:
		return ok("through the proxy")
	}
	pool, err := signin.Pool(c.Spec.CABundle)
	if err != nil {
		return fail("correct spec.caBundle: kubectl gitbind connect URL --ca-file FILE", "%v", err)
	}
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: c.at.Hostname(), MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(ctx, "tcp", hostPort(c.at))
	if err != nil {
		return fail("if the certificate is of your own CA: kubectl gitbind connect URL --ca-file FILE", "%v", err)
	}
	defer conn.Close()
	left := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter.Sub(c.Now())
	if left < expiryWarning {
		return warn("tell those who run the Git host", "its certificate expires in %s", duration.HumanDuration(left))
	}
	return ok("its certificate is good for %s", duration.HumanDuration(left))
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = u.Scheme
	}
	return net.JoinHostPort(u.Hostname(), port)
}

const slower = "changes in Git are found within a minute, and not at once"

func (c *connection) backend(ctx context.Context) Finding {
	if c.Spec.BackendURL == "" {
		return warn("", "spec.backendURL names none: %s, and nobody can bind from here", slower)
	}
	trusting, err := c.trusting()
	if err != nil {
		return fail("kubectl gitbind connect URL --ca-file FILE", "spec.caBundle: %v", err)
	}
	info, err := controlplane.Ask(ctx, c.Spec.BackendURL, trusting, signin.How{PlainHTTP: true})
	if err != nil {
		return fail("ask those who run the control plane; what is bound goes on without it", "%v", err)
	}
	c.issuer = info.Issuer
	return ok("%s answers, version %s", c.Spec.BackendURL, info.Version)
}

func (c *connection) openID(ctx context.Context) Finding {
	if c.issuer == "" {
		return ok("not needed")
	}
	trusting, err := c.trusting()
	if err != nil {
		return fail("", "%v", err)
	}
	if _, err := oidc.NewProvider(oidc.ClientContext(ctx, trusting.HTTP), c.issuer); err != nil {
		return fail("ask those who run it; nobody can sign in meanwhile, and what is bound goes on", "%s does not sign people in: %v", c.issuer, err)
	}
	return ok("%s signs people in", c.issuer)
}

// events listens until the backend has told the first.
func (c *connection) events(ctx context.Context) Finding {
	if c.Spec.BackendURL == "" {
		return warn("", "none: %s", slower)
	}
	pool, err := signin.Pool(c.Spec.CABundle)
	if err != nil {
		return fail("", "%v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan error, 1)
	tell := func(err error) {
		select {
		case heard <- err:
		default:
		}
	}
	go notify.Listen(ctx, notify.Options{
		URL: c.Spec.BackendURL, ClusterID: c.Spec.ClusterID, RootCAs: pool,
		Credentials: func(context.Context) (string, string, error) { return c.user(), c.password(), nil },
		OnEvent: func(ref string, _ store.Hash) {
			if ref != "" {
				tell(nil)
			}
		},
		OnError: func(err error) {
			if err != nil {
				tell(err)
			}
		},
	})
	select {
	case err = <-heard:
	case <-ctx.Done():
		err = fmt.Errorf("nothing was heard within %s", linkTimeout)
	}
	if err != nil {
		return fail("a proxy on the way may hold server-sent events back; "+slower, "%v", err)
	}
	return ok("the backend tells what happens")
}
