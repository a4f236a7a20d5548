package app

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost/gitlab"
)

// gitlabOptions are the flags about a GitLab that has the repositories.
type gitlabOptions struct {
	tokenOptions
	group string
}

func (o *gitlabOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.url, "gitlab-url", "", "URL of a GitLab that has the repositories, such as https://gitlab.com, in place of this program; --git-dir then has copies for the web page")
	f.StringVar(&o.group, "gitlab-group", "", "full path of the group that the repositories are in, such as company/services; it must be there")
	f.StringVar(&o.tokenFile, "gitlab-token-file", "", "file with a personal access token, with the scope api, of an account that is a Maintainer or Owner of the group; read again each time")
	f.IntVar(&o.approvals, "gitlab-approvals", 1, "how many others must approve a merge request to main before it can be merged, where GitLab's tier knows that; made for repositories that have no rule of their own yet")
}

func (o *gitlabOptions) check() error {
	errs := []error{o.tokenOptions.check("--gitlab-")}
	cannot := func(name string) bool {
		return name == "" || name == "." || name == ".." || url.PathEscape(name) != name
	}
	if slices.ContainsFunc(strings.Split(o.group, "/"), cannot) {
		errs = append(errs, fmt.Errorf("--gitlab-group %q cannot be the path of one: want one like company/services", o.group))
	}
	return errors.Join(errs...)
}

func (o *gitlabOptions) host(c hostConfig) *gitlab.Host {
	return gitlab.New(gitlab.Config{URL: o.url, Group: o.group, Token: o.token, Hooks: c.hooks, Approvals: o.approvals, Observer: c.observer, Log: c.log})
}
