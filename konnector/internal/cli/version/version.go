// Package version tells the versions of the plugin, and of the konnector and the
// backend that it finds. What it cannot reach, or see, it leaves out.
package version

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
)

// timeout is how long all that is asked may take.
const timeout = 10 * time.Second

// Input is what the person asked for.
type Input struct {
	command.Call
	Client string
	Format output.Format
}

// Versions is what JSON and YAML show.
type Versions struct {
	Client string `json:"client"`
	// Konnector is the image that runs in the cluster.
	Konnector string `json:"konnector,omitempty"`
	// RollingOut says that one of another image may run there still.
	RollingOut bool      `json:"rollingOut,omitempty"`
	Backends   []Backend `json:"backends,omitempty"`
}

// Backend is one control plane's.
type Backend struct {
	Connection string `json:"connection"`
	URL        string `json:"url"`
	Version    string `json:"version,omitempty"`
	// Problem says why the version is not known.
	Problem string `json:"problem,omitempty"`
}

// Do prints the versions.
func Do(ctx context.Context, in Input) error {
	v := in.find(ctx)
	if in.Format.IsData() {
		return output.Data(in.Terminal.Out, in.Format, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Client:    kubectl-gitbind %s\n", v.Client)
	if v.Konnector != "" {
		rollingOut := ""
		if v.RollingOut {
			rollingOut = " (being rolled out)"
		}
		fmt.Fprintf(&b, "Konnector: %s%s\n", output.Line(v.Konnector), rollingOut)
	}
	for _, backend := range v.Backends {
		text := backend.Version
		if text == "" {
			text = "unknown: " + backend.Problem
		}
		fmt.Fprintf(&b, "Backend:   %s (%s)\n", output.Line(text), backend.URL)
	}
	_, err := fmt.Fprint(in.Terminal.Out, b.String())
	return err
}

func (in Input) find(ctx context.Context) Versions {
	v := Versions{Client: in.Client}
	if in.Cluster == nil {
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if konnector, err := in.Cluster.Konnector(ctx); err == nil && konnector != nil {
		v.Konnector, v.RollingOut = appcluster.Image(konnector), !appcluster.IsReplaced(konnector)
	}
	connections, err := in.Cluster.Connections(ctx)
	if err != nil {
		return v
	}
	for i := range connections {
		c := &connections[i]
		if c.Spec.BackendURL == "" {
			continue
		}
		backend := Backend{Connection: c.Name, URL: c.Spec.BackendURL}
		info, err := in.Ask(ctx, c)
		if backend.Version = info.Version; err != nil {
			backend.Problem = output.Line(err.Error())
		}
		v.Backends = append(v.Backends, backend)
	}
	return v
}
