package measure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"gitbind.dev/test/env"
)

// profile takes the CPU and allocation profiles of the agents and the API servers
// until it is ended, if asked for.
func (r *run) profile(ctx context.Context, name string) (end func()) {
	if r.Profiles == "" {
		return func() {}
	}
	var group errgroup.Group
	take := func(client *http.Client, process, url string) {
		for _, what := range []string{"profile", "allocs"} {
			group.Go(func() error { return r.takeProfile(ctx, client, url+what+"?seconds=8", name, process, what) })
		}
	}
	for process, url := range r.Platform.Profiles {
		take(http.DefaultClient, process, url)
	}
	for _, cluster := range []string{env.App, env.Control} {
		config := r.Cluster(cluster).Config()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			r.say("no profile of %s: %v", cluster, err)
			continue
		}
		take(client, cluster+"-kube-apiserver", config.Host+"/debug/pprof/")
	}
	return func() {
		if err := group.Wait(); err != nil {
			r.say("no profile: %v", err)
		}
	}
}

// profileStart takes the CPU profile of an agent as soon as it serves one, if asked for.
func (r *run) profileStart(ctx context.Context, agent string) (end func()) {
	if r.Profiles == "" {
		return func() {}
	}
	var group errgroup.Group
	group.Go(func() error {
		for {
			err := r.takeProfile(ctx, http.DefaultClient, r.Platform.Profiles[agent]+"profile?seconds=3", "start", agent, "profile")
			if err == nil || ctx.Err() != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() {
		if err := group.Wait(); err != nil {
			r.say("no profile: %v", err)
		}
	}
}

// profileHeaps takes what the agents hold in memory, if asked for.
func (r *run) profileHeaps(ctx context.Context, name string) {
	if r.Profiles == "" {
		return
	}
	for process, url := range r.Platform.Profiles {
		if err := r.takeProfile(ctx, http.DefaultClient, url+"heap?gc=1", name, process, "heap"); err != nil {
			r.say("no profile: %v", err)
		}
	}
}

func (r *run) takeProfile(ctx context.Context, client *http.Client, url, name, process, what string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	f, err := os.Create(filepath.Join(r.Profiles, fmt.Sprintf("%s-%s-%d-%s.pprof", name, process, r.size, what)))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, res.Body)
	return err
}
