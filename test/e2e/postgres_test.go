package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"gitbind.dev/test/e2e/platform"
)

// composed is what compositions make: objects around the kinds of the a8s operators.
const composed = `
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata: {name: composed-database}
spec:
  watch: true
  providerConfigRef: {name: kubernetes-provider}
  forProvider:
    manifest:
      apiVersion: postgresql.anynines.com/v1beta3
      kind: Postgresql
      metadata: {name: composed, namespace: default}
      spec: {replicas: 1, version: 14, volumeSize: 3Gi, postgresConfiguration: {maxConnections: 30}}
---
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata: {name: composed-binding}
spec:
  watch: true
  providerConfigRef: {name: kubernetes-provider}
  forProvider:
    manifest:
      apiVersion: servicebindings.anynines.com/v1beta3
      kind: ServiceBinding
      metadata: {name: composed, namespace: default}
      spec: {instance: {apiVersion: postgresql.anynines.com/v1beta3, kind: Postgresql, NamespacedName: {name: composed, namespace: default}}}
`

// testDatabase connects to what provider-kubernetes has made.
func testDatabase(t *testing.T, p *platform.Platform) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "composed.yaml")
	if err := os.WriteFile(file, []byte(composed), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t)(p.Kubectl(ctx, p.Control(), "apply", "-f", file))
	binding := "servicebindings.servicebindings.anynines.com/composed"
	must(t)(p.Kubectl(ctx, p.Control(), "wait", "--for=create", "--timeout=2m", binding))
	must(t)(p.Kubectl(ctx, p.Control(), "wait", "--for=jsonpath={.status.implemented}=true", "--timeout=2m", binding))
	secret := &corev1.Secret{}
	if err := json.Unmarshal([]byte(must(t)(p.Kubectl(ctx, p.Control(), "get", "secret", "composed-service-binding", "-o", "json"))), secret); err != nil {
		t.Fatal(err)
	}
	at := func(key string) string { return string(secret.Data[key]) }
	conn, err := pgx.Connect(ctx, "host="+at("host")+" port="+at("port")+" user="+at("username")+
		" password="+at("password")+" dbname="+at("database")+" sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var connections string
	if err := conn.QueryRow(ctx, "SHOW max_connections").Scan(&connections); err != nil || connections != "30" {
		t.Errorf("max_connections is %q (%v), want 30", connections, err)
	}
	must(t)(p.Kubectl(ctx, p.Control(), "wait", "--for=jsonpath={.status.atProvider.manifest.status.clusterStatus}=Running", "--timeout=2m", "objects.kubernetes.crossplane.io/composed-database"))
}
