package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost/gitea"
)

// giteaOptions are the flags about a Gitea or Forgejo that has the repositories.
type giteaOptions struct {
	url, organization, tokenFile string
	approvals                    int
}

func (o *giteaOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "gitea-url", "", "URL of a Gitea or Forgejo that has the repositories, in place of this program; --git-dir then has copies for the web page")
	f.StringVar(&o.organization, "gitea-organization", "gitbind", "organization that the repositories are in; it is made if it is not there")
	f.StringVar(&o.tokenFile, "gitea-token-file", "", "file with an access token of a site administrator, with the scopes write:admin, write:issue, write:organization, write:repository and write:user; read again each time")
	f.IntVar(&o.approvals, "gitea-approvals", 1, "how many others must approve a pull request to main before it can be merged; counts for new repositories")
}

func (o *giteaOptions) check() error {
	if o.url == "" {
		return nil
	}
	var errs []error
	o.url = strings.TrimSuffix(o.url, "/")
	u, err := url.Parse(o.url)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https", u.User != nil, u.RawQuery != "", u.Fragment != "":
		errs = append(errs, fmt.Errorf("--gitea-url %q is no http or https URL, or has more than one", o.url))
	case u.Scheme == "http" && !loopback(u.Hostname()):
		errs = append(errs, errors.New("--gitea-url: an administrator's token is not sent over plain HTTP to another machine: use https"))
	}
	if o.tokenFile == "" {
		errs = append(errs, errors.New("--gitea-token-file is required with --gitea-url"))
	} else if _, err := o.token(); err != nil {
		errs = append(errs, fmt.Errorf("--gitea-token-file: %w", err))
	}
	if o.organization == "" || url.PathEscape(o.organization) != o.organization {
		errs = append(errs, fmt.Errorf("--gitea-organization %q cannot be the name of one", o.organization))
	}
	if o.approvals < 0 {
		errs = append(errs, errors.New("--gitea-approvals must not be negative"))
	}
	return errors.Join(errs...)
}

func (o *giteaOptions) token() (string, error) {
	data, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s has no token, or more than one", o.tokenFile)
	}
	return token, nil
}

// hooks is the path below which the host's webhooks come in.
const hooks = "/v1/webhooks/gitea/"

// host is nil if there is no such host.
func (o *giteaOptions) host(publicURL string) *gitea.Host {
	if o.url == "" {
		return nil
	}
	return gitea.New(gitea.Config{
		URL: o.url, Organization: o.organization, Token: o.token, Hooks: publicURL + hooks, Approvals: o.approvals,
	})
}
