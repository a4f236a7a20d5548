package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"gitbind.dev/backend/internal/login"
)

// oidcOptions are the flags about whose ID tokens count.
type oidcOptions struct {
	config        string
	issuer        string
	clientID      string
	usernameClaim string
	prefix        string
	caFile        string
	maxLifetime   time.Duration
}

func (o *oidcOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "oidc-config", "", "file with an AuthenticationConfiguration, as the API server has: whose ID tokens count beside those of --oidc-issuer, or without it; the first issuer is that of the people")
	f.StringVar(&o.issuer, "oidc-issuer", "", "URL of the OIDC issuer whose users may sign in (required, or --oidc-config)")
	f.StringVar(&o.clientID, "oidc-client-id", "", "client id that ID tokens must be for (required with --oidc-issuer): one that no other control plane has, or a token for one counts at the other")
	f.StringVar(&o.usernameClaim, "oidc-username-claim", login.ClaimEmail, "claim that is the username in RBAC: email counts only if verified")
	f.StringVar(&o.prefix, "oidc-username-prefix", "oidc:", "prefix of usernames and groups in RBAC")
	f.DurationVar(&o.maxLifetime, "oidc-max-lifetime", login.DefaultMaxLifetime, "how long an ID token may live from its issue to its end, whichever issuer it is from")
	f.StringVar(&o.caFile, "oidc-ca-file", "", "CA certificates of the issuer; empty: the system's")
}

// issuers are those that the flags and the file name.
func (o *oidcOptions) issuers(log *slog.Logger) (login.Issuers, error) {
	var configs []login.Config
	if o.issuer != "" {
		people, err := o.people()
		if err != nil {
			return nil, err
		}
		configs = append(configs, people)
	}
	if o.config != "" {
		data, err := os.ReadFile(o.config)
		if err != nil {
			return nil, fmt.Errorf("--oidc-config: %w", err)
		}
		more, err := login.ParseFile(data)
		if err != nil {
			return nil, fmt.Errorf("--oidc-config: %s: %w", o.config, err)
		}
		configs = append(configs, more...)
	}
	if len(configs) == 0 {
		return nil, errors.New("--oidc-issuer or --oidc-config is required")
	}
	if err := login.CheckAll(configs); err != nil {
		return nil, err
	}
	var issuers login.Issuers
	for _, c := range configs {
		c.MaxLifetime = o.maxLifetime
		issuer, err := login.NewIssuer(c, log)
		if err != nil {
			return nil, err
		}
		issuers = append(issuers, issuer)
	}
	return issuers, nil
}

// people is the issuer that the short flags name.
func (o *oidcOptions) people() (login.Config, error) {
	c := login.Config{
		URL: o.issuer, Audiences: []string{o.clientID},
		Username: login.Mapping{Claim: o.usernameClaim, Prefix: o.prefix}, Groups: login.Mapping{Claim: "groups", Prefix: o.prefix},
	}
	if o.caFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(o.caFile)
	if err != nil {
		return c, fmt.Errorf("--oidc-ca-file: %w", err)
	}
	c.CA = string(pem) + "\n" // an empty file does not mean the system's
	return c, nil
}
