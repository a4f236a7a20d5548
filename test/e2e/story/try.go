package story

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gitbind.dev/test/env"
)

// Try is what a person can do by hand once the story is told. The demo prints it,
// and a test tries each line of it.
type Try struct {
	// Commands are lines for a shell, one after the other.
	Commands []string
	// Places are what else there is to look at.
	Places []Place
}

// Place is a file, a folder or an address.
type Place struct {
	Name  string
	Where string
	// User and Password are for a person who is asked to sign in there.
	User, Password string
}

// The names of the places.
const (
	AppAdmin     = "app cluster, administrator"
	ControlAdmin = "control plane, administrator"
	WebPage      = "web page, and backend"
	Issuer       = "OIDC issuer"
	Logs         = "logs"
)

// WhatToTry is how to go on by hand.
func (s *Story) WhatToTry(ctx context.Context) (Try, error) {
	p := s.Platform
	url, err := p.CloneURL(ctx, env.App)
	if err != nil {
		return Try{}, err
	}
	alice := func(name, where string) Place { return Place{name, where, env.Alice, env.AlicePassword} }
	return Try{
		Commands: []string{
			fmt.Sprintf("export PATH=%s:$PATH:%s XDG_CONFIG_HOME=%s/.config", p.Bin, filepath.Dir(p.Env.Kubectl), p.Home(env.Alice)),
			fmt.Sprintf("export KUBECONFIG=%s  # Dora in the app cluster", s.developer),
			fmt.Sprintf("kubectl apply -f %s/docs/examples/postgresql.yaml", p.Root),
			fmt.Sprintf("kubectl apply -f %s/docs/examples/servicebinding.yaml  # its credentials", p.Root),
			"kubectl get postgresqlinstances -A",
			"kubectl gitbind service-info servicebinding/example -n default  # how to connect, with a line for psql",
			fmt.Sprintf("kubectl gitbind get --kubeconfig %s  # claims, and files that were refused", p.App()),
			"kubectl gitbind doctor  # each link to the control plane, as far as Dora may see it",
			"git clone -c credential.helper='!kubectl-gitbind git-credential' " + url,
		},
		Places: []Place{
			{Name: AppAdmin, Where: p.App()},
			{Name: ControlAdmin, Where: p.Control()},
			alice(WebPage, p.BackendURL),
			alice(Issuer, p.Dex.Issuer),
			{Name: Logs, Where: filepath.Join(p.Dir, "logs")},
		},
	}, nil
}

// String is what the demo prints.
func (t Try) String() string {
	var b strings.Builder
	for _, command := range t.Commands {
		fmt.Fprintf(&b, "  %s\n", command)
	}
	b.WriteString("\n")
	for _, place := range t.Places {
		fmt.Fprintf(&b, "  %-28s  %s", place.Name, place.Where)
		if place.User != "" {
			fmt.Fprintf(&b, "  (sign in as %s, password %s)", place.User, place.Password)
		}
		b.WriteString("\n")
	}
	return b.String()
}
