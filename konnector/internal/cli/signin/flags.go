package signin

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"gitbind.dev/konnector/internal/cli/usage"
)

// Flags are those of every command that may have to sign somebody in.
type Flags struct {
	device, noBrowser, allowHTTP, tokenStdin bool
}

// AddTo adds the flags.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	fs.BoolVar(&f.device, "device", false, "sign in with a code on another device, for machines without a browser")
	fs.BoolVar(&f.noBrowser, "no-browser", false, "print the address to sign in at, and open nothing")
	fs.BoolVar(&f.tokenStdin, "id-token-stdin", false, "read an ID token from standard input in the place of signing in (it is not kept)")
	fs.BoolVar(&f.allowHTTP, "allow-http", false, "allow a backend and an issuer without https on another machine: others can read along")
}

// How reads what the flags say.
func (f *Flags) How(stdin io.Reader) (How, error) {
	how := How{Device: f.device, NoBrowser: f.noBrowser, PlainHTTP: f.allowHTTP}
	if !f.tokenStdin {
		return how, nil
	}
	if f.device {
		return How{}, usage.Errorf("--device and --id-token-stdin exclude each other")
	}
	data, err := io.ReadAll(io.LimitReader(stdin, 1<<16))
	if err != nil {
		return How{}, fmt.Errorf("read the token: %w", err)
	}
	if how.Token = strings.TrimSpace(string(data)); how.Token == "" {
		return How{}, errors.New("there is no token on standard input")
	}
	return how, nil
}
