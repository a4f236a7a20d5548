package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/test/env"
	"gitbind.dev/test/fakeapi"
)

// fixture is a control plane, an issuer, and a backend that runs with no other
// rights than its own ServiceAccount's.
type fixture struct {
	*env.Env
	// t is the whole test, which the backend outlives a part of.
	t *testing.T
	// admin is the control plane's administrator.
	admin client.Client
	cfg   *rest.Config
	// opts are the backend's; url and health are its addresses.
	opts        options
	url, health string
	stop        func()
	// log is that of the backend that was started last.
	log    *logBuffer
	tokens map[string]string
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the libraries say has no place in a test's output
	os.Exit(m.Run())
}

// start starts it, with its options changed by set.
func start(t *testing.T, set ...func(*options)) *fixture {
	t.Helper()
	e := env.StartForTest(t, env.Options{Clusters: []string{env.Control}, Dex: true})
	f := &fixture{Env: e, t: t, tokens: map[string]string{}}
	control := e.Cluster(env.Control)
	if err := control.Apply(t.Context(), "kustomize/processes/control-plane"); err != nil {
		t.Fatal(err)
	}
	f.kubectl(t, "wait", "--timeout=2m", "--for=condition=Established", "crd", "--all")
	if err := control.Rediscover(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.cfg = control.Config()
	f.admin = newClient(t, f.cfg)
	kubeconfig, err := control.KubeconfigFor(t.Context(), v1alpha1.SystemNamespace, "gitbind-backend")
	if err != nil {
		t.Fatal(err)
	}
	listen := env.FreeAddress(t)
	// By name: that is what Dex lets a public client be sent back to.
	f.url, f.health = "http://"+strings.Replace(listen, "127.0.0.1", "localhost", 1), "http://"+env.FreeAddress(t)
	f.opts = options{
		Options: program.Options{Kubeconfig: kubeconfig, HealthListen: strings.TrimPrefix(f.health, "http://")},
		listen:  listen, publicURL: f.url,
		gitDir:             filepath.Join(t.TempDir(), "git"),
		oidc:               oidcOptions{issuer: e.Dex.Issuer, clientID: e.Dex.ClientID, usernameClaim: "email", prefix: "oidc:"},
		web:                webOptions{ui: true},
		credentialLifetime: time.Hour,
		// Nothing but what a test does ends a stream of events.
		keepAlive: time.Hour,
	}
	for _, change := range set {
		change(&f.opts)
	}
	f.run(t)
	for _, user := range []string{env.Alice, env.Bob, env.Carol} {
		if f.tokens[user], err = e.Dex.IDToken(t.Context(), user); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// run starts the backend, and waits until it can sign people in.
func (f *fixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	out := &logBuffer{}
	f.log = out
	log := slog.New(slog.NewTextHandler(out, nil))
	ctx = ctrl.LoggerInto(ctx, logr.FromSlogHandler(log.Handler()))
	go func() { done <- run(ctx, f.opts, log) }()
	stopped := false
	f.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the backend ended with %v", err)
		}
	}
	f.t.Cleanup(func() {
		f.stop()
		if f.t.Failed() {
			f.t.Logf("the backend's log:\n%s", out.String())
		}
	})
	eventuallyIn(t, patienceAtStart, "the backend is ready", func() error {
		for _, path := range []string{"/readyz", "/readyz/oidc"} {
			if status, words := f.healthOf(path); status != http.StatusOK {
				return fmt.Errorf("%s: %s", path, words)
			}
		}
		return nil
	})
}

// logBuffer is a log that is written to and read at the same time.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: fakeapi.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// healthOf asks for the backend's health; status is 0 while it does not listen.
func (f *fixture) healthOf(path string) (status int, words string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, f.health+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// patience is how long the backend may take to do what is expected.
const patience = time.Minute

// patienceAtStart is longer than client-go's caches wait, after some tries, for an API server that was away.
const patienceAtStart = 4 * time.Minute

// eventually waits for a condition, with a deadline.
func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	eventuallyIn(t, patience, what, is)
}

func eventuallyIn(t *testing.T, patience time.Duration, what string, is func() error) {
	t.Helper()
	if err := env.Await(patience, is); err != nil {
		t.Fatalf("%s: not within %s: %v", what, patience, err)
	}
}

func (f *fixture) kubectl(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), f.Kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.Cluster(env.Control).Kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// call makes a request of the JSON API; answer may be nil.
func (f *fixture) call(t *testing.T, token, method, path string, body, answer any) (status int, message string) {
	t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if raw, ok := body.(string); ok {
			b = []byte(raw)
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 400 {
		var e restapi.Error
		if err := json.Unmarshal(b, &e); err != nil || e.Message == "" {
			t.Errorf("%s %s: status %d with the body %q, want words", method, path, resp.StatusCode, b)
		}
		return resp.StatusCode, e.Message
	}
	if answer != nil {
		if err := json.Unmarshal(b, answer); err != nil {
			t.Fatalf("%s %s: %v in %q", method, path, err, b)
		}
	}
	return resp.StatusCode, ""
}

// connect connects a cluster for a user, who must be able to.
func (f *fixture) connect(t *testing.T, user, uid string) restapi.Cluster {
	t.Helper()
	var c restapi.Cluster
	status, message := f.call(t, f.tokens[user], "POST", "/v1/clusters", restapi.ConnectRequest{Name: "test", ClusterUID: uid}, &c)
	if status != http.StatusOK {
		t.Fatalf("connect: %d %s", status, message)
	}
	return c
}

// gitRemote runs git ls-remote with a credential, and gives what it says.
func gitRemote(t *testing.T, url, user, password string) (string, error) {
	t.Helper()
	return git(t, "", "ls-remote", withCredential(url, user, password))
}

func withCredential(url, user, password string) string {
	return strings.Replace(url, "http://", "http://"+user+":"+password+"@", 1)
}

func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	return gitWith(t, dir, "", args...)
}

// gitWith runs git with something to read.
func gitWith(t *testing.T, dir, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// listen opens a cluster's events, and gives their data.
func (f *fixture) listen(t *testing.T, id, user, password string) <-chan restapi.RefEvent {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", f.url+"/v1/events?cluster="+id, nil)
	r.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", resp.Status)
	}
	events := make(chan restapi.RefEvent, 100)
	go func() {
		defer close(events)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			var e restapi.RefEvent
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil {
				events <- e
			}
		}
	}()
	return events
}

// next is the next event.
func next(t *testing.T, events <-chan restapi.RefEvent) restapi.RefEvent {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the stream of events ended")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
	}
	return restapi.RefEvent{}
}

func (f *fixture) binding(t *testing.T, id string) *v1alpha1.ClusterBinding {
	t.Helper()
	var cb v1alpha1.ClusterBinding
	if err := f.admin.Get(t.Context(), client.ObjectKey{Name: id}, &cb); err != nil {
		t.Fatal(err)
	}
	return &cb
}

func (f *fixture) bridgeSecret(t *testing.T, id string) (password string) {
	t.Helper()
	var s corev1.Secret
	if err := f.admin.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.TenantNamespace(id), Name: v1alpha1.BridgeSecret}, &s); err != nil {
		t.Fatal(err)
	}
	return string(s.Data["password"])
}

// condition waits until an object's condition has a status, and gives its
// reason.
func (f *fixture) condition(t *testing.T, o client.Object, conditions func() []metav1.Condition, kind string, want metav1.ConditionStatus) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	eventually(t, fmt.Sprintf("%s %s=%s", o.GetName(), kind, want), func() error {
		if err := f.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		if c = meta.FindStatusCondition(conditions(), kind); c == nil || c.Status != want {
			return fmt.Errorf("condition is %+v", c)
		}
		return nil
	})
	return c
}
