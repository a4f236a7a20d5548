// Package stage is what measurements take place on: gitbind on a control plane
// and one app cluster, somebody who plays the data services, and eyes on both
// clusters. It measures nothing itself.
package stage

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/env"
)

//go:embed floor.yaml
var floorAPI []byte

// The two ways on which objects travel from the app cluster to the control
// plane: gitbind, and a bare client.
var (
	Subject = platform.PostgresqlInstances
	Floor   = schema.GroupVersionResource{Group: "floor.example.org", Version: "v1", Resource: "bareinstances"}
)

// kinds are those of the two resources.
var kinds = map[schema.GroupVersionResource]string{Subject: "PostgresqlInstance", Floor: "BareInstance"}

// Stage is a running platform.
type Stage struct {
	*platform.Platform
	// ID is the app cluster's.
	ID string
	// App and Control are administrators' clients.
	App, Control dynamic.Interface
	// SeenApp and SeenControl see every change of both resources.
	SeenApp, SeenControl *Eyes

	namespaces int
}

// Options say what to start.
type Options struct {
	// Bin holds the built components; they are built when it is empty.
	Bin string
	// Namespaces is over how many namespaces the claims are spread.
	Namespaces int
	// Shards divide the app clusters among them; one by default.
	Shards int
	// ManyClusters has the Git host work on more for one owner, who has all app clusters.
	ManyClusters bool
	// Profile serves the agents' profiles.
	Profile bool
	// Trace has API servers and Git host log each request with its times.
	Trace bool
	// Gitea has the repositories on a Gitea, in place of the embedded host.
	Gitea bool
	// Progress is told what goes on.
	Progress io.Writer
}

// Start starts everything, up to the first claim in each namespace: those that
// follow are like all others. Everything ends with ctx or Stop.
func Start(ctx context.Context, o Options) (*Stage, error) {
	options := platform.Options{Bin: o.Bin, Env: []string{platform.DeployedMemory}, Plain: true, Shards: o.Shards, Profile: o.Profile, Audit: o.Trace, Gitea: o.Gitea, Progress: o.Progress}
	options.BackendArgs = []string{"--max-clusters=0"}
	if o.ManyClusters {
		options.BackendArgs = append(options.BackendArgs, "--max-work=1024")
	}
	if o.Trace {
		options.BackendArgs = append(options.BackendArgs, "--log-level=debug")
	}
	p, err := platform.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	s := &Stage{Platform: p, namespaces: o.Namespaces}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Stage) start(ctx context.Context) error {
	if out, err := s.Connect(ctx, env.Alice, env.App); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if _, err := s.Plugin(ctx, env.Alice, s.Platform.App(), "bind", "postgresql"); err != nil {
		return err
	}
	var err error
	if s.ID, err = s.ClusterID(ctx, env.App); err != nil {
		return err
	}
	if err := s.makeFloor(ctx); err != nil {
		return err
	}
	for _, c := range []struct {
		name   string
		client *dynamic.Interface
		eyes   **Eyes
	}{{env.App, &s.App, &s.SeenApp}, {env.Control, &s.Control, &s.SeenControl}} {
		config := s.Cluster(c.name).Config()
		if *c.client, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
		if *c.eyes, err = watch(ctx, config, Subject, Floor); err != nil {
			return fmt.Errorf("watch %s: %w", c.name, err)
		}
	}
	if err := s.deliver(ctx, deliverers); err != nil {
		return err
	}
	return s.warm(ctx)
}

// makeFloor installs what the bare relay carries, and the namespaces.
func (s *Stage) makeFloor(ctx context.Context) error {
	file := filepath.Join(s.Dir, "floor.yaml")
	manifests := bytes.NewBuffer(floorAPI)
	for i := range s.namespaces {
		fmt.Fprintf(manifests, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", Namespace(i))
	}
	if err := os.WriteFile(file, manifests.Bytes(), 0o600); err != nil {
		return err
	}
	for _, kubeconfig := range []string{s.Platform.App(), s.Platform.Control()} {
		if _, err := s.Kubectl(ctx, kubeconfig, "apply", "--server-side", "-f", file); err != nil {
			return err
		}
		if _, err := s.Kubectl(ctx, kubeconfig, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+Floor.Resource+"."+Floor.Group); err != nil {
			return err
		}
	}
	return nil
}

// warm sends one claim through each namespace.
func (s *Stage) warm(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the first claims do not travel"))
	defer cancel()
	names := make([]string, s.namespaces)
	for i := range names {
		names[i] = fmt.Sprintf("warm-%d", i)
		var err error
		// An API server serves a new kind a moment after it says so.
		for range 100 {
			if err = s.Create(ctx, Subject, Namespace(i), names[i]); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	_, err := s.SeenApp.UntilAll(ctx, Subject, names, Returned)
	return err
}

// Namespace is the i-th.
func Namespace(i int) string { return fmt.Sprintf("team-%02d", i) }

// Object is a claim of about 600 bytes.
func Object(resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kinds[resource],
		"metadata": map[string]any{
			"namespace": namespace, "name": name,
			"labels":      map[string]any{"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/component": "orders"},
			"annotations": map[string]any{"example.org/owner": "the team that takes the orders, floor 3, phone 4711"},
		},
		"spec": map[string]any{
			"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "expose": "Internal",
			"acceptsIncomplete": true,
			"parameters":        map[string]any{"maxConnections": int64(120), "logStatement": "ddl"},
		},
	}}
}

// Create creates a claim in the app cluster.
func (s *Stage) Create(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) error {
	_, err := s.App.Resource(resource).Namespace(namespace).Create(ctx, Object(resource, namespace, name), metav1.CreateOptions{})
	return err
}

// Far is the namespace on the control plane of what lies in one of the app
// cluster.
func (s *Stage) Far(resource schema.GroupVersionResource, namespace string) string {
	if resource == Floor {
		return namespace
	}
	return "gb-" + s.ID + "-" + namespace
}

// Repository is the folder of the app cluster's repository at the host, or of the backend's
// copy of one that is on a Gitea.
func (s *Stage) Repository() string { return filepath.Join(s.GitDir, s.ID+".git") }

// Git runs git on a repository of the host, to read.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := gitCommand(ctx, dir, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
