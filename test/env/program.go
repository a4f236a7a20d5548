package env

import (
	"context"
	"net/url"
	"os"
)

// A Program is one that the environment does not build: what is tested in it.
type Program struct {
	Name string // of its process and log, for example "backend"
	Path string
	Env  []string // "NAME=value", besides this process's own

	Ports int                            // how many free ports of 127.0.0.1 it needs
	Args  func(ports []int) []string     // the arguments with those ports
	Ready func(ports []int) (url string) // answers with 200 once the program is ready
}

// Run starts a program as a process of the environment, which ends with it, and
// returns when it is ready.
func (e *Env) Run(ctx context.Context, p Program) (process *Process, ports []int, err error) {
	err = withPorts(ctx, p.Ports, func(ctx context.Context, free []int) error {
		ports = free
		ready := p.Ready(free)
		process = e.process(p.Name, "", p.Args(free), httpReady(ready, nil))
		if process.readyURL, err = url.Parse(ready); err != nil {
			return err
		}
		process.path, process.env = p.Path, append(os.Environ(), p.Env...)
		return process.Start(ctx)
	})
	return process, ports, err
}

// Built is the folder with the components of this tree that GITBIND_BIN names, "" for
// none: make test has built them, and to link them takes seconds in each package.
func Built() string { return os.Getenv("GITBIND_BIN") }
