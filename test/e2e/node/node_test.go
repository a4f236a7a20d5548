//go:build linux

package node

import (
	"context"
	"syscall"
	"testing"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
	"gitbind.dev/test/env"
)

// start installs the first release on a control plane of two nodes; the app cluster has one.
func start(t *testing.T) *platform.Platform {
	t.Helper()
	if !*onNodes {
		t.Skip("needs nodes: make e2e-node")
	}
	// Repositories are the backend's user's, and this test looks into them.
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "safe.directory")
	t.Setenv("GIT_CONFIG_VALUE_0", "*")
	images := all.others()
	for _, release := range releases {
		images = append(images, all.images(release))
	}
	p, err := platform.Start(t.Context(), platform.Options{
		Bin: all.bin(releases[0]), Postgres: true, Progress: t.Output(),
		Pods: &platform.Pods{
			Nodes: map[string]int{env.Control: 2, env.App: 1}, Images: images, Tag: releases[0],
			Repositories: smallVolume(t),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.LogTails(t)
			for _, c := range p.Clusters {
				for _, args := range [][]string{
					{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-n", "gitbind-system"},
					{"logs", "-n", "gitbind-system", "--selector=app.kubernetes.io/part-of=gitbind", "--tail=20", "--prefix"},
				} {
					out, err := p.Kubectl(context.Background(), c.Kubeconfig, args...)
					t.Logf("%s: kubectl %v: %v\n%s", c.Name, args, err, out)
				}
			}
		}
		// The test's own context is done by now.
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// smallVolume is a folder that can be filled without anybody else's noticing.
func smallVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestOnNodes installs gitbind as its documentation says, and tells the story of the demo.
func TestOnNodes(t *testing.T) {
	p := start(t)
	for _, phase := range p.Phases() {
		t.Logf("%8s %s", phase.Took.Round(1e8), phase.Name)
	}
	if err := (&story.Story{Platform: p, Out: t.Output()}).Tell(t.Context()); err != nil {
		t.Fatal(err)
	}
	operations(t, p)
}
