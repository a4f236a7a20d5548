// Package server runs real PostgreSQL servers as processes of this machine: one that
// takes writes and its standbys, with streaming replication, below a directory.
//
// It is for tests and demonstrations. The processes end with the one that runs them,
// and nothing waits for the disk: data outlive every process, but no power failure. A
// primary that ends is started again; no standby ever takes its place.
package server

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// oldest is the first version that has all that is used here.
const oldest = 15

// errMissing is for people: it says what to do.
var errMissing = errors.New("PostgreSQL 15 or newer is not installed: run apt-get install postgresql")

// Programs are those of one installation of PostgreSQL.
type Programs struct {
	Dir   string
	Major int
}

// Find finds the newest installation of this machine, in PATH and where Debian has it.
func Find() (Programs, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return Programs{}, err
	}
	// Programs of users lead to the installation, as /usr/bin/psql or a link.
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return newest(dirs)
}

var versionOutput = regexp.MustCompile(`^postgres \(PostgreSQL\) ([0-9]+)`)

// newest is the newest complete installation in one of some folders.
func newest(dirs []string) (Programs, error) {
	var best Programs
	for _, dir := range dirs {
		p := Programs{Dir: dir}
		complete := true
		for _, name := range []string{"initdb", "pg_basebackup", "pg_dump", "pg_restore"} {
			_, err := exec.LookPath(p.path(name))
			complete = complete && err == nil
		}
		out, err := exec.Command(p.path("postgres"), "--version").Output()
		version := versionOutput.FindSubmatch(out)
		if err != nil || version == nil || !complete {
			continue
		}
		if p.Major, err = strconv.Atoi(string(version[1])); err == nil && p.Major >= oldest && p.Major > best.Major {
			best = p
		}
	}
	if best.Dir == "" {
		return best, errMissing
	}
	return best, nil
}

func (p Programs) path(name string) string { return filepath.Join(p.Dir, name) }
