package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	nano  = "postgresql-single-nano"
	small = "postgresql-single-small"

	example   = "docs/examples/postgresql.yaml" // the claim default/example, with the plan nano
	claimFile = "bindings/postgresqlinstances.anynines.com/claims/default/example.yaml"

	arrivalDeadline = 2 * time.Minute
)

func connect(ctx context.Context, p *platform.Platform) error {
	out, err := p.Connect(ctx, env.Alice, env.App)
	fmt.Print(out)
	return err
}

func bind(ctx context.Context, p *platform.Platform) error {
	if err := p.AwaitOffer(ctx); err != nil {
		return err
	}
	out, err := p.Plugin(ctx, env.Alice, p.App(), "bind", "postgresql")
	fmt.Print(out)
	return err
}

func claim(ctx context.Context, p *platform.Platform) error {
	kubeconfig, err := p.Cluster(env.App).UserKubeconfig(dora)
	if err != nil {
		return err
	}
	return arrives(ctx, p, nano, func() error {
		out, err := p.Kubectl(ctx, kubeconfig, "apply", "-f", filepath.Join(p.Root, example))
		fmt.Print(out)
		return err
	})
}

// push changes the plan to the other one of two.
func push(ctx context.Context, p *platform.Platform) error {
	clone := filepath.Join(p.Dir, "clone")
	if _, err := os.Stat(clone); err != nil {
		url, err := p.CloneURL(ctx, env.App)
		if err != nil {
			return err
		}
		if _, err := p.Git(ctx, env.Alice, p.Dir, "clone", "--quiet", url, clone); err != nil {
			return err
		}
	}
	if err := git(ctx, p, clone, []string{"fetch", "--quiet"}, []string{"reset", "--quiet", "--hard", "origin/main"}); err != nil {
		return err
	}
	path := filepath.Join(clone, claimFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("there is no claim to change, apply one first: %w", err)
	}
	from, to := nano, small
	if strings.Contains(string(data), small) {
		from, to = small, nano
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
		return err
	}
	return arrives(ctx, p, to, func() error {
		return git(ctx, p, clone, []string{"commit", "--quiet", "--all", "--message", "Change the plan to " + to}, []string{"show", "--unified=1"}, []string{"push", "--quiet"})
	})
}

func git(ctx context.Context, p *platform.Platform, dir string, commands ...[]string) error {
	for _, args := range commands {
		out, err := p.Git(ctx, env.Alice, dir, args...)
		if err != nil {
			return err
		}
		fmt.Print(out)
	}
	return nil
}

// arrives changes the claim's plan, waits until it is ready on both sides, and says
// what took how long.
func arrives(ctx context.Context, p *platform.Platform, plan string, change func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, arrivalDeadline, fmt.Errorf("not within %s", arrivalDeadline))
	defer cancel()
	began := time.Now()
	if err := change(); err != nil {
		return err
	}
	for _, side := range []struct {
		cluster    string
		conditions []string
	}{
		{env.Control, []string{"status", "conditions"}},
		{env.App, []string{"status", "gitbind", "conditions"}},
	} {
		seen, err := p.Watch(ctx, side.cluster, platform.PostgresqlInstances)
		if err != nil {
			return err
		}
		for _, what := range []struct {
			said  string
			match func(platform.Event) bool
		}{
			{"has the plan " + plan, func(e platform.Event) bool { return platform.Is(e.Object, plan, "spec", "plan") }},
			{"is ready", func(e platform.Event) bool {
				return platform.Condition(e.Object, "Ready", side.conditions...) == "True"
			}},
		} {
			if _, err := seen.Until(ctx, "the claim in the cluster "+side.cluster+" "+what.said, func(e platform.Event) bool {
				return e.Object.GetName() == "example" && what.match(e)
			}); err != nil {
				return err
			}
			fmt.Printf("%8s  the claim in the cluster %s %s\n", time.Since(began).Round(time.Millisecond), side.cluster, what.said)
		}
	}
	return nil
}
