package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
)

// attachFile is what an environment tells other processes about itself. It is there
// from the end of the start to the begin of the stop.
const attachFile = "env.json"

type attachable struct {
	Kubectl  string
	Clusters []attachableCluster
	Dex      *Dex `json:",omitempty"`
}

type attachableCluster struct{ Name, URL, Kubeconfig string }

func (e *Env) writeAttachable() error {
	a := attachable{Kubectl: e.Kubectl, Dex: e.Dex}
	for _, c := range e.Clusters {
		a.Clusters = append(a.Clusters, attachableCluster{c.Name, c.URL, c.Kubeconfig})
	}
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	// A reader finds all of it.
	tmp := filepath.Join(e.Dir, "."+attachFile)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(e.Dir, attachFile))
}

// Attach is the environment that another process runs in a directory, for what needs
// its clusters and users only. Its processes belong to the other: here they cannot be
// stopped or started, and Stop is not called.
func Attach(dir string) (*Env, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	e := &Env{Root: root}
	if e.Dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(e.Dir, attachFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !Runs(e.Dir) {
		return nil, fmt.Errorf("attach to %s: no environment runs there, or it is not ready yet", e.Dir)
	}
	if err != nil {
		return nil, err
	}
	var a attachable
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("attach to %s: %s: %w", e.Dir, attachFile, err)
	}
	e.Kubectl, e.Dex = a.Kubectl, a.Dex
	for _, one := range a.Clusters {
		c := &Cluster{Name: one.Name, URL: one.URL, Kubeconfig: one.Kubeconfig, env: e, dir: filepath.Join(e.Dir, one.Name)}
		if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("attach to %s: %w", e.Dir, err)
		}
		c.config.QPS = -1
		if c.ca, err = readAuthority(c.dir); err != nil {
			return nil, fmt.Errorf("attach to %s: %w", e.Dir, err)
		}
		e.Clusters = append(e.Clusters, c)
	}
	return e, nil
}

// Runs reports whether an environment runs, starts or stops in a directory.
func Runs(dir string) bool {
	unlock, err := tryLock(lockOf(dir))
	if err == nil {
		unlock()
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}
