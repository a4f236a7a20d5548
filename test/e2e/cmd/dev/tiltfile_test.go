package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gitbind.dev/test/env"
)

// The Tiltfile is read as text: what it says of this checkout is in literals.

func TestEachComponentOfTheTiltfileIsRebuiltWhenAPackageOfItsIsSaved(t *testing.T) {
	root, tiltfile := readTiltfile(t)
	components := regexp.MustCompile(`(?s)component\('([^']*)', '([^']*)',(.*?)\n    health=`).FindAllStringSubmatch(tiltfile, -1)
	if len(components) != 3 {
		t.Fatalf("the Tiltfile has %d components, want 3", len(components))
	}
	plugin := regexp.MustCompile(`(?s)local_resource\('([^']*)', build\('(./konnector[^']*)'\)[^\n]*\n    deps=(.*?)\n\n?local_resource`).FindStringSubmatch(tiltfile)
	if plugin == nil {
		t.Fatal("the Tiltfile has no kubectl-gitbind")
	}
	components = append(components, plugin)
	for _, c := range components {
		name, pkg := c[1], c[2]
		sources, ignored, _ := strings.Cut(c[3], "ignore=")
		watched, unwatched := paths(sources), paths(ignored)
		for _, path := range append(watched, unwatched...) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, needed := range packages(t, root, pkg) {
			if !within(needed, watched) || within(needed, unwatched) {
				t.Errorf("%s imports %s, and is not rebuilt when it is saved", name, needed)
			}
		}
	}
}

func TestTheTiltfileRunsCommandsAndNamesPortsThatAreThere(t *testing.T) {
	_, tiltfile := readTiltfile(t)
	chosen, err := choose(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range regexp.MustCompile(`port\['([^']*)'\]`).FindAllStringSubmatch(tiltfile, -1) {
		if chosen[p[1]] == 0 {
			t.Errorf("there is no port %q", p[1])
		}
	}
	commands := regexp.MustCompile(`dev\(('[^)]*)\)`).FindAllStringSubmatch(tiltfile, -1)
	if len(commands) < 8 {
		t.Errorf("the Tiltfile runs %d commands, want 8 or more", len(commands))
	}
	for _, c := range commands {
		args := strings.Fields(strings.NewReplacer("'", "", ",", "", "name", gitbridge).Replace(c[1]))
		found, rest, err := newCommand(t.TempDir()).Find(args)
		if err != nil || !found.HasParent() || found.ValidateArgs(rest) != nil {
			t.Errorf("dev %s: there is no such command (%v)", c[1], err)
		}
	}
}

func TestPortsStayUnlessAnotherProcessHasTakenThem(t *testing.T) {
	first, err := choose(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", address(first[backend]))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		loopRuns bool
		stays    bool
	}{{loopRuns: true, stays: true}, {loopRuns: false, stays: false}} {
		again, err := choose(first, c.loopRuns)
		if err != nil {
			t.Fatal(err)
		}
		if again[gitbridge] != first[gitbridge] || (again[backend] == first[backend]) != c.stays {
			t.Errorf("loop runs: %t: %v becomes %v", c.loopRuns, first, again)
		}
	}
}

func readTiltfile(t *testing.T) (root, content string) {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "Tiltfile"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(data)
}

// paths are those in a text of literals; after a prefix, as in
// ['gitbridge/' + shared for shared in ['claim', 'store']].
func paths(text string) []string {
	var all []string
	prefix := ""
	for _, literal := range regexp.MustCompile(`'([^']*)'`).FindAllStringSubmatch(text, -1) {
		if strings.HasSuffix(literal[1], "/") {
			prefix = literal[1]
			continue
		}
		all = append(all, prefix+literal[1])
	}
	return all
}

// packages are the folders of the checkout's packages that a program consists of.
func packages(t *testing.T, root, program string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{if .Module.Main}}{{.Dir}}{{end}}{{end}}", program)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", program, err)
	}
	dirs := strings.Fields(strings.ReplaceAll(string(out), root+string(filepath.Separator), ""))
	if len(dirs) < 5 {
		t.Fatalf("%s consists of %q only", program, dirs)
	}
	return dirs
}

func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}
