package clone

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"gitbind.dev/konnector/internal/cli/output"
)

const (
	usernameVariable = "GITBIND_GIT_USERNAME"
	passwordVariable = "GITBIND_GIT_PASSWORD"
)

// helper answers git's question for a credential out of the environment, which
// other people of this machine cannot read, as they can arguments.
const helper = `!f() { test "$1" != get || printf 'username=%s\npassword=%s\n' "$` + usernameVariable + `" "$` + passwordVariable + `"; }; f`

// environment is what git runs with: the person's own, without what would lead
// it to another repository, with the settings, and with the credential for just
// the host of the URL.
func (s Source) environment(bundle string) ([]string, error) {
	set := append(slices.Clone(settings), [2]string{"remote.origin.url", s.URL})
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
			"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES", "GIT_CONFIG_COUNT"}, name)
	})
	// Its words are shown; they are understood by more people in one language.
	env = append(env, "LC_ALL=C")
	if s.Password != "" {
		host, err := url.Parse(s.URL)
		if err != nil {
			return nil, fmt.Errorf("the repository's URL: %w", err)
		}
		key := "credential." + host.Scheme + "://" + host.Host + ".helper"
		set = append(set, [2]string{key, ""}, [2]string{key, helper})
		env = append(env, usernameVariable+"="+output.Line(s.Username), passwordVariable+"="+output.Line(s.Password))
	}
	if s.asksNobody() {
		env = append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=")
	}
	if len(s.CABundle) > 0 {
		// It counts more than any setting, and is in the bundle: see systemBundle.
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "GIT_SSL_CAINFO=") })
		if err := os.WriteFile(bundle, append(systemBundle(), s.CABundle...), 0o600); err != nil {
			return nil, fmt.Errorf("keep the CA bundle: %w", err)
		}
		set = append(set, [2]string{"http." + s.URL + ".sslCAInfo", bundle})
	}
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(set)))
	for i, kv := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env, nil
}

// systemBundle are the certificates that the system trusts: git takes one file,
// which is in the place of the system's.
func systemBundle() []byte {
	for _, path := range []string{
		os.Getenv("GIT_SSL_CAINFO"), os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			return append(bytes.TrimSpace(data), '\n')
		}
	}
	return nil
}
