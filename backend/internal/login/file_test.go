package login

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gitbind.dev/backend/internal/refusal"
)

func TestAnAPIServersOwnFileIsUnderstood(t *testing.T) {
	data, err := os.ReadFile("testdata/authentication.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseFile(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []Config{
		{
			URL: "https://dex.example.com", Audiences: []string{"gitbind-cli", "gitbind-web"}, CA: "-----BEGIN CERTIFICATE-----\n",
			Username: Mapping{"email", "oidc:"}, Groups: Mapping{"groups", "oidc:"}, Required: map[string]string{},
		},
		{
			URL: "https://token.actions.githubusercontent.com", Audiences: []string{"https://gitbind.example.com"},
			Username: Mapping{"sub", "github:"}, Required: map[string]string{"repository_owner": "acme"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := CheckAll(got); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNotUnderstoodIsRefused(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	const good = "jwt:\n- issuer: {url: https://x, audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: 'x:'}}\n"
	if _, err := ParseFile([]byte(head + good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, content, words string }{
		{"no YAML", "{", "read the AuthenticationConfiguration"},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\n", "it is v1 ConfigMap"},
		{"no issuer", head, "there is no issuer"},
		{"an expression", head + good + "  userValidationRules: [{expression: 'true'}]\n", "userValidationRules"},
		{"a username by expression", head + strings.Replace(good, "claim: sub", "expression: claims.sub", 1), "expression"},
		{"another address of discovery", head + strings.Replace(good, "audiences", "discoveryURL: https://y, audiences", 1), "discoveryURL"},
		{"another way to match audiences", head + strings.Replace(good, "audiences", "audienceMatchPolicy: All, audiences", 1), "use MatchAny"},
		{"half a rule", head + good + "  claimValidationRules: [{claim: hd}]\n", "requiredValue"},
		{"no audience", head + strings.Replace(good, "audiences: [a]", "audiences: []", 1), "client id"},
		{"no prefix", head + strings.Replace(good, ", prefix: 'x:'", "", 1), "prefix"},
		{"all of GitHub", head + strings.Replace(good, "https://x", "https://token.actions.githubusercontent.com", 1), "anybody can get a token"},
		{"all of GitLab", head + strings.Replace(good, "https://x", "https://gitlab.com/", 1), "anybody can get a token"},
	} {
		if _, err := ParseFile([]byte(c.content)); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		}
	}
}

func TestNoIssuerSpeaksForThePeopleOfAnother(t *testing.T) {
	at := func(url, users, groups string) Config {
		return config(url, func(c *Config) { c.Username.Prefix, c.Groups.Prefix = users, groups })
	}
	people := at("https://a", "oidc:", "oidc-group:")
	for name, c := range map[string]struct {
		other Config
		ok    bool
	}{
		"its own prefixes":                {at("https://b", "ci:", "ci:"), true},
		"the same issuer":                 {at("https://a", "ci:", "ci:"), false},
		"the same prefix":                 {at("https://b", "oidc:", "ci:"), false},
		"the same prefix of groups":       {at("https://b", "ci:", "oidc-group:"), false},
		"users as the others' groups":     {at("https://b", "oidc-group:", "ci:"), false},
		"a prefix that begins alike":      {at("https://b", "oidc:ci:", "ci:"), false},
		"a prefix that others begin with": {at("https://b", "oidc", "ci:"), false},
	} {
		if err := CheckAll([]Config{people, c.other}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPipelinesHaveAnIssuerOfTheirOwn(t *testing.T) {
	people, ci := newIssuer(t), newIssuer(t)
	people.down.Store(true)
	v := verifier(t, config(people.url), config(ci.url, func(c *Config) {
		c.Audiences, c.Required = []string{"https://gitbind.example.com"}, map[string]string{"repository_owner": "acme"}
		c.Username, c.Groups = Mapping{"sub", "ci:"}, Mapping{"environment", "ci:"}
	}))
	waitReady(t, v[1])
	pipeline := func(changes map[string]any) string {
		all := map[string]any{"aud": "https://gitbind.example.com", "sub": "repo:acme/app:ref:refs/heads/main", "repository_owner": "acme", "environment": "production", "email": nil, "groups": nil}
		for k, v := range changes {
			all[k] = v
		}
		return ci.token(all)
	}
	got, err := v.Verify(t.Context(), pipeline(nil))
	if err != nil {
		t.Fatalf("with the people's issuer down: %v", err)
	}
	if diff := cmp.Diff(Identity{ci.url, "repo:acme/app:ref:refs/heads/main", "ci:repo:acme/app:ref:refs/heads/main", []string{"ci:production"}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, c := range map[string]struct {
		token, words string
	}{
		"somebody else's pipeline":              {pipeline(map[string]any{"repository_owner": "mallory"}), "claim repository_owner is not one"},
		"a pipeline without the claim":          {pipeline(map[string]any{"repository_owner": nil}), "claim repository_owner is not one"},
		"a claim that is a list":                {pipeline(map[string]any{"repository_owner": []string{"acme"}}), "claim repository_owner is not one"},
		"the people's audience":                 {pipeline(map[string]any{"aud": client}), "for another client: sign in with client id https://gitbind.example.com"},
		"groups that are numbers":               {pipeline(map[string]any{"environment": 7}), "claim environment is neither"},
		"a name with control characters":        {pipeline(map[string]any{"sub": "a\nb"}), "is no username"},
		"a name without an end":                 {pipeline(map[string]any{"sub": strings.Repeat("x", 600)}), "is no username"},
		"people's claims by the pipelines' key": {ci.token(map[string]any{"iss": people.url}), "cannot be reached"},
	} {
		_, err := v.Verify(t.Context(), c.token)
		kind := refusal.Unauthenticated
		if c.words == "cannot be reached" {
			kind = refusal.Unavailable
		}
		refused(t, name, err, kind, c.words)
	}
	people.down.Store(false)
	waitReady(t, v[0])
	_, err = v.Verify(t.Context(), ci.token(map[string]any{"iss": people.url}))
	refused(t, "the pipelines' issuer speaks for people", err, refusal.Unauthenticated, "signature is not the issuer's")
	if id, err := v.Verify(t.Context(), people.token(nil)); err != nil || id.Username != "oidc:alice@example.com" {
		t.Errorf("people: %+v, %v", id, err)
	}
}
