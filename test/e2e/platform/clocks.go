package platform

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gitbind.dev/test/env"
)

// clockVariable names the file that says by how many seconds the clock of a process built by
// BuildWithClocks is wrong.
const clockVariable = "GITBIND_TEST_CLOCK"

// What is replaced in package time, and what it is replaced by. Linux has no time namespace
// for the clock on the wall.
const (
	timeNow      = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	timeNowWrong = timeNow + "\tsec += wrongBy.Load()\n"
)

// wrongClock is a further file of package time. It cannot use package os, which imports it;
// and Now itself cannot read the file: timers call it where nothing may wait.
const wrongClock = `package time

import (
	"sync/atomic"
	"syscall"
)

// wrongBy is by how many seconds the clock is wrong.
var wrongBy atomic.Int64

func init() {
	name, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return
	}
	readClock(name)
	go func() {
		for {
			Sleep(100 * Millisecond)
			readClock(name)
		}
	}()
}

func readClock(name string) {
	fd, err := open(name)
	if err != nil {
		return
	}
	defer closefd(fd)
	buf := make([]byte, 32)
	n, err := read(fd, buf)
	if err != nil || n <= 0 {
		return
	}
	sign, seconds := int64(1), int64(0)
	for _, c := range buf[:n] {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			seconds = seconds*10 + int64(c-'0')
		}
	}
	wrongBy.Store(sign * seconds)
}
`

// BuildWithClocks builds the components into a folder, with clocks that SetClock sets. Only
// what they say of the time is wrong then: what waits does not notice.
func BuildWithClocks(ctx context.Context, bin string) error {
	dir, err := os.MkdirTemp("", "gitbind-clocks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := writeClocks(ctx, dir)
	if err != nil {
		return fmt.Errorf("make clocks that can be wrong: %w", err)
	}
	return build(ctx, bin, "CGO_ENABLED=0", "-overlay="+overlay)
}

// writeClocks writes what replaces files of Go's package time into a folder, and gives the
// file that says so to go build.
func writeClocks(ctx context.Context, dir string) (overlay string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	of := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(of, "time.go"))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), timeNow); n != 1 {
		return "", fmt.Errorf("%s has %d times the text that is to be replaced, not once: this version of Go has another time.Now:\n%s", filepath.Join(of, "time.go"), n, timeNow)
	}
	replaced := map[string]string{}
	for name, content := range map[string]string{
		"time.go":       strings.Replace(string(source), timeNow, timeNowWrong, 1),
		"wrongclock.go": wrongClock,
	} {
		replaced[filepath.Join(of, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// SetClock has the clock of a component be wrong by some seconds from a tenth of a second
// later on, also in processes that take its place. It needs Options.Clocks.
func (p *Platform) SetClock(process string, by time.Duration) error {
	path := p.clockFile(process)
	if err := os.WriteFile(path+".new", fmt.Appendf(nil, "%d\n", int64(by/time.Second)), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (p *Platform) clockFile(process string) string {
	return filepath.Join(p.Dir, "tmp", "clock-"+process)
}

// withClock gives a component a clock of its own, if that was asked for.
func (p *Platform) withClock(program env.Program) env.Program {
	if p.clocks {
		program.Env = append(program.Env[:len(program.Env):len(program.Env)], clockVariable+"="+p.clockFile(program.Name))
	}
	return program
}
