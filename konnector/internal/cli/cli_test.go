package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/konnector/internal/cli"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/test/env"
)

// TestMain makes this binary the plugin, and a browser in which somebody signs
// in, when it is started under their names.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-gitbind": func() {
			os.Exit(cli.Run(context.Background(), "v0.0.0-test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"browser": func() {
			dex := &env.Dex{Issuer: os.Getenv("ISSUER"), ClientID: env.ClientID, Users: []env.User{{Email: os.Getenv("PERSON"), Password: os.Getenv("PASSWORD")}}}
			if err := dex.Browser(context.Background(), os.Getenv("PERSON"), os.Args[1]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		},
		"newcluster": func() {
			if err := newCluster(os.Args[1]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		},
	})
}

// newCluster makes a cluster known to the backend, in the place of connect, for
// the person who is signed in, and writes what the konnector gets into the files
// id, url and password.
func newCluster(name string) error {
	sessions, err := session.Default()
	if err != nil {
		return err
	}
	in := &signin.SignIn{Sessions: sessions, HTTP: http.DefaultClient, Out: os.Stderr, OpenBrowser: signin.OpenBrowser, Now: time.Now}
	backend, err := controlplane.Open(context.Background(), os.Getenv("BACKEND"), in, signin.How{})
	if err != nil {
		return err
	}
	cluster, err := backend.Connect(context.Background(), restapi.ConnectRequest{Name: name, ClusterUID: name})
	if err != nil {
		return err
	}
	for file, text := range map[string]string{"id": cluster.ID, "url": cluster.RepositoryURL, "password": cluster.Credential.Password} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// home gives each script a person's home of its own.
func home(e *testscript.Env) {
	e.Setenv("HOME", e.WorkDir+"/home")
	e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/home/.config")
	e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	e.Setenv("GIT_TERMINAL_PROMPT", "0")
	e.Setenv("KUBECONFIG", e.WorkDir+"/kubeconfig")
}

// TestOffline is what needs no cluster and no backend.
func TestOffline(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/offline",
		Setup: func(e *testscript.Env) error { home(e); return nil },
	})
}
