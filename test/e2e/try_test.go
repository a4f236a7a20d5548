package e2e

import (
	"context"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"gitbind.dev/test/chromium"
	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
	"gitbind.dev/test/env"
	"gitbind.dev/test/postgres/server"
)

// tryAll tries each line that the demo prints, in its order, and returns the shell of it.
func tryAll(t *testing.T, p *platform.Platform, try story.Try) *shell {
	sh := &shell{dir: t.TempDir()}
	for _, line := range try.Commands {
		begin, _, _ := strings.Cut(strings.Join(strings.Fields(line)[:3], " "), "=")
		t.Run(begin, func(t *testing.T) { sh.try(t, line) })
	}
	for _, place := range try.Places {
		t.Run(place.Name, func(t *testing.T) { visit(t, p, sh, place) })
	}
	return sh
}

// shell is the other terminal, in which a person types what the demo prints.
type shell struct {
	dir     string
	exports []string
	// database is the line for psql that service-info printed.
	database string
}

func (sh *shell) run(ctx context.Context, line string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", strings.Join(append(sh.exports, line), "\n"))
	cmd.Dir = sh.dir
	cmd.Env = append(os.Environ(), "HOME="+sh.dir, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// prints runs a line that must succeed and print something.
func (sh *shell) prints(t *testing.T, line, want string) {
	t.Helper()
	if out, err := sh.run(t.Context(), line); err != nil || !strings.Contains(out, want) {
		t.Errorf("%s: %v; it does not print %q, but\n%s", line, err, want, out)
	}
}

// try runs a line, and looks whether it does what it is printed for.
func (sh *shell) try(t *testing.T, line string) {
	switch {
	case strings.HasPrefix(line, "export PATH="):
		sh.exports = append(sh.exports, line)
		sh.prints(t, "kubectl gitbind version --client", "kubectl-gitbind")
	case strings.HasPrefix(line, "export KUBECONFIG="):
		sh.exports = append(sh.exports, line)
		sh.prints(t, "kubectl auth whoami", "dora")
	case strings.Contains(line, "/servicebinding.yaml"):
		sh.prints(t, line, "servicebinding.anynines.com/example created")
	case strings.HasPrefix(line, "kubectl gitbind service-info "):
		sh.connects(t, line)
	case strings.HasPrefix(line, "kubectl apply "):
		sh.prints(t, line, "postgresqlinstance.anynines.com/example created")
	case strings.HasPrefix(line, "kubectl get "), strings.HasPrefix(line, "kubectl gitbind get "):
		sh.prints(t, line, "example")
	case strings.HasPrefix(line, "kubectl gitbind doctor "):
		eventually(t, "all links hold that Dora may see", func(ctx context.Context) (string, bool) {
			out, err := sh.run(ctx, line)
			return out, err == nil && strings.Contains(out, "the konnector follows the repository")
		})
	case strings.HasPrefix(line, "git clone "):
		sh.prints(t, line, "Cloning into")
		clone := strings.TrimSuffix(path.Base(line), ".git")
		file := filepath.Join(sh.dir, clone, claims+"default/example.yaml")
		eventually(t, "a pull brings what was applied", func(ctx context.Context) (string, bool) {
			out, err := sh.run(ctx, "git -C "+clone+" pull")
			if err != nil {
				return out, false
			}
			_, err = os.Stat(file)
			return out, err == nil
		})
	default:
		t.Errorf("no test tries the line %q", line)
	}
}

// connects runs the line for psql that another line prints, once the Secret is there.
func (sh *shell) connects(t *testing.T, line string) {
	t.Helper()
	programs, err := server.Find()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is said how to connect", func(ctx context.Context) (string, bool) {
		out, err := sh.run(ctx, line)
		for l := range strings.Lines(out) {
			if strings.HasPrefix(l, "PGHOST=") {
				sh.database = "PATH=" + programs.Dir + ":$PATH; " + strings.TrimSpace(l) + " --no-psqlrc -Atc "
			}
		}
		return out, err == nil && sh.database != ""
	})
	secret := must(t)(sh.run(t.Context(), "kubectl get secret example-service-binding -n default -o go-template='{{.data.password | base64decode}}'"))
	if out := must(t)(sh.run(t.Context(), line)); secret == "" || strings.Contains(out, secret) {
		t.Error("it prints the password")
	}
	if answer := sh.psql(t, "SELECT 40 + 2"); answer != "42" {
		t.Errorf("psql answers %q", answer)
	}
}

// psql is what PostgreSQL answers to a statement.
func (sh *shell) psql(t *testing.T, statement string) string {
	t.Helper()
	return must(t)(sh.ask(t.Context(), statement))
}

func (sh *shell) ask(ctx context.Context, statement string) (string, error) {
	out, err := sh.run(ctx, sh.database+"'"+statement+"'")
	return strings.TrimSpace(out), err
}

// visit goes to a place, and looks whether it is what it is said to be.
func visit(t *testing.T, p *platform.Platform, sh *shell, place story.Place) {
	switch place.Name {
	case story.AppAdmin, story.ControlAdmin:
		sh.prints(t, "kubectl auth can-i '*' '*' --kubeconfig "+place.Where, "yes")
		eventually(t, "the cluster has what was applied", func(ctx context.Context) (string, bool) {
			out, err := sh.run(ctx, "kubectl get postgresqlinstances -A --kubeconfig "+place.Where)
			return out, err == nil && strings.Contains(out, "example")
		})
	case story.Issuer:
		if _, err := person(place, place.Where).IDToken(t.Context(), place.User); err != nil {
			t.Error(err)
		}
	case story.WebPage:
		t.Run("it signs in", func(t *testing.T) { signInAtWebPage(t, p, place) })
		t.Run("a browser shows a claim and its history", func(t *testing.T) { useWebPage(t, p, place) })
	case story.Logs:
		if _, err := os.Stat(filepath.Join(place.Where, "backend.log")); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("no test visits %q", place.Name)
	}
}

// person is the provider with the one person of whom the demo tells, and the
// password that it prints.
func person(place story.Place, issuer string) *env.Dex {
	return &env.Dex{Issuer: issuer, ClientID: env.ClientID, Users: []env.User{{Email: place.User, Password: place.Password}}}
}

// signInAtWebPage needs no browser that is installed.
func signInAtWebPage(t *testing.T, p *platform.Platform, place story.Place) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	back := place.Where + "/clusters"
	at, err := person(place, p.Dex.Issuer).Browse(t.Context(), jar, place.User, place.Where+"/signin?then=/clusters", back)
	if err != nil {
		t.Fatal(err)
	}
	if at.String() != back {
		t.Errorf("the sign-in ends at %s, want %s", at, back)
	}
}

// useWebPage looks at the claim that is there and at the one of the story, which
// is not there any more.
func useWebPage(t *testing.T, p *platform.Platform, place story.Place) {
	b := chromium.Start(t)
	id := must(t)(p.ClusterID(t.Context(), env.App))
	w := b.Open(t, host(t, place.Where), host(t, p.Dex.Issuer))
	w.Goes(place.Where)
	w.Presses(`main a.button`)
	w.SignsIn(place.User, place.Password)
	w.Sees("h1", "Clusters")
	w.Sees("header", place.User)
	w.Presses(`tbody th a`)
	w.Sees("h1", env.App)
	w.Presses(`tbody th a[href$="/bindings/postgresqlinstances.anynines.com"]`)
	w.Writes(`#q`, "example")
	w.Presses(`.find button`)
	w.Presses(`tbody th a`)
	w.Sees("h1", "example")
	w.Sees("main", "plan: postgresql-single-nano", "claim: create default/example", "dora in the cluster", "+  plan: postgresql-single-nano")
	w.Sees("#live-claim", "Ready The service is ready")
	w.Sees("main", "Credentials", "Secret example-service-binding of example", "username")

	w.Goes(place.Where + "/clusters/" + id + "/bindings/postgresqlinstances.anynines.com/team-a/orders")
	w.Sees("h1", "orders")
	w.Sees("main", "Gone", "Give orders the medium plan", "alice@example.com by Git", "dora in the cluster")

	w.Presses(`header form button`)
	w.Sees("main", "Sign in")
	w.Goes(place.Where + "/clusters/" + id)
	w.Sees("h1", "Sign in to see this page")
	w.Faultless()
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
