package app

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/program"
)

// options are the command's flags.
type options struct {
	program.Options
	listen             string
	publicURL          string
	gitDir             string
	tls                tlsOptions
	oidc               oidcOptions
	web                webOptions
	credentialLifetime time.Duration
	shards             []string
	limits             limitOptions
	remote             remoteOptions
	// keepAlive is how often a silent stream of events shows that it lives; 0 for the
	// default. It is for tests.
	keepAlive time.Duration
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.HealthListen = "127.0.0.1:8081"
	o.AddFlags(f)
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address for the API, the Git host and the web page; beyond this machine with TLS")
	f.StringVar(&o.publicURL, "public-url", "", "URL under which clients reach --listen (required)")
	f.StringVar(&o.gitDir, "git-dir", "", "directory of the repositories (required)")
	o.tls.addFlags(f)
	o.oidc.addFlags(f)
	o.web.addFlags(f)
	o.limits.addFlags(f)
	o.remote.addFlags(f)
	f.StringSliceVar(&o.shards, "shards", nil, "shards of bridges, of which a new cluster gets the one that has fewest, such as default,b; without it, the shard "+v1alpha1.DefaultShard)
	f.DurationVar(&o.credentialLifetime, "credential-lifetime", 90*24*time.Hour, "how long a konnector's credential counts; connecting again renews it")
}

// check refuses what cannot work before anything is started.
func (o *options) check() error {
	var errs []error
	for _, required := range []struct{ name, value string }{{"--public-url", o.publicURL}, {"--git-dir", o.gitDir}} {
		if required.value == "" {
			errs = append(errs, fmt.Errorf("%s is required", required.name))
		}
	}
	public, err := url.Parse(o.publicURL)
	if err != nil || o.publicURL != "" && (public.Host == "" || public.Scheme != "http" && public.Scheme != "https") {
		errs = append(errs, fmt.Errorf("--public-url %q is no http or https URL", o.publicURL))
		public = nil
	}
	errs = append(errs, o.tls.check(o.listen, public), o.web.check(public), o.limits.check(), o.remote.check())
	if o.credentialLifetime < time.Minute {
		errs = append(errs, errors.New("--credential-lifetime must be a minute or longer"))
	}
	for _, shard := range o.shards {
		if !v1alpha1.ValidShard(shard) {
			errs = append(errs, fmt.Errorf("--shards has %q: want lower-case letters, digits and hyphens, at most 32", shard))
		}
	}
	o.publicURL = strings.TrimSuffix(o.publicURL, "/")
	return errors.Join(errs...)
}
