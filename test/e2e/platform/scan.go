package platform

import (
	"cmp"
	"context"
	"errors"
	"maps"
	neturl "net/url"
	"slices"
	"time"

	"gitbind.dev/test/env"
	"gitbind.dev/test/scan"
)

// FindSecrets looks for values of Secrets in all that the platform leaves; what it finds
// is the error. The databases of its servers are in it, and what people keep to sign in
// is not. Command lines are looked at by Scan.Watch.
func (p *Platform) FindSecrets(ctx context.Context, s *scan.Scan) error {
	// Kubernetes keeps Secrets in etcd, and gives them to pods in the folders of its
	// kubelets; sign-ins and credentials are in homes and kubeconfigs. Containerd's are images.
	found := []error{s.Files(ctx, p.Dir, "etcd", "home", "kubeconfigs", "bin", "kubelet", "containerd")}
	if p.databases != "" {
		found = append(found, s.Files(ctx, p.databases))
	}
	for _, c := range p.Clusters {
		found = append(found, s.Objects(ctx, c.Name, c.Config()))
	}
	p.mu.Lock()
	pages := slices.Sorted(maps.Values(p.metrics))
	p.mu.Unlock()
	for _, url := range pages {
		found = append(found, page(ctx, s, url))
	}
	for _, process := range p.Processes() {
		found = append(found, s.Variables(process.Name, process.PID()))
	}
	return errors.Join(found...)
}

// page looks at what a URL answers. Who serves it may be started again at this moment.
func page(ctx context.Context, s *scan.Scan, url string) (found error) {
	away := env.Await(time.Minute, func() error {
		found = s.Page(ctx, url)
		if ctx.Err() == nil && errors.As(found, new(*neturl.Error)) {
			return found
		}
		return nil
	})
	return cmp.Or(away, found)
}
