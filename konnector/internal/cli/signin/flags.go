package signin

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/usage"
)

// TokenVariable and TokenFileVariable are the environment variables of
// pipelines: an ID token, or the file that holds one. A flag counts more.
const (
	TokenVariable     = "GITBIND_ID_TOKEN"
	TokenFileVariable = "GITBIND_ID_TOKEN_FILE"
)

// maxToken is longer than any token.
const maxToken = 1 << 16

// Flags are those of every command that may have to sign somebody in. No token
// is ever the value of one: others on the machine see those.
type Flags struct {
	device, noBrowser, allowHTTP, tokenStdin bool
	tokenFile, trustBackend                  string
}

// AddTo adds the flags.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.BoolVar(&f.device, "device", false, "sign in with a code on another device, for machines without a browser")
	fs.BoolVar(&f.noBrowser, "no-browser", false, "print the address to sign in at, and open nothing")
	fs.BoolVar(&f.tokenStdin, "id-token-stdin", false, "read an ID token from standard input in the place of signing in (it is not kept)")
	fs.StringVar(&f.tokenFile, "id-token-file", "", "read an ID token from this file in the place of signing in (it is not kept; default: $"+TokenFileVariable+", or the token in $"+TokenVariable+")")
	fs.StringVar(&f.trustBackend, "trust-backend", "", "sign in at the backend with this URL when a Connection names it, and do not ask whether you mean it")
	fs.BoolVar(&f.allowHTTP, "allow-http", false, "allow a backend and an issuer without https on another machine: others can read along")
}

// How reads what the flags and the environment say.
func (f *Flags) How(stdin io.Reader) (How, error) {
	how := How{Device: f.device, NoBrowser: f.noBrowser, PlainHTTP: f.allowHTTP}
	given := 0
	for _, set := range []bool{f.device, f.tokenStdin, f.tokenFile != ""} {
		if set {
			given++
		}
	}
	if given > 1 {
		return How{}, usage.Errorf("--device, --id-token-stdin and --id-token-file exclude each other")
	}
	var err error
	if f.trustBackend != "" {
		if how.TrustBackend, err = session.BackendURL(f.trustBackend); err != nil {
			return How{}, usage.Errorf("--trust-backend: %w", err)
		}
	}
	switch {
	case f.device:
	case f.tokenStdin:
		how.Token, err = readToken(stdin, "standard input")
	case f.tokenFile != "":
		how.Token, err = tokenFile(f.tokenFile)
	case os.Getenv(TokenVariable) != "":
		how.Token = strings.TrimSpace(os.Getenv(TokenVariable))
	case os.Getenv(TokenFileVariable) != "":
		how.Token, err = tokenFile(os.Getenv(TokenFileVariable))
	}
	if err != nil {
		return How{}, err
	}
	return how, nil
}

func tokenFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the ID token: %w", err)
	}
	defer file.Close()
	return readToken(file, path)
}

func readToken(r io.Reader, where string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxToken))
	if err != nil {
		return "", fmt.Errorf("read the ID token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("there is no token on " + where)
	}
	if strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("what %s holds is no ID token: one is a single word", where)
	}
	return token, nil
}
