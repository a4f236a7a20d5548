package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/test/env"
)

// page is what is to be typed by a page of the documentation: the commands of its
// indented blocks, by heading.
type page struct {
	name     string
	headings []string
	commands map[string][]*pageCommand
}

type pageCommand struct {
	text string
	// control says that it is for the control plane, as a comment beside it tells.
	control bool
	// ran is set when a test ran it.
	ran bool
}

var (
	pageHeading = regexp.MustCompile(`^#+ (.+)$`)
	placeholder = regexp.MustCompile(`\b[A-Z]{2,}(?:[-.][A-Z]+)*\b(?:\.\.\.)?`)
)

// readPage finds the commands of a page. A command goes on in the next line after a
// backslash or a pipe.
func readPage(t *testing.T, name string) *page {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "```") {
		t.Fatalf("%s has blocks in fences, which are not read here", name)
	}
	p := &page{name: name, commands: map[string][]*pageCommand{}}
	const indent = "    "
	heading, block, goesOn := "", "", false
	end := func() {
		if text := strings.TrimSpace(block); text != "" {
			p.commands[heading] = append(p.commands[heading], &pageCommand{text: text, control: strings.Contains(text, "# control plane")})
		}
		block = ""
	}
	before := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		code := strings.HasPrefix(line, indent) && (strings.TrimSpace(before) == "" || strings.HasPrefix(before, indent))
		if !goesOn || !code {
			end()
		}
		if code {
			block += strings.TrimPrefix(line, indent) + "\n"
			goesOn = strings.HasSuffix(line, `\`) || strings.HasSuffix(line, "|")
		} else if m := pageHeading.FindStringSubmatch(line); m != nil {
			heading = m[1]
			p.headings = append(p.headings, heading)
		}
		before = line
	}
	end()
	return p
}

// section is the commands below a heading, of which there must be so many.
func (p *page) section(t *testing.T, heading string, want int) []*pageCommand {
	t.Helper()
	commands := p.commands[heading]
	if len(commands) != want {
		t.Fatalf("%s has %d commands below %q, and a test plays %d", p.name, len(commands), heading, want)
	}
	return commands
}

// allRan fails for each command that no test ran, but for some that are excused.
func (p *page) allRan(t *testing.T, excused map[string]string) {
	t.Helper()
	seen := 0
	for _, heading := range p.headings {
		for _, c := range p.commands[heading] {
			_, ok := excused[c.text]
			if ok {
				seen++
			}
			if c.ran == ok {
				t.Errorf("%s, %q: a test has run it: %t, it is excused: %t:\n%s", p.name, heading, c.ran, ok, c.text)
			}
		}
	}
	if seen != len(excused) {
		t.Errorf("%s has %d of the commands that are excused: %v", p.name, seen, excused)
	}
}

// fill is what a person puts in the place of words in capital letters. There may be
// flags beside it that only this world needs.
type fill map[string]string

func (c *pageCommand) filled(t *testing.T, with fill) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(c.text, func(word string) string {
		value, ok := with[word]
		if !ok {
			t.Fatalf("nobody says what stands for %s in\n%s", word, c.text)
		}
		return value
	})
}

// types runs a command of a page as the tenant's owner, in a clone of the repository and
// in the cluster for which the page says it is.
func (c *tenant) types(t *testing.T, command *pageCommand, with fill) string {
	t.Helper()
	return c.typesIn(t, c.place(command), command, with)
}

func (c *tenant) place(command *pageCommand) (kubeconfig string) {
	if command.control {
		return c.Control()
	}
	return c.admin()
}

// typesIn does the same in a cluster that the page says in other words.
func (c *tenant) typesIn(t *testing.T, kubeconfig string, command *pageCommand, with fill) string {
	t.Helper()
	out, err := c.tries(t, kubeconfig, command, with)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command.text, err, out)
	}
	return out
}

// tries does the same with a command that may fail.
func (c *tenant) tries(t *testing.T, kubeconfig string, command *pageCommand, with fill) (string, error) {
	t.Helper()
	command.ran = true
	line := command.filled(t, with)
	out, err := c.shell(kubeconfig).run(t.Context(), line)
	t.Logf("%s\n%s", line, out)
	return out, err
}

// typesUntil repeats a command until it prints all of these.
func (c *tenant) typesUntil(t *testing.T, kubeconfig string, command *pageCommand, want ...string) string {
	t.Helper()
	command.ran = true
	line, sh := command.filled(t, nil), c.shell(kubeconfig)
	return eventually(t, fmt.Sprintf("%s prints %q", line, want), func(ctx context.Context) (string, bool) {
		out, err := sh.run(ctx, line)
		return fmt.Sprint(out, err), err == nil && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(out, w) })
	})
}

// inContainer is a kubectl that runs what a page has run in the backend's container, as the
// backend is a process here: with the programs that are in its image, and no others.
const inContainer = `#!/bin/sh
if [ "$1" != exec ]; then exec %[1]s "$@"; fi
while [ "$1" != -- ]; do shift; done
shift
n=$#
for word; do
	case $word in /var/lib/gitbind/*) word=%[2]s/${word#/var/lib/gitbind/} ;; esac
	set -- "$@" "$word"
done
shift $n
exec env -i PATH=%[3]s "$@"
`

// execs puts that kubectl before the real one.
func (c *tenant) execs(t *testing.T) {
	t.Helper()
	beside := filepath.Join(c.Home(c.user), "beside")
	image := filepath.Join(beside, "image")
	if err := os.MkdirAll(image, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"git", "sh", "true"} {
		path, err := exec.LookPath(program)
		if err == nil {
			err = os.Symlink(path, filepath.Join(image, program))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(inContainer, c.Env.Kubectl, c.GitDir, image)
	if err := os.WriteFile(filepath.Join(beside, "kubectl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (c *tenant) shell(kubeconfig string) *shell {
	home := c.Home(c.user)
	return &shell{dir: c.clone, exports: []string{
		"export PATH=" + filepath.Join(home, "beside") + ":" + c.Bin + ":" + filepath.Dir(c.Env.Kubectl) + ":$PATH",
		"export HOME=" + home + " XDG_CONFIG_HOME=" + filepath.Join(home, ".config"),
		"export KUBECONFIG=" + kubeconfig,
	}}
}
