package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

// testMovedToComposites has an administrator go from claims to composites by the commands
// of docs/operating.md, and sees that Dora's database, her backup and her credentials stay
// as they are and go on.
func testMovedToComposites(t *testing.T, p *platform.Platform, dora *shell) {
	dora.psql(t, "CREATE TABLE moved AS SELECT 1 AS id")
	for _, kind := range []string{"Backup", "Restore"} {
		write(t, dora.dir, kind+".yaml", backupOfExample(kind))
		dora.prints(t, "kubectl apply -f "+kind+".yaml", "created")
		dora.prints(t, `kubectl wait --for=jsonpath='{.status.gitbind.conditions[?(@.type=="Ready")].status}'=True --timeout=2m -f `+kind+".yaml", "met")
	}
	// To restore once more would lose this row.
	dora.psql(t, "INSERT INTO moved VALUES (2)")
	const began, rows, secret = "SELECT pg_postmaster_start_time()", "SELECT count(*) FROM moved", "kubectl get secret example-service-binding -n default -o jsonpath={.metadata.uid}"
	server, uid, head := dora.psql(t, began), must(t)(dora.run(t.Context(), secret)), headOfMain(t, p)

	admin := &shell{dir: t.TempDir(), exports: append(slices.Clip(dora.exports), "export KUBECONFIG="+p.Control())}
	must(t)(admin.run(t.Context(), "cp -r "+p.Root+"/kustomize ."))
	steps := pageCommands(t, filepath.Join(p.Root, "docs/operating.md"), "Move from claims to namespaced composites")
	variables, steps, _ := strings.Cut(steps, "# 1.")
	_, steps, _ = strings.Cut(steps, "# 2.")
	steps, _, found := strings.Cut(steps, "# 5.")
	if !found {
		t.Fatal("the page's steps are not numbered to 5")
	}
	if err := p.Bridge.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(must(t)(admin.run(t.Context(), variables+"\n#"+steps)))
	if err := p.Bridge.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	admin.prints(t, variables+"kubectl wait --for=condition=Ready --timeout=2m $KINDS -A --all", "restore.anynines.com/example condition met")
	composites := must(t)(admin.run(t.Context(), variables+"kubectl get $KINDS -A -o jsonpath='{range .items[*]}{.kind} {.spec.crossplane.compositionRef.name} {.metadata.annotations.crossplane\\.io/paused}{\"\\n\"}{end}'"))
	for _, want := range []string{"PostgresqlInstance a8s-postgresql \n", "ServiceBinding a8s-servicebinding \n", "Backup a8s-backup \n", "Restore a8s-restore \n"} {
		if !strings.Contains(composites, want) {
			t.Errorf("there is no composite %q among\n%s", want, composites)
		}
	}
	if now := dora.psql(t, began); now != server {
		t.Errorf("the server began at %s, before at %s", now, server)
	}
	if now := dora.psql(t, rows); now != "2" {
		t.Errorf("there are %s rows, 2 before", now)
	}
	if now := must(t)(dora.run(t.Context(), secret)); now != uid {
		t.Errorf("the Secret is another one: %s, %s before", now, uid)
	}
	if now := headOfMain(t, p); now != head {
		t.Errorf("main is at %s, before at %s", now, head)
	}

	dora.prints(t, `kubectl patch postgresqlinstance example -n default --type=merge -p '{"spec": {"plan": "postgresql-single-small"}}'`, "patched")
	eventually(t, "the server has the next plan's memory", func(ctx context.Context) (string, bool) {
		out, err := dora.ask(ctx, "SHOW shared_buffers")
		return out, err == nil && out == "512MB"
	})
	if now := dora.psql(t, rows); now != "2" {
		t.Errorf("there are %s rows with the next plan, 2 before", now)
	}
	// Of the story: with more removals at once, a person would have to approve them.
	dora.prints(t, "kubectl delete --timeout=2m -n team-a backup/orders", "deleted")
	if out := must(t)(admin.run(t.Context(), "kubectl get backups.backups.anynines.com -A -o jsonpath={.items[*].metadata.name}")); out != "example" {
		t.Errorf("composed are the backups %s, not example alone", out)
	}
}

func backupOfExample(kind string) string {
	manifest := "apiVersion: anynines.com/v1\nkind: " + kind + "\nmetadata: {name: example, namespace: default}\nspec:\n  serviceInstanceType: postgresql\n  instanceRef: example\n"
	if kind == "Restore" {
		manifest += "  backupRef: example\n"
	}
	return manifest
}

func headOfMain(t *testing.T, p *platform.Platform) string {
	t.Helper()
	url := must(t)(p.CloneURL(t.Context(), env.App))
	return must(t)(p.Git(t.Context(), env.Alice, p.Dir, "ls-remote", url, "main"))
}

// pageCommands are the first commands for a shell below a heading of a page.
func pageCommands(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "# "+heading+"\n")
	_, commands, _ := strings.Cut(section, "\n```sh\n")
	commands, _, found := strings.Cut(commands, "\n```\n")
	if !found {
		t.Fatalf("%s has no commands below %q", page, heading)
	}
	return commands + "\n"
}
