package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Snapshot keeps what the cluster's etcd holds now, for Restore. The cluster is
// stopped for it and started again.
func (c *Cluster) Snapshot(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp(c.dir, "snapshot-"); err != nil {
		return "", err
	}
	err = c.whileStopped(ctx, func() error { return os.CopyFS(dir, os.DirFS(c.etcdData())) })
	if err != nil {
		return "", fmt.Errorf("take a snapshot of %s: %w", c.Name, err)
	}
	return dir, nil
}

// Restore puts the cluster's etcd back to where it was when a snapshot was taken,
// as from a backup: objects made since are gone, versions of objects go back. Clients
// that watch the cluster must start again.
func (c *Cluster) Restore(ctx context.Context, dir string) error {
	err := c.whileStopped(ctx, func() error {
		if err := os.RemoveAll(c.etcdData()); err != nil {
			return err
		}
		return os.CopyFS(c.etcdData(), os.DirFS(dir))
	})
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) etcdData() string { return filepath.Join(c.dir, "etcd") }

func (c *Cluster) whileStopped(ctx context.Context, do func() error) error {
	var all []*Process
	for _, p := range []*Process{c.ControllerManager, c.APIServer, c.Etcd} {
		if p == nil {
			continue
		}
		if err := p.Stop(ctx); err != nil {
			return err
		}
		all = append([]*Process{p}, all...)
	}
	if err := do(); err != nil {
		return errors.Join(err, start(ctx, all))
	}
	return start(ctx, all)
}

func start(ctx context.Context, all []*Process) error {
	for _, p := range all {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}
