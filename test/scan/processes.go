package scan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Watch looks at the list of processes again and again, until ctx ends: some last for a
// moment only. Commands tells what was found.
func (s *Scan) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if _, err := strconv.Atoi(e.Name()); err != nil {
				continue
			}
			// A process may have ended by now.
			line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			s.mu.Lock()
			s.commands[string(line)] = true
			s.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Commands looks at all command lines that Watch has seen.
func (s *Scan) Commands() error {
	s.mu.Lock()
	var lines []string
	for line := range s.commands {
		lines = append(lines, line)
	}
	s.mu.Unlock()
	if len(lines) == 0 {
		return errors.New("no process was seen")
	}
	var found []error
	for _, line := range lines {
		program, _, _ := strings.Cut(line, "\x00")
		found = append(found, s.look("a command line of "+program, []byte(line)))
	}
	return errors.Join(found...)
}

// Variables looks at what a process was begun with, where this machine shows it.
func (s *Scan) Variables(name string, pid int) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if os.IsNotExist(err) || pid == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return s.look("a variable of "+name, data)
}
