package env

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// existing is the path of a program that is on this machine already and can be
// used as the part: one that $KUBEBUILDER_ASSETS holds, or a kubectl on PATH.
func existing(ctx context.Context, p part, w io.Writer) string {
	if p.asset == "" {
		return ""
	}
	var candidates []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, p.asset))
	}
	if p.name == kubectl {
		if path, err := exec.LookPath(kubectl); err == nil {
			candidates = append(candidates, path)
		}
	}
	for _, path := range candidates {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, p.flags...).CombinedOutput()
		if err == nil && atLeast(string(out), p.minimum) {
			return path
		}
		fmt.Fprintf(w, "%s is not used: version %d.%d or later is needed\n", path, p.minimum[0], p.minimum[1])
	}
	return ""
}

var versionNumber = regexp.MustCompile(`v?(\d+)\.(\d+)\.\d+`)

// atLeast tells whether the first version number in text is the minimum or
// later.
func atLeast(text string, minimum [2]int) bool {
	m := versionNumber.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > minimum[0] || major == minimum[0] && minor >= minimum[1]
}
