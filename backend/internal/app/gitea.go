package app

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost/gitea"
)

// giteaOptions are the flags about a Gitea or Forgejo that has the repositories.
type giteaOptions struct {
	tokenOptions
	organization string
}

func (o *giteaOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "gitea-url", "", "URL of a Gitea or Forgejo that has the repositories, in place of this program; --git-dir then has copies for the web page")
	f.StringVar(&o.organization, "gitea-organization", "gitbind", "organization that the repositories are in; it is made if it is not there")
	f.StringVar(&o.tokenFile, "gitea-token-file", "", "file with an access token of a site administrator, with the scopes write:admin, write:issue, write:organization, write:repository and write:user; read again each time")
	f.IntVar(&o.approvals, "gitea-approvals", 1, "how many others must approve a pull request to main before it can be merged; counts for new repositories")
}

func (o *giteaOptions) check() error {
	errs := []error{o.tokenOptions.check("--gitea-")}
	if o.organization == "" || url.PathEscape(o.organization) != o.organization {
		errs = append(errs, fmt.Errorf("--gitea-organization %q cannot be the name of one", o.organization))
	}
	return errors.Join(errs...)
}

func (o *giteaOptions) host(c hostConfig) *gitea.Host {
	return gitea.New(gitea.Config{URL: o.url, Organization: o.organization, Token: o.token, Hooks: c.hooks, Approvals: o.approvals, Observer: c.observer})
}
