package env

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Gitea is a running Git host, with one user who may do everything.
type Gitea struct {
	URL            string // http://127.0.0.1:PORT
	SSH            string // 127.0.0.1:PORT, with keys in HostKeys
	HostKeys       string // public keys, as a pattern of files
	User, Password string
	// Repositories is where the bare repositories are, by user and name.
	Repositories string
	Process      *Process
}

const giteaConfig = `RUN_MODE = prod
WORK_PATH = %[1]s
; It has no data that anybody would miss.
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]d
ROOT_URL = http://127.0.0.1:%[2]d/
STATIC_ROOT_PATH = %[3]s
START_SSH_SERVER = true
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = %[4]d
SSH_ROOT_PATH = %[1]s/ssh
BUILTIN_SSH_SERVER_USER = git
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
[repository]
ROOT = %[1]s/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = of-a-test
[service]
DISABLE_REGISTRATION = true
[indexer]
ISSUE_INDEXER_TYPE = db
[actions]
ENABLED = false
[webhook]
ALLOWED_HOST_LIST = loopback
[log]
MODE = console
LEVEL = Warn
`

func (e *Env) startGitea(ctx context.Context) (*Gitea, error) {
	defer e.phase("Gitea")()
	dir := filepath.Join(e.Dir, gitea)
	g := &Gitea{User: "operator", Password: "gitbind-test-password", Repositories: filepath.Join(dir, "repositories"), HostKeys: filepath.Join(dir, "data", "ssh", "*.pub")}
	config := filepath.Join(dir, "app.ini")
	configure := func(port, ssh int) error {
		g.URL, g.SSH = "http://"+address(port), address(ssh)
		return os.WriteFile(config, fmt.Appendf(nil, giteaConfig, dir, port, filepath.Dir(e.programs[gitea]), ssh), 0o600)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := configure(0, 0); err != nil {
		return nil, err
	}
	for _, step := range [][]string{
		{"migrate"},
		{"admin", "user", "create", "--admin", "--username", g.User, "--password", g.Password, "--email", "gitbind@example.org", "--must-change-password=false"},
	} {
		if err := e.oneOff("gitea-"+step[0], gitea, append([]string{"--config", config}, step...)...).runToEnd(ctx); err != nil {
			return nil, err
		}
	}
	return g, withPorts(ctx, 2, func(ctx context.Context, ports []int) error {
		if err := configure(ports[0], ports[1]); err != nil {
			return err
		}
		g.Process = e.process(gitea, gitea, []string{"--config", config, "web"}, httpReady(g.URL+"/api/healthz", nil))
		return g.Process.Start(ctx)
	})
}

// Create makes an empty repository of the user.
func (g *Gitea) Create(ctx context.Context, name string) error {
	return g.API(ctx, g.User, g.Password, http.MethodPost, "/user/repos", map[string]any{"name": name, "default_branch": "main"}, nil)
}

// Token is an access token of the user, for what a backend does.
func (g *Gitea) Token(ctx context.Context) (string, error) {
	var token struct {
		Value string `json:"sha1"`
	}
	err := g.API(ctx, g.User, g.Password, http.MethodPost, "/users/"+g.User+"/tokens", map[string]any{
		"name": "backend", "scopes": []string{"write:admin", "write:issue", "write:organization", "write:repository", "write:user"},
	}, &token)
	return token.Value, err
}

// GiteaError is an answer of Gitea that is no success.
type GiteaError struct {
	Status int
	Text   string
}

func (e *GiteaError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Text) }

// API asks Gitea as a user, and reads the answer into out. It gives a GiteaError.
func (g *Gitea) API(ctx context.Context, user, password, method, path string, body, out any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.URL+"/api/v1"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %w", method, path, &GiteaError{Status: resp.StatusCode, Text: string(text)})
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}
