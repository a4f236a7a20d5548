// Package node tests gitbind as it is installed: images, manifests and the plugin, on
// nodes of two clusters. make e2e-node runs it.
package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"gitbind.dev/test/env"
)

var (
	onNodes = flag.Bool("nodes", false, "run the tests that need nodes, which need root and Debian's containerd")
	folder  = flag.String("built", "", "folder with what an earlier run has built, or for what this one builds (default: a temporary one)")
)

// all is what was built.
var all built

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run builds what is tested, and has the tests run again in namespaces of their own.
func run(m *testing.M) (int, error) {
	if !*onNodes {
		return m.Run(), nil
	}
	const handedOver = "GITBIND_NODE_BUILT"
	if env.IsIsolated() {
		all.dir = os.Getenv(handedOver)
		return m.Run(), nil
	}
	all.dir = *folder
	if all.dir == "" {
		var err error
		if all.dir, err = os.MkdirTemp("", "gitbind-node-"); err != nil {
			return 1, err
		}
		defer os.RemoveAll(all.dir)
	}
	if err := all.build(context.Background()); err != nil {
		return 1, err
	}
	if err := os.Setenv(handedOver, all.dir); err != nil {
		return 1, err
	}
	return env.Isolate()
}
