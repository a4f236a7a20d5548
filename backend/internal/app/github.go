package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/githost/github"
)

// githubOptions are the flags about an organization on GitHub that has the repositories.
type githubOptions struct {
	url, organization  string
	backend, konnector appOptions
	approvals          int
}

// appOptions are the flags about one GitHub App.
type appOptions struct {
	id      int64
	keyFile string
}

func (o *githubOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.organization, "github-organization", "", "organization on GitHub that has the repositories, in place of this program; --git-dir then has copies for the web page")
	f.StringVar(&o.url, "github-url", "https://github.com", "URL of GitHub, or of a GitHub Enterprise Server")
	o.backend.addFlags(f, "github-app", "the backend and the bridges")
	o.konnector.addFlags(f, "github-konnector-app", "the konnectors")
	f.IntVar(&o.approvals, "github-approvals", 1, "how many others must approve a pull request to main before it can be merged; counts for new repositories")
}

func (o *appOptions) addFlags(f *pflag.FlagSet, name, of string) {
	f.Int64Var(&o.id, name+"-id", 0, "number of the GitHub App of "+of)
	f.StringVar(&o.keyFile, name+"-key-file", "", "file with a private key of the GitHub App of "+of+", in PEM; read again each time")
}

func (o *appOptions) check(name string) error {
	var errs []error
	if o.id <= 0 {
		errs = append(errs, fmt.Errorf("--%s-id is required with --github-organization: it is on the App's page", name))
	}
	if o.keyFile == "" {
		return errors.Join(append(errs, fmt.Errorf("--%s-key-file is required with --github-organization", name))...)
	}
	data, err := o.key()
	if err == nil {
		_, err = github.ParseKey(data)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("--%s-key-file: %w", name, err))
	}
	return errors.Join(errs...)
}

func (o *appOptions) key() ([]byte, error) { return os.ReadFile(o.keyFile) }

func (o *githubOptions) check() error {
	o.url = strings.TrimSuffix(o.url, "/")
	errs := []error{checkHostURL("--github-url", o.url), o.backend.check("github-app"), o.konnector.check("github-konnector-app")}
	if o.backend.id == o.konnector.id {
		errs = append(errs, errors.New("--github-app-id and --github-konnector-app-id name the same App: GitHub could not tell bridges from konnectors"))
	}
	if url.PathEscape(o.organization) != o.organization {
		errs = append(errs, fmt.Errorf("--github-organization %q cannot be the name of one", o.organization))
	}
	if o.approvals < 0 || o.approvals > 10 {
		errs = append(errs, errors.New("--github-approvals must be from 0 to 10"))
	}
	return errors.Join(errs...)
}

func (o *githubOptions) host(c hostConfig) *github.Host {
	return github.New(github.Config{
		URL: o.url, Organization: o.organization, Hooks: c.hooks, Observer: c.observer, Approvals: o.approvals,
		Backend: github.App{ID: o.backend.id, Key: o.backend.key}, Konnector: github.App{ID: o.konnector.id, Key: o.konnector.key},
	})
}
