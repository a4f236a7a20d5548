package app

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse reads flags on top of what is required.
func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	f := pflag.NewFlagSet("backend", pflag.ContinueOnError)
	o.addFlags(f)
	if err := f.Parse(append([]string{"--public-url=https://gitbind.example.com/", "--git-dir=/x", "--oidc-issuer=https://dex.example.com", "--oidc-client-id=gitbind-cli"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o, o.check()
}

func TestNothingIsSaidInClearToOtherMachines(t *testing.T) {
	for args, words := range map[string]string{
		"": "",
		"--listen=127.0.0.1:1 --public-url=http://localhost:1": "",
		"--listen=[::1]:8080":                                 "",
		"--listen=localhost:8080":                             "",
		"--listen=:8080":                                      "plain HTTP to other machines",
		"--listen=0.0.0.0:8080":                               "plain HTTP to other machines",
		"--listen=10.0.0.1:8080":                              "plain HTTP to other machines",
		"--listen=gitbind.example.com:8080":                   "plain HTTP to other machines",
		"--listen=:8080 --insecure-listen":                    "",
		"--listen=:8443 --tls-cert-file=c --tls-key-file=k":   "",
		"--tls-cert-file=c":                                   "go together",
		"--tls-key-file=k --insecure-listen":                  "go together",
		"--public-url=http://gitbind.example.com":             "sent in clear",
		"--public-url=http://127.0.0.1.example.com":           "sent in clear",
		"--public-url=ftp://gitbind.example.com":              "no http or https URL",
		"--listen=8080":                                       "--listen",
		"--public-url=https://example.com/gitbind":            "without a path",
		"--public-url=https://example.com/gitbind --ui=false": "",
		"--web-client-secret-file=s":                          "needs --web-client-id",
	} {
		_, err := parse(t, strings.Fields(args)...)
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v, want %q", args, err, words)
		}
	}
}

func TestAGiteaIsAskedWithATokenThatNobodyElseHears(t *testing.T) {
	token, empty := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "empty")
	write(t, token, "0123456789abcdef\n")
	write(t, empty, "\n")
	for args, words := range map[string]string{
		"": "",
		"--gitea-url=https://git.example.com/ --gitea-token-file=" + token:                         "",
		"--gitea-url=https://example.com/git --gitea-token-file=" + token:                          "",
		"--gitea-url=http://127.0.0.1:3000 --gitea-token-file=" + token:                            "",
		"--gitea-url=http://git.example.com --gitea-token-file=" + token:                           "over plain HTTP",
		"--gitea-url=git.example.com --gitea-token-file=" + token:                                  "no http or https URL",
		"--gitea-url=https://admin:secret@git.example.com --gitea-token-file=" + token:             "no http or https URL",
		"--gitea-url=https://git.example.com":                                                      "--gitea-token-file is required",
		"--gitea-url=https://git.example.com --gitea-token-file=/nonexistent":                      "no such file",
		"--gitea-url=https://git.example.com --gitea-token-file=" + empty:                          "has no token",
		"--gitea-url=https://git.example.com --gitea-organization=a/b --gitea-token-file=" + token: "cannot be the name",
		"--gitea-url=https://git.example.com --gitea-approvals=-1 --gitea-token-file=" + token:     "must not be negative",
	} {
		o, err := parse(t, strings.Fields(args)...)
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v, want %q", args, err, words)
		}
		k := o.remote.chosen()
		if (k != nil) != (args != "") {
			t.Errorf("%q: %v was chosen", args, k)
		} else if words == "" && k != nil && k.host(hostConfig{hooks: "https://gitbind.example.com"}).URL("k3x9d2abqw") != o.remote.gitea.url+"/gitbind/k3x9d2abqw.git" {
			t.Errorf("%q: %s", args, k.host(hostConfig{hooks: "https://gitbind.example.com"}).URL("k3x9d2abqw"))
		}
	}
}

func TestAGitLabIsAskedWithATokenAboutOneGroup(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "glpat-0123456789abcdef\n")
	for args, words := range map[string]string{
		"--gitlab-url=https://gitlab.com/ --gitlab-group=company/services --gitlab-token-file=" + token:                                                        "",
		"--gitlab-url=https://gitlab.com --gitlab-group=company --gitlab-approvals=0 --gitlab-token-file=" + token:                                             "",
		"--gitlab-url=http://gitlab.com --gitlab-group=company --gitlab-token-file=" + token:                                                                   "over plain HTTP",
		"--gitlab-url=https://gitlab.com --gitlab-group=company":                                                                                               "--gitlab-token-file is required",
		"--gitlab-url=https://gitlab.com --gitlab-token-file=" + token:                                                                                         "cannot be the path",
		"--gitlab-url=https://gitlab.com --gitlab-group=company/ --gitlab-token-file=" + token:                                                                 "cannot be the path",
		"--gitlab-url=https://gitlab.com --gitlab-group=company/../x --gitlab-token-file=" + token:                                                             "cannot be the path",
		"--gitlab-url=https://gitlab.com --gitlab-group=company --gitlab-approvals=-1 --gitlab-token-file=" + token:                                            "must not be negative",
		"--gitlab-url=https://gitlab.com --gitlab-group=company --gitlab-token-file=" + token + " --gitea-url=https://example.com --gitea-token-file=" + token: "--gitea-url and --gitlab-url were given",
	} {
		o, err := parse(t, strings.Fields(args)...)
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v, want %q", args, err, words)
		}
		if words != "" {
			continue
		}
		host := o.remote.chosen().host(hostConfig{hooks: "https://gitbind.example.com"})
		if want := "https://gitlab.com/" + o.remote.gitlab.group + "/k3x9d2abqw.git"; host.URL("k3x9d2abqw") != want {
			t.Errorf("%q: %s, want %s", args, host.URL("k3x9d2abqw"), want)
		}
	}
}

func TestGitHubIsAskedByTwoApps(t *testing.T) {
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "key"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "token"), "0123456789abcdef\n")
	good := "--github-organization=acme --github-app-id=1 --github-app-key-file=DIR/key --github-konnector-app-id=2 --github-konnector-app-key-file=DIR/key "
	for args, words := range map[string]string{
		good: "",
		good + "--github-url=https://github.example.com/":                         "",
		good + "--github-url=http://github.example.com":                           "over plain HTTP",
		good + "--github-konnector-app-id=1":                                      "the same App",
		good + "--github-app-key-file=DIR/empty":                                  "not in PEM",
		good + "--github-app-key-file=/nonexistent":                               "no such file",
		good + "--github-organization=a/b":                                        "cannot be the name",
		good + "--github-approvals=11":                                            "from 0 to 10",
		good + "--gitea-url=https://git.example.com --gitea-token-file=DIR/token": "--gitea-url and --github-organization were given",
		"--github-organization=acme":                                              "--github-konnector-app-key-file is required",
	} {
		o, err := parse(t, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
			t.Errorf("%q: %v, want %q", args, err, words)
		}
		if words != "" {
			continue
		}
		k := o.remote.chosen()
		if url := k.host(hostConfig{hooks: "https://gitbind.example.com" + k.hooks()}).URL("k3x9d2abqw"); k.name != "github" || url != o.remote.github.url+"/acme/k3x9d2abqw.git" {
			t.Errorf("%q: %s %s", args, k.name, url)
		}
	}
}

func TestIssuersComeFromFlagsAndFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, file, `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[
		{"issuer":{"url":"https://ci.example.com","audiences":["gitbind","other"]},"claimMappings":{"username":{"claim":"sub","prefix":"ci:"}}}]}`)
	for args, want := range map[string]string{
		"":                                     "https://dex.example.com gitbind-cli",
		"--oidc-config=" + file:                "https://dex.example.com gitbind-cli, https://ci.example.com gitbind",
		"--oidc-issuer= --oidc-config=" + file: "https://ci.example.com gitbind",
		"--oidc-issuer=":                       "!is required",
		"--oidc-client-id=":                    "!name the client id",
		"--oidc-config=/nonexistent":           "!--oidc-config",
		"--oidc-ca-file=/nonexistent":          "!--oidc-ca-file",
		"--oidc-ca-file=/dev/null":             "!no certificate",
		"--oidc-username-prefix=ci: --oidc-config=" + file: "!neither begin with the other",
	} {
		o, err := parse(t, strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		issuers, err := o.oidc.issuers(slog.New(slog.DiscardHandler))
		if words, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%q: %v, want %q", args, err, words)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range issuers {
			got = append(got, i.URL()+" "+i.ClientID())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func TestASessionKeyIsOneOrRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		ok      bool
	}{
		"good":  {base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n", true},
		"short": {base64.StdEncoding.EncodeToString(make([]byte, 16)), false},
		"empty": {"", false},
		"text":  {strings.Repeat("x", 32), false},
	} {
		path := filepath.Join(dir, name)
		write(t, path, c.content)
		if _, err := (&webOptions{sessionKeyFile: path}).sessionKey(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
