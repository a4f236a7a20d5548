package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"gitbind.dev/test/env"
)

// A Machine runs the servers of instances below a directory.
type Machine struct {
	dir      string
	programs Programs
	owner    *owner
	spawner  *env.Spawner
	unlock   func()

	mu        sync.Mutex
	instances map[string]*Instance
}

// An owner is the user as whom servers run.
type owner struct {
	name     string
	uid, gid int
	// other tells that it is not the user of this process.
	other bool
}

// Open begins to run servers below a directory, which is made if it is not there. The
// data of an earlier Machine are found again. Close stops the servers.
func Open(dir string) (*Machine, error) {
	programs, err := Find()
	if err != nil {
		return nil, err
	}
	o, err := findOwner()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	m := &Machine{dir: dir, programs: programs, owner: o, instances: map[string]*Instance{}}
	if err := m.makeDirs(); err != nil {
		return nil, err
	}
	if m.unlock, err = lock(filepath.Join(dir, "operator.lock")); err != nil {
		return nil, err
	}
	m.spawner = env.NewSpawner()
	return m, nil
}

// findOwner is this user or, since PostgreSQL refuses to run as root, another one.
func findOwner() (*owner, error) {
	var found *user.User
	var err error
	if os.Getuid() != 0 {
		found, err = user.Current()
	} else if found, err = user.Lookup("postgres"); err != nil {
		found, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user to run PostgreSQL: %w", err)
	}
	o := &owner{name: found.Username, other: os.Getuid() == 0}
	if o.uid, err = strconv.Atoi(found.Uid); err != nil {
		return nil, err
	}
	o.gid, err = strconv.Atoi(found.Gid)
	return o, err
}

// longestSocket is what fits into the address of a socket.
const longestSocket = 107

func (m *Machine) makeDirs() error {
	if len(m.sockets())+len("/.s.PGSQL.65535") > longestSocket {
		return fmt.Errorf("the path %s is too long for PostgreSQL's sockets: choose a shorter one", m.dir)
	}
	if err := os.MkdirAll(m.dir, 0o711); err != nil {
		return err
	}
	if err := m.owner.mayEnter(m.dir); err != nil {
		return err
	}
	for _, dir := range []string{m.sockets(), filepath.Join(m.dir, "instances")} {
		if err := m.mkdir(dir); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) sockets() string { return filepath.Join(m.dir, "s") }

// mayEnter tells which folder above the data keeps the servers' user out.
func (o *owner) mayEnter(dir string) error {
	if !o.other {
		return nil
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if ok && int(stat.Uid) != o.uid && info.Mode()&0o001 == 0 {
			return fmt.Errorf("PostgreSQL runs as the user %s, who may not enter %s: choose another folder for its data", o.name, dir)
		}
		if filepath.Dir(dir) == dir {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// lock takes a lock that ends with this process.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: another operator runs servers there: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// mkdir makes a folder that only the servers' user, and root, may enter.
func (m *Machine) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return m.give(dir)
}

// write writes a file of the servers.
func (m *Machine) write(path, content string) error {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return err
	}
	return m.give(path)
}

func (m *Machine) give(path string) error {
	if !m.owner.other {
		return nil
	}
	return os.Chown(path, m.owner.uid, m.owner.gid)
}

// command is a program of PostgreSQL with an environment that holds nothing of ours.
func (m *Machine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, m.programs.path(program), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + m.programs.Dir, "LC_ALL=C", "TZ=UTC"}
	return cmd
}

// asOwner makes it run as the servers' user.
func (m *Machine) asOwner(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if m.owner.other {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(m.owner.uid), Gid: uint32(m.owner.gid)}
	}
	return cmd
}

// Instance is the instance with an id, which is part of paths. Its servers are started
// by Reconcile. ended is called, from a goroutine of its own, after a server has ended
// by itself.
func (m *Machine) Instance(id string, ended func()) *Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.instances[id]
	if i == nil {
		i = &Instance{machine: m, dir: filepath.Join(m.dir, "instances", id), ended: ended}
		m.instances[id] = i
	}
	return i
}

// Lookup is the instance with an id, nil when Instance was not called for it.
func (m *Machine) Lookup(id string) *Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[id]
}

// Delete stops the servers of an instance and deletes its data.
func (m *Machine) Delete(id string) error {
	i := m.Instance(id, func() {})
	i.stop()
	if err := os.RemoveAll(i.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.instances, id)
	return nil
}

// Close stops all servers. Their data stay. Nothing may be called afterwards.
func (m *Machine) Close() {
	m.mu.Lock()
	instances := m.instances
	m.mu.Unlock()
	var all sync.WaitGroup
	for _, i := range instances {
		all.Go(i.stop)
	}
	all.Wait()
	m.spawner.Close()
	m.unlock()
}
