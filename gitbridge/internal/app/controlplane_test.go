package app_test

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/discovery"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/test/env"
)

// controlPlane is a control plane as an operator has made it: with gitbind's
// manifests, without a tenant, and without a bridge.
type controlPlane struct {
	*env.Env
	installed env.State
}

// controlPlanes are those of the tests of this package. A bridge follows all
// tenants of its control plane, so a test has one to itself.
var controlPlanes = env.Pool[*controlPlane]{
	Start: func(ctx context.Context) (*controlPlane, error) {
		e, err := env.Start(ctx, env.Options{Clusters: []string{env.Control}})
		if err != nil {
			return nil, err
		}
		p := &controlPlane{Env: e}
		if err = e.Cluster(env.Control).Apply(ctx, "kustomize/processes/control-plane"); err == nil {
			p.installed, err = e.Cluster(env.Control).State(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
		return p, nil
	},
	Reset: func(ctx context.Context, p *controlPlane) error {
		control := p.Cluster(env.Control)
		if err := control.Reset(ctx, p.installed); err != nil {
			return err
		}
		d, err := discovery.NewDiscoveryClientForConfig(control.Config())
		if err != nil {
			return err
		}
		// A definition that a test has deleted is served again some time after it is there.
		return env.Await(time.Minute, func() error {
			has, err := program.HasKind(d, v1alpha1.GroupVersion.WithKind("DryRun"))
			if err == nil && !has {
				err = errors.New("DryRuns are not served")
			}
			return err
		})
	},
}
