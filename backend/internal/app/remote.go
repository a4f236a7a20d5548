package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/client"
	"gitbind.dev/backend/internal/githost/embedded"
)

// remoteHost is a Git host elsewhere that has the repositories, by its own rules.
type remoteHost interface {
	githost.Accounts
	githost.Checks
	embedded.Upstream
	// Webhook serves a path with the part {cluster}, and tells what has moved there.
	Webhook(log *slog.Logger, moved func(cluster string)) http.Handler
}

// remoteOptions are the flags about a Git host elsewhere, of which there is at most one.
type remoteOptions struct {
	gitea  giteaOptions
	github githubOptions
	gitlab gitlabOptions
}

func (o *remoteOptions) addFlags(f *pflag.FlagSet) {
	o.gitea.addFlags(f)
	o.github.addFlags(f)
	o.gitlab.addFlags(f)
}

// kind is a sort of host, as it is known from the flags.
type kind struct {
	// name is what the paths of its webhooks and its line in /readyz have, and flag what
	// chooses it.
	name, flag string
	chosen     bool
	check      func() error
	// host is made of options that were checked.
	host func(hostConfig) remoteHost
	// page is where people find it.
	page string
	// pace is how often it is asked because of one cluster, over time: once in so long. Of the
	// 5000 requests an hour that GitHub lets all clusters share, who pushes all the time has a
	// seventh; of the 2000 a minute of gitlab.com a sixteenth.
	pace time.Duration
}

// hostConfig is what a host is made with beside its options.
type hostConfig struct {
	// hooks is the URL below which its webhooks come in.
	hooks    string
	observer client.Observer
	log      *slog.Logger
}

func (o *remoteOptions) kinds() []kind {
	return []kind{
		{
			name: "gitea", flag: "--gitea-url", chosen: o.gitea.url != "", check: o.gitea.check,
			host: func(c hostConfig) remoteHost { return o.gitea.host(c) },
			page: o.gitea.url, pace: 500 * time.Millisecond,
		},
		{
			name: "github", flag: "--github-organization", chosen: o.github.organization != "", check: o.github.check,
			host: func(c hostConfig) remoteHost { return o.github.host(c) },
			page: o.github.url + "/" + o.github.organization, pace: 5 * time.Second,
		},
		{
			name: "gitlab", flag: "--gitlab-url", chosen: o.gitlab.url != "", check: o.gitlab.check,
			host: func(c hostConfig) remoteHost { return o.gitlab.host(c) },
			page: o.gitlab.url, pace: 500 * time.Millisecond,
		},
	}
}

func (o *remoteOptions) check() error {
	var errs []error
	var flags []string
	for _, k := range o.kinds() {
		if k.chosen {
			flags = append(flags, k.flag)
			errs = append(errs, k.check())
		}
	}
	if len(flags) > 1 {
		errs = append(errs, errors.New(strings.Join(flags, " and ")+" were given: the repositories are on one host"))
	}
	return errors.Join(errs...)
}

// chosen is the host that the flags choose, nil for the embedded one.
func (o *remoteOptions) chosen() *kind {
	for _, k := range o.kinds() {
		if k.chosen {
			return &k
		}
	}
	return nil
}

// hooks is the path below which the webhooks of a kind of host come in.
func (k *kind) hooks() string { return "/v1/webhooks/" + k.name + "/" }

// checkHostURL refuses what cannot be the URL of a host that is asked with a credential.
func checkHostURL(flag, value string) error {
	u, err := url.Parse(value)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https", u.User != nil, u.RawQuery != "", u.Fragment != "":
		return fmt.Errorf("%s %q is no http or https URL, or has more than one", flag, value)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("%s: an administrator's token is not sent over plain HTTP to another machine: use https", flag)
	}
	return nil
}

// tokenOptions are the flags about a host that is asked with the token of an account.
type tokenOptions struct {
	url, tokenFile string
	approvals      int
}

// check takes what the flags begin with, for example "--gitea-".
func (o *tokenOptions) check(flag string) error {
	o.url = strings.TrimSuffix(o.url, "/")
	errs := []error{checkHostURL(flag+"url", o.url)}
	if o.tokenFile == "" {
		errs = append(errs, fmt.Errorf("%stoken-file is required with %surl", flag, flag))
	} else if _, err := o.token(); err != nil {
		errs = append(errs, fmt.Errorf("%stoken-file: %w", flag, err))
	}
	if o.approvals < 0 {
		errs = append(errs, fmt.Errorf("%sapprovals must not be negative", flag))
	}
	return errors.Join(errs...)
}

// token reads a token, and nothing else, of the file.
func (o *tokenOptions) token() (string, error) {
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
