package version

import (
	"fmt"
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
	m := regexp.MustCompile(`-ldflags '-w -X (\S+)=\$\(VERSION\) -X (\S+)=\$\(REGISTRY\)'`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile hands no version to the linker")
	}
	for given, want := range map[[2]string]string{
		{"v1.2.3-4-gabcdef", "registry.example.com/gitbind"}: "v1.2.3-4-gabcdef registry.example.com/gitbind/it:v1.2.3-4-gabcdef",
		{}: "(devel) it:latest",
	} {
		flags := fmt.Sprintf("-X %s=%s -X %s=%s", m[1], given[0], m[2], given[1])
		cmd := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-ldflags", flags, "./testdata/print")
		cmd.Stderr = os.Stderr
		if got, err := cmd.Output(); err != nil || string(got) != want {
			t.Errorf("linked with %q it says %q (%v), want %q", given, got, err, want)
		}
	}
}

func TestAVersionIsATag(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3":                   "v1.2.3",
		"v1.2.3-4-gabcdef-dirty":   "v1.2.3-4-gabcdef-dirty",
		"v0.0.0-2026-abcdef+dirty": "v0.0.0-2026-abcdef-dirty",
		"(devel)":                  "latest",
	} {
		if got := Tag(version); got != want {
			t.Errorf("%s is tagged %s, want %s", version, got, want)
		}
	}
}
