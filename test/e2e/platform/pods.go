package platform

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gitbind.dev/test/env"
)

// Pods have the components run as they are installed: on nodes, as pods of images, from
// the manifests.
type Pods struct {
	// Nodes is how many nodes each cluster has, the control plane at least one.
	Nodes map[string]int
	// Images are archives that all nodes have.
	Images []string
	// Tag is the version of the images that are installed on the control plane.
	Tag string
	// Repositories is the folder that is the volume of the embedded host; one in Dir by
	// default.
	Repositories string
}

// backendPort is the one of a node at which people reach the backend.
const backendPort = 30443

// controlPlane is an operator's own overlay of the manifests. Its ConfigMap with the CA of the
// issuer is made of a file beside it; the certificate of the backend is cert-manager's.
const controlPlane = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - %[1]s/kustomize/control-plane
  - volume.yaml
components:
  - %[1]s/kustomize/cert-manager
  - %[1]s/kustomize/issuer-ca
  - %[1]s/kustomize/priority
images:
  - {name: gitbind-backend, newTag: %[2]s}
  - {name: gitbind-gitbridge, newTag: %[2]s}
configMapGenerator:
  - name: gitbind-backend
    namespace: gitbind-system
    behavior: merge
    literals:
      - publicURL=%[3]s
      - oidcIssuer=%[4]s
      - oidcClientID=%[5]s
  - name: gitbind-ca
    namespace: gitbind-system
    files: [ca.crt]
patches:
  - target: {kind: Service, name: gitbind-backend}
    patch: |
      - {op: add, path: /spec/type, value: NodePort}
      - {op: add, path: /spec/ports/0/nodePort, value: %[6]d}
  - target: {kind: Certificate, name: gitbind-backend}
    patch: |
      - {op: remove, path: /spec/dnsNames}
      - {op: add, path: /spec/ipAddresses, value: ["%[7]s"]}
`

const volume = `apiVersion: v1
kind: PersistentVolume
metadata: {name: gitbind-git}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 10Gi}
  hostPath: {path: %q}
`

func (p *Platform) overlay() string { return filepath.Join(p.Dir, "control-plane") }

// writeOverlay writes the operator's overlay for a version.
func (p *Platform) writeOverlay(tag string) error {
	dir := p.overlay()
	// A kustomization may not name absolute paths.
	root, err := filepath.Rel(dir, p.Root)
	if err != nil {
		return err
	}
	files := map[string]string{
		"kustomization.yaml": fmt.Sprintf(controlPlane, root, tag, p.BackendURL, p.Dex.Issuer, p.Dex.ClientID, backendPort, p.Cluster(env.Control).Nodes[0].Address),
		"volume.yaml":        fmt.Sprintf(volume, p.GitDir),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// installPods installs the control plane, from files that an operator has.
func (p *Platform) installPods(ctx context.Context) error {
	p.BackendURL = fmt.Sprintf("https://%s:%d", p.Cluster(env.Control).Nodes[0].Address, backendPort)
	dir := p.overlay()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := os.ReadFile(p.CAFile)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), ca, 0o600); err != nil {
		return err
	}
	// As a storage provider would, whom fsGroup obliges.
	if err := os.MkdirAll(p.GitDir, 0o700); err != nil {
		return err
	}
	if err := os.Chown(p.GitDir, 65532, 65532); err != nil {
		return err
	}
	if err := p.Upgrade(ctx, p.pods.Tag); err != nil {
		return err
	}
	own, err := p.Kubectl(ctx, p.Control(), "get", "secret", "gitbind-backend-tls", "-n", "gitbind-system", "-o", `go-template={{index .data "ca.crt" | base64decode}}`)
	if err != nil {
		return err
	}
	// People trust both authorities.
	return os.WriteFile(p.CAFile, append(ca, own...), 0o600)
}

// Uninstall takes the control plane out again, as docs/installing.md says.
func (p *Platform) Uninstall(ctx context.Context) error {
	for _, args := range [][]string{
		{"delete", "clusterbindings.gitbind.dev", "--all", "--timeout=1m"},
		{"delete", "--kustomize=" + p.overlay(), "--ignore-not-found", "--timeout=2m"},
	} {
		if _, err := p.Kubectl(ctx, p.Control(), args...); err != nil {
			return err
		}
	}
	return nil
}

// Install applies a version of the control plane.
func (p *Platform) Install(ctx context.Context, tag string) error {
	if err := p.writeOverlay(tag); err != nil {
		return err
	}
	_, err := p.Kubectl(ctx, p.Control(), "apply", "--server-side", "--kustomize="+p.overlay())
	return err
}

// Upgrade brings the control plane to a version, or back to it, and returns when its pods
// are ready.
func (p *Platform) Upgrade(ctx context.Context, tag string) error {
	if err := p.Install(ctx, tag); err != nil {
		return err
	}
	if err := p.RolledOut(ctx, p.Control(), "gitbind-backend", "gitbind-gitbridge"); err != nil {
		return err
	}
	// The nodes hear of the pods' addresses a moment after the API server.
	return env.Await(time.Minute, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(p.BackendURL, "https://"))
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// RolledOut returns when Deployments of ours have their pods ready.
func (p *Platform) RolledOut(ctx context.Context, kubeconfig string, names ...string) error {
	for _, name := range names {
		if _, err := p.Kubectl(ctx, kubeconfig, "rollout", "status", "--timeout=2m", "-n", "gitbind-system", "deployment/"+name); err != nil {
			pods, _ := p.Kubectl(ctx, kubeconfig, "get", "pods,events", "-n", "gitbind-system", "-o", "wide")
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(pods))
		}
	}
	return nil
}
