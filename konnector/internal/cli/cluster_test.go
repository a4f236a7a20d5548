package cli_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gitbind.dev/test/env"
)

// Further app clusters.
const (
	other = "other" // nobody connects it
	life  = "life"  // comes and goes
	sick  = "sick"  // breaks in every way
)

// TestCluster is what needs real API servers, a real OpenID Connect provider
// and a real backend. There is no konnector: the scripts write its statuses.
func TestCluster(t *testing.T) {
	e := env.StartForTest(t, env.Options{Clusters: []string{env.App, other, life, sick, env.Control}, Dex: true})
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{
		"KUSTOMIZE":      filepath.Join(root, "kustomize"),
		"ISSUER":         e.Dex.Issuer,
		"PERSON":         env.Alice,
		"PASSWORD":       env.AlicePassword,
		"ADMIN":          e.Cluster(env.App).Kubeconfig,
		"DORA":           user(t, e.Cluster(env.App), "dora"),
		"CONTROL":        e.Cluster(env.Control).Kubeconfig,
		"ADMIN_OF_LIFE":  e.Cluster(life).Kubeconfig,
		"ADMIN_OF_SICK":  e.Cluster(sick).Kubeconfig,
		"DORA_OF_SICK":   user(t, e.Cluster(sick), "dora"),
		"ADMIN_OF_OTHER": e.Cluster(other).Kubeconfig,
		"DORA_OF_OTHER":  user(t, e.Cluster(other), "dora"),
	}
	if vars["BOBS_TOKEN"], err = e.Dex.IDToken(t.Context(), env.Bob); err != nil {
		t.Fatal(err)
	}
	vars["BACKEND"] = startBackend(t, e, root)
	deadline, _ := t.Deadline() // then a script that waits in vain shows where
	testscript.Run(t, testscript.Params{
		Dir: "testdata/cluster", Deadline: deadline, UpdateScripts: flag.Lookup("update").Value.String() == "true",
		Setup: func(s *testscript.Env) error {
			home(s)
			// The plugin first, then the environment's kubectl.
			plugin, rest, _ := strings.Cut(s.Getenv("PATH"), string(filepath.ListSeparator))
			s.Setenv("PATH", strings.Join([]string{plugin, filepath.Dir(e.Kubectl), rest}, string(filepath.ListSeparator)))
			for name, value := range vars {
				s.Setenv(name, value)
			}
			return nil
		},
	})
}

func user(t *testing.T, c *env.Cluster, name string) (kubeconfig string) {
	t.Helper()
	kubeconfig, err := c.UserKubeconfig(name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// startBackend runs the backend with its own rights on a control plane that
// offers one API, which alice may bind.
func startBackend(t *testing.T, e *env.Env, root string) (url string) {
	t.Helper()
	control := e.Cluster(env.Control)
	if err := control.Apply(t.Context(), "kustomize/processes/control-plane"); err != nil {
		t.Fatal(err)
	}
	run(t, root, e.Kubectl, "--kubeconfig="+control.Kubeconfig, "wait", "--timeout=2m", "--for=condition=Established", "crd", "--all")
	if err := control.Apply(t.Context(), "konnector/internal/cli/testdata/offer.yaml"); err != nil {
		t.Fatal(err)
	}
	bin := env.Built()
	if bin == "" {
		bin = t.TempDir()
		run(t, root, "go", "build", "-o", filepath.Join(bin, "backend"), "./backend/cmd/backend")
	}
	kubeconfig, err := control.KubeconfigFor(t.Context(), "gitbind-system", "gitbind-backend")
	if err != nil {
		t.Fatal(err)
	}
	address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	_, ports, err := e.Run(t.Context(), env.Program{
		Name: "backend", Path: filepath.Join(bin, "backend"), Ports: 2,
		Args: func(ports []int) []string {
			return []string{
				"--kubeconfig=" + kubeconfig, "--git-dir=" + filepath.Join(e.Dir, "git"),
				"--listen=" + address(ports[0]), "--public-url=http://" + address(ports[0]),
				"--health-listen=" + address(ports[1]), "--oidc-issuer=" + e.Dex.Issuer, "--oidc-client-id=" + e.Dex.ClientID,
			}
		},
		Ready: func(ports []int) string { return "http://" + address(ports[1]) + "/readyz" },
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, root, e.Kubectl, "--kubeconfig="+control.Kubeconfig, "wait", "--timeout=2m", "--for=condition=Offered", "apiserviceexporttemplate/database", "apiserviceexporttemplate/queue")
	return "http://" + address(ports[0])
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
