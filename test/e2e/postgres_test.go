package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"gitbind.dev/test/e2e/platform"
)

// testDatabase applies what users of Klutch apply, on the control plane, and asks
// PostgreSQL.
func testDatabase(t *testing.T, p *platform.Platform) {
	ctx := t.Context()
	data, err := os.ReadFile("../../kustomize/crossplane-api/testdata/klutch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var files []string
	for i, one := range strings.Split(string(data), "---\n") {
		write(t, dir, fmt.Sprint(i, ".yaml"), one)
		files = append(files, filepath.Join(dir, fmt.Sprint(i, ".yaml")))
	}
	instance, binding, backup, restore := files[0], files[1], files[2], files[3]
	ready := func(file string) {
		t.Helper()
		must(t)(p.Kubectl(ctx, p.Control(), "apply", "-f", file))
		must(t)(p.Kubectl(ctx, p.Control(), "wait", "--for=condition=Ready", "--timeout=2m", "-f", file))
	}
	ready(instance)
	ready(binding)
	secret := &corev1.Secret{}
	if err := json.Unmarshal([]byte(must(t)(p.Kubectl(ctx, p.Control(), "get", "secret", "example-a8s-postgresql-service-binding", "-o", "json"))), secret); err != nil {
		t.Fatal(err)
	}
	ask := func(sql string) (string, error) { return query(ctx, secret.Data, sql) }
	if got := must(t)(ask("SHOW max_connections")); got != "120" {
		t.Errorf("max_connections is %s, want 120", got)
	}
	must(t)(ask("CREATE TABLE orders AS SELECT generate_series(1, 1000) AS id"))
	ready(backup)
	must(t)(ask("DROP TABLE orders"))
	ready(restore)
	if got := must(t)(ask("SELECT count(*) FROM orders")); got != "1000" {
		t.Errorf("there are %s rows after the restore, want 1000", got)
	}
	for _, file := range []string{restore, backup, binding, instance} {
		must(t)(p.Kubectl(ctx, p.Control(), "delete", "--timeout=2m", "-f", file))
	}
	if _, err := ask("SELECT 1"); err == nil {
		t.Error("the server answers after its claim has gone")
	}
}

// query connects with what is in a Secret, and returns the first value of an answer.
func query(ctx context.Context, secret map[string][]byte, sql string) (string, error) {
	at := func(key string) string { return string(secret[key]) }
	conn, err := pgx.Connect(ctx, "host="+at("host")+" port="+at("port")+" user="+at("username")+
		" password="+at("password")+" dbname="+at("database")+" sslmode=disable")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}
