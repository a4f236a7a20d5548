package cli_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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

// TestOffline is what needs no cluster and no real backend.
func TestOffline(t *testing.T) {
	elsewhere := httptest.NewServer(nil)
	defer elsewhere.Close()
	fake := httptest.NewServer(fakeBackend(elsewhere.URL))
	defer fake.Close()
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/offline", UpdateScripts: flag.Lookup("update").Value.String() == "true",
			Setup: func(e *testscript.Env) error {
				home(e)
				e.Setenv("FAKE", fake.URL)
				e.Setenv("ELSEWHERE", elsewhere.URL)
				return nil
			},
		})
	})
}

// fakeBackend answers in each way, by the first part of the path: ok with what a
// backend says to a caller that has the token GOOD.
func fakeBackend(elsewhere string) http.Handler {
	const signedIn = "Bearer GOOD"
	answer := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/ok/v1/c") && r.Header.Get("Authorization") != signedIn {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"message": "the token is not one of yours"}`)
				return
			}
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{way}/v1/info", answer(http.StatusOK, `{"version": "v1.2.3", "issuer": "http://127.0.0.1:1", "clientID": "gitbind-cli"}`))
	mux.HandleFunc("GET /ok/v1/catalog", answer(http.StatusOK, `[
		{"name": "postgresql", "displayName": "PostgreSQL", "group": "Databases", "kind": "PostgresqlInstance", "description": "A database",
		 "api": {"group": "anynines.com", "resource": "postgresqlinstances", "version": "v1"}, "bound": ["prod"]},
		{"name": "backup", "displayName": "Backup", "kind": "Backup",
		 "api": {"group": "anynines.com", "resource": "backups", "version": "v1"}}]`))
	mux.HandleFunc("GET /ok/v1/clusters", answer(http.StatusOK, `[
		{"id": "k3x9d2abqw", "name": "prod", "repositoryURL": "https://gitbind.example.com/git/k3x9d2abqw.git", "connected": "True"},
		{"id": "a1", "name": "twice", "repositoryURL": "https://gitbind.example.com/git/a1.git"},
		{"id": "b2", "name": "twice", "repositoryURL": "https://gitbind.example.com/git/b2.git"}]`))
	mux.HandleFunc("DELETE /ok/v1/clusters/k3x9d2abqw/credential", answer(http.StatusOK, `{}`))
	mux.HandleFunc("GET /none/v1/catalog", answer(http.StatusOK, `[]`))
	mux.HandleFunc("GET /page/v1/info", answer(http.StatusOK, `<!doctype html><title>Welcome</title>`))
	mux.HandleFunc("GET /anything/v1/info", answer(http.StatusOK, `{}`))
	mux.HandleFunc("GET /missing/v1/info", answer(http.StatusNotFound, `404 page not found`))
	mux.HandleFunc("GET /broken/v1/catalog", answer(http.StatusInternalServerError, ``))
	mux.HandleFunc("GET /forbidden/v1/catalog", answer(http.StatusForbidden, `{"message": "alice may bind nothing: ask an operator"}`))
	// What others wrote, in each place that is printed.
	const steers = `\u001b[2J\u001b]0;owned\u0007\u009b1m\u202e\u2066\u200b\ufeff\r\u0008\u007f`
	mux.HandleFunc("GET /hostile/v1/catalog", answer(http.StatusOK, strings.ReplaceAll(`[{"name": "aSTEERS", "displayName": "bSTEERS", "group": "cSTEERS",
		"kind": "dSTEERS", "description": "eSTEERS", "api": {"group": "fSTEERS", "resource": "gSTEERS", "version": "hSTEERS"}, "bound": ["iSTEERS"]}]`, "STEERS", steers)))
	mux.HandleFunc("GET /hostile/v1/clusters", answer(http.StatusOK, strings.ReplaceAll(`[{"id": "aSTEERS", "name": "bSTEERS", "repositoryURL": "cSTEERS", "connected": "dSTEERS"}]`, "STEERS", steers)))
	mux.HandleFunc("GET /rude/v1/catalog", answer(http.StatusForbidden, `{"message": "no`+steers+`\nSTEERS"}`))
	mux.Handle("GET /elsewhere/v1/catalog", http.RedirectHandler(elsewhere+"/v1/catalog", http.StatusTemporaryRedirect))
	return mux
}
