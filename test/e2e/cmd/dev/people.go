package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

const (
	// The claim default/example. What is changed in it are the connections that it allows.
	example            = "docs/examples/postgresql.yaml"
	exampleConnections = 120

	claimFile = "bindings/postgresqlinstances.anynines.com/claims/default/example.yaml"

	arrivalDeadline = 2 * time.Minute
)

func connect(ctx context.Context, p *platform.Platform) error {
	return show(p.Connect(ctx, env.Alice, env.App))
}

func bind(ctx context.Context, p *platform.Platform) error {
	if err := p.AwaitOffer(ctx); err != nil {
		return err
	}
	return show(p.Plugin(ctx, env.Alice, p.App(), "bind", "postgresql"))
}

func claim(ctx context.Context, p *platform.Platform) error {
	kubeconfig, err := p.Cluster(env.App).UserKubeconfig(dora)
	if err != nil {
		return err
	}
	return arrives(ctx, p, exampleConnections, func() error {
		return show(p.Kubectl(ctx, kubeconfig, "apply", "-f", filepath.Join(p.Root, example)))
	})
}

// push allows one connection more.
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
	text, connections, _ := strings.Cut(string(data), "maxConnections: ")
	connections, rest, _ := strings.Cut(connections, "\n")
	n, err := strconv.ParseInt(connections, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: maxConnections: %w", path, err)
	}
	changed := fmt.Sprintf("%smaxConnections: %d\n%s", text, n+1, rest)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		return err
	}
	message := fmt.Sprintf("Allow %d connections", n+1)
	return arrives(ctx, p, n+1, func() error {
		return git(ctx, p, clone, []string{"commit", "--quiet", "--all", "--message", message}, []string{"show", "--unified=1"}, []string{"push", "--quiet"})
	})
}

func git(ctx context.Context, p *platform.Platform, dir string, commands ...[]string) error {
	for _, args := range commands {
		if err := show(p.Git(ctx, env.Alice, dir, args...)); err != nil {
			return err
		}
	}
	return nil
}

// show prints what a command that succeeded has printed. An error has it in its words.
func show(out string, err error) error {
	if err == nil {
		fmt.Print(out)
	}
	return err
}

// arrives changes the claim, waits until both sides have its connections and say that
// it is ready, and says what took how long.
func arrives(ctx context.Context, p *platform.Platform, connections int64, change func() error) error {
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
			{fmt.Sprintf("allows %d connections", connections), func(e platform.Event) bool {
				return platform.Is(e.Object, connections, "spec", "parameters", "maxConnections")
			}},
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
