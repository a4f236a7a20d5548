package version

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// The linker says nothing about a variable that it does not find.
func TestTheMakefileSetsTheVersion(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`-ldflags '-w -X (\S+)=\$\(VERSION\)'`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile hands no version to the linker")
	}
	for given, want := range map[string]string{"v1.2.3-4-gabcdef": "v1.2.3-4-gabcdef", "": "(devel)"} {
		cmd := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-ldflags", "-X "+string(m[1])+"="+given, "./testdata/print")
		cmd.Stderr = os.Stderr
		if got, err := cmd.Output(); err != nil || string(got) != want {
			t.Errorf("linked with %q it says %q (%v), want %q", given, got, err, want)
		}
	}
}
