package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/login"
)

// options are the command's flags.
type options struct {
	listen             string
	healthListen       string
	publicURL          string
	gitDir             string
	kubeconfig         string
	issuer             string
	clientID           string
	usernameClaim      string
	prefix             string
	caFile             string
	credentialLifetime time.Duration
	verbose            bool
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address for the API and the Git host; plain HTTP, for a proxy that ends TLS")
	f.StringVar(&o.healthListen, "health-listen", "127.0.0.1:8081", "address for /healthz and /readyz; empty turns them off")
	f.StringVar(&o.publicURL, "public-url", "", "URL under which clients reach --listen (required)")
	f.StringVar(&o.gitDir, "git-dir", "", "directory of the repositories (required)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the control plane; empty: $KUBECONFIG, or the pod's own")
	f.StringVar(&o.issuer, "oidc-issuer", "", "URL of the OIDC issuer whose users may sign in (required)")
	f.StringVar(&o.clientID, "oidc-client-id", "gitbind-cli", "client id that ID tokens must be for")
	f.StringVar(&o.usernameClaim, "oidc-username-claim", login.ClaimEmail, "claim that is the username in RBAC: email (only if verified) or sub")
	f.StringVar(&o.prefix, "oidc-username-prefix", "oidc:", "prefix of usernames and groups in RBAC")
	f.StringVar(&o.caFile, "oidc-ca-file", "", "CA certificates of the issuer; empty: the system's")
	f.DurationVar(&o.credentialLifetime, "credential-lifetime", 90*24*time.Hour, "how long a konnector's credential counts; connecting again renews it")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each push and each request that asks for a credential")
}

// check refuses what cannot work before anything is started.
func (o *options) check() error {
	var errs []error
	for _, required := range []struct{ name, value string }{{"--public-url", o.publicURL}, {"--git-dir", o.gitDir}, {"--oidc-issuer", o.issuer}} {
		if required.value == "" {
			errs = append(errs, fmt.Errorf("%s is required", required.name))
		}
	}
	if u, err := url.Parse(o.publicURL); err != nil || o.publicURL != "" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("--public-url %q is no http or https URL", o.publicURL))
	}
	if o.credentialLifetime < time.Minute {
		errs = append(errs, errors.New("--credential-lifetime must be a minute or longer"))
	}
	o.publicURL = strings.TrimSuffix(o.publicURL, "/")
	return errors.Join(errs...)
}

// issuers are those that the flags name.
func (o *options) issuers(log *slog.Logger) (login.Issuers, error) {
	people := login.Config{
		URL: o.issuer, Audiences: []string{o.clientID},
		Username: login.Mapping{Claim: o.usernameClaim, Prefix: o.prefix}, Groups: login.Mapping{Claim: "groups", Prefix: o.prefix},
	}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-ca-file: %w", err)
		}
		people.CA = string(pem) + "\n" // an empty file is not "the system's"
	}
	issuer, err := login.NewIssuer(people, log)
	if err != nil {
		return nil, err
	}
	return login.Issuers{issuer}, nil
}
