package env

import (
	"context"
	"fmt"
	"os/exec"
)

// startCertManager has the controllers of cert-manager issue certificates on a cluster, from
// CAs that are there.
func (e *Env) startCertManager(ctx context.Context, c *Cluster) error {
	select {
	case <-c.serving:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer e.phase("cert-manager")()
	if err := c.Apply(ctx, e.programs.files(certManager, "deploy/crds")); err != nil {
		return err
	}
	return e.process(certManager, certManager, []string{"--kubeconfig=" + c.Kubeconfig}, nil).Start(ctx)
}

// RenewCertificate asks cert-manager for a new certificate before its time, as cmctl renew does.
func (c *Cluster) RenewCertificate(ctx context.Context, namespace, name string) error {
	const issuing = `[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Issuing", "status": "True",
		"reason": "ManuallyTriggered", "message": "asked for by a test", "lastTransitionTime": "2026-01-01T00:00:00Z"}}]`
	out, err := exec.CommandContext(ctx, c.env.Kubectl, "--kubeconfig="+c.Kubeconfig, "patch", "certificate.cert-manager.io/"+name,
		"--namespace="+namespace, "--subresource=status", "--type=json", "--patch="+issuing).CombinedOutput()
	if err != nil {
		return fmt.Errorf("renew certificate %s: %w: %s", name, err, out)
	}
	return nil
}
