package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestHelp compares what --help prints of each command with its golden file, so that
// no name, default or word of a flag changes unseen.
func TestHelp(t *testing.T) {
	golden := map[string]bool{}
	for _, args := range commands(root("", io.Discard)) {
		name := filepath.Join("testdata", "help", strings.Join(append([]string{"kubectl-gitbind"}, args...), "-")+".txt")
		golden[name] = true
		var out bytes.Buffer
		if code := Run(t.Context(), "v0.0.0-test", append(args, "--help"), nil, &out, &out); code != exitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		// kubectl's own flags are in the help of the whole.
		got, _, _ := strings.Cut(out.String(), "\nGlobal Flags:")
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	there, err := filepath.Glob("testdata/help/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range there {
		if !golden[name] {
			t.Errorf("%s is of no command", name)
		}
	}
}

// commands are the arguments of each command, without those that cobra brings.
func commands(cmd *cobra.Command) [][]string {
	out := [][]string{{}}
	for _, sub := range cmd.Commands() {
		if sub.Name() == "completion" || sub.Name() == "help" {
			continue
		}
		for _, args := range commands(sub) {
			out = append(out, append([]string{sub.Name()}, args...))
		}
	}
	return out
}
