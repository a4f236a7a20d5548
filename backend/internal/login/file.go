package login

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// file is the part of Kubernetes' structured authentication configuration that
// is understood here, with its names: an API server's own file can be given to
// the backend as it is. Whatever else it has is refused, because a rule that is
// not understood is a door that stands open.
type file struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	JWT        []jwtIssuer `json:"jwt"`
}

type jwtIssuer struct {
	Issuer struct {
		URL                  string   `json:"url"`
		CertificateAuthority string   `json:"certificateAuthority"`
		Audiences            []string `json:"audiences"`
		AudienceMatchPolicy  string   `json:"audienceMatchPolicy"`
	} `json:"issuer"`
	ClaimValidationRules []struct {
		Claim         string `json:"claim"`
		RequiredValue string `json:"requiredValue"`
	} `json:"claimValidationRules"`
	ClaimMappings struct {
		Username Mapping `json:"username"`
		Groups   Mapping `json:"groups"`
	} `json:"claimMappings"`
}

// open are issuers that give a token for any audience to anybody with an
// account: what such a token proves is in its claims alone.
var open = []string{"https://token.actions.githubusercontent.com", "https://gitlab.com"}

// ParseFile reads an AuthenticationConfiguration.
func ParseFile(data []byte) ([]Config, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("read the AuthenticationConfiguration: %w (of Kubernetes' fields, those with expressions are not understood here)", err)
	}
	if group, version, _ := strings.Cut(f.APIVersion, "/"); group != "apiserver.config.k8s.io" || f.Kind != "AuthenticationConfiguration" || version != "v1" && version != "v1beta1" {
		return nil, fmt.Errorf("it is %s %s, want apiserver.config.k8s.io/v1 AuthenticationConfiguration", f.APIVersion, f.Kind)
	}
	if len(f.JWT) == 0 {
		return nil, errors.New("jwt: there is no issuer in it")
	}
	var configs []Config
	for i, j := range f.JWT {
		c, err := j.config()
		if err != nil {
			return nil, fmt.Errorf("jwt[%d]: %w", i, err)
		}
		configs = append(configs, c)
	}
	return configs, nil
}

func (j *jwtIssuer) config() (Config, error) {
	c := Config{
		URL: j.Issuer.URL, Audiences: j.Issuer.Audiences, CA: j.Issuer.CertificateAuthority,
		Username: j.ClaimMappings.Username, Groups: j.ClaimMappings.Groups, Required: map[string]string{},
	}
	if p := j.Issuer.AudienceMatchPolicy; p != "" && p != "MatchAny" {
		return c, fmt.Errorf("issuer.audienceMatchPolicy: %q is not known: use MatchAny", p)
	}
	for _, rule := range j.ClaimValidationRules {
		if rule.Claim == "" || rule.RequiredValue == "" {
			return c, errors.New("claimValidationRules: each names a claim and its requiredValue")
		}
		c.Required[rule.Claim] = rule.RequiredValue
	}
	return c, c.check()
}

// CheckAll refuses issuers that could speak for each other's people.
func CheckAll(configs []Config) error {
	for i := range configs {
		for k := range configs[:i] {
			if configs[i].URL == configs[k].URL {
				return fmt.Errorf("OIDC issuer %s is there twice: give it all its audiences once", configs[i].URL)
			}
			if a, b, same := overlap(configs[i].prefixes(), configs[k].prefixes()); same {
				return fmt.Errorf("OIDC issuers %s and %s: with the prefixes %q and %q a name of one can be that of somebody else at the other: let neither begin with the other", configs[i].URL, configs[k].URL, a, b)
			}
		}
	}
	return nil
}

func overlap(some, others []string) (a, b string, same bool) {
	for _, a := range some {
		for _, b := range others {
			if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
				return a, b, true
			}
		}
	}
	return "", "", false
}
