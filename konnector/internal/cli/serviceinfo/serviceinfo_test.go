package serviceinfo

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/test/golden"
)

const password = "geheim-4711"

func of(words []string, data map[string]string) secret {
	s := secret{
		key: client.ObjectKey{Namespace: "team-a", Name: "orders-creds"}, of: "Service Binding orders", since: "2026-01-01T11:57:00Z",
		words: words, kubectl: "kubectl", data: map[string][]byte{},
	}
	for key, value := range data {
		s.data[key] = []byte(value)
	}
	return s
}

func printed(s secret) string {
	var b bytes.Buffer
	in := Input{Call: command.Call{Terminal: terminal.Open(nil, &b), Now: func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }}}
	in.print(s)
	return b.String()
}

// secrets are those that services write, by the name of the golden file.
var secrets = map[string]secret{
	"a8s": of([]string{"postgresqlinstances.anynines.com", "PostgreSQL"}, map[string]string{
		"database": "a9s_apps_default_db", "username": "a8s-sb-1", "password": password, "instance_service": "orders-master.team-a", "host": "127.0.0.1", "port": "5432",
	}),
	"a8s-without-host": of([]string{"PostgreSQL"}, map[string]string{"database": "db", "username": "u", "password": password, "instance_service": "orders-master.team-a"}),
	"specification": of(nil, map[string]string{
		"type": "mysql", "provider": "example", "host": "db.example.com", "port": "3306", "username": "u", "password": password, "uri": "mysql://u:" + password + "@db.example.com:3306/orders", "token": password,
	}),
	"uri-alone": of(nil, map[string]string{"uri": "postgresql://u:" + password + "@db.example.com:5433/orders?sslmode=require"}),
	"strange":   of([]string{"PostgreSQL"}, map[string]string{"host": "u:" + password + "@db", "username": "o'brien $(id) `id`", "database": "a\nb", "password": password}),
	"unreadable": {
		key: client.ObjectKey{Namespace: "team-a", Name: "orders-creds"}, of: "Service Binding orders", kubectl: "kubectl",
	},
}

func TestItShowsHowToConnectAndNoPassword(t *testing.T) {
	t.Parallel()
	for name, s := range secrets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := printed(s)
			if strings.Contains(got, password) {
				t.Error("it shows the password")
			}
			golden.Compare(t, filepath.Join("testdata", name+".txt"), []byte(got))
			_, text, _ := strings.Cut(got, "as files:\n")
			var pod corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
				t.Errorf("the part of a Pod: %v", err)
			}
		})
	}
}

// The line for psql is run by a shell, with programs that say what they were given.
func TestTheShellTakesThePasswordFromTheSecret(t *testing.T) {
	t.Parallel()
	const strange = "a b'\"$(id)`id`\\n*!ä\nz"
	bin := t.TempDir()
	for name, script := range map[string]string{
		"kubectl": "case \"$*\" in \"--context it's get secret orders-creds -n team-a -o go-template={{index .data \\\"password\\\" | base64decode}}\") echo " + base64.StdEncoding.EncodeToString([]byte(strange)) + " | base64 -d;; *) echo \"$*\";; esac",
		"psql":    `printf '%s\n' "$#" "$PGHOST" "$PGPORT" "$PGDATABASE" "$PGUSER" "$PGPASSWORD"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := of([]string{"PostgreSQL"}, map[string]string{"host": "h'$(id)", "port": "5432", "database": "postgres://elsewhere/x y", "username": "o'brien $(id)", "password": strange})
	s.kubectl = "kubectl --context " + quote("it's")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", s.psql())
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "0\nh'$(id)\n5432\npostgres://elsewhere/x y\no'brien $(id)\n" + strange + "\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestItSaysWhatASecretWaitsFor(t *testing.T) {
	t.Parallel()
	conditions := func(status, message string) map[string]any {
		return map[string]any{"gitbind": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Secrets", "status": status, "message": message},
		}}}
	}
	for want, status := range map[string]map[string]any{
		"the konnector has not looked at the claim (kubectl gitbind doctor says whether one is at work)": nil,
		"this cluster's key is not known to the control plane yet":                                       conditions("False", "this cluster's key is not known to the control plane yet"),
		"the control plane has not sent one":                                                             conditions("True", "fine"),
		"no volume is free":                                                                              {"gitbind": map[string]any{"message": "no volume is free", "conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}},
	} {
		if got := waitsFor(&unstructured.Unstructured{Object: map[string]any{"status": status}}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestItSaysHowToOrderCredentials(t *testing.T) {
	t.Parallel()
	instance := claim{object: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "team-a", "name": "007"}}}}
	r := v1alpha1.Reference{Field: "spec.of.instance", API: "databases.example.com", When: &v1alpha1.ReferenceCondition{Field: "spec.type", Value: "true"}}
	got, err := order(instance, r, "example.com/v1", "Binding")
	if err != nil {
		t.Fatal(err)
	}
	var made map[string]any
	if err := yaml.UnmarshalStrict([]byte(got), &made); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Binding", "metadata": map[string]any{"name": "007", "namespace": "team-a"},
		"spec": map[string]any{"of": map[string]any{"instance": "007"}, "type": "true"},
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
