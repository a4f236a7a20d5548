package app

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/program"
	"gitbind.dev/test/env"
)

// testWithoutDryRuns takes the definition of DryRuns away: a backend that is newer than the
// definitions works.
func (f *fixture) testWithoutDryRuns(t *testing.T) {
	f.stop()
	f.kubectl(t, "delete", "crd", "dryruns.gitbind.dev", "--wait")
	discovering, err := discovery.NewDiscoveryClientForConfig(f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is gone", func() error {
		if has, err := program.HasKind(discovering, v1alpha1.GroupVersion.WithKind("DryRun")); has || err != nil {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	f.run(t)
	const words = "no definition of DryRuns"
	eventually(t, "it is said", func() error {
		if !strings.Contains(f.log.String(), words) {
			return errors.New("nothing is said")
		}
		return nil
	})
	if c := f.connect(t, env.Alice, "11111111-1111-4111-8111-111111111111"); c.ID == "" {
		t.Error("no cluster")
	}
}
