// Command hostile has many tenants attack gitbind at once, and says what an innocent
// one notices.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gitbind.dev/test/hostile"
)

func main() {
	o := hostile.Options{Out: os.Stdout}
	flag.IntVar(&o.Hostile, "repositories", 100, "how many repositories attack")
	flag.IntVar(&o.Claims, "claims", 200, "how many claims the innocent tenant orders, alone and during the attack")
	flag.Uint64Var(&o.Seed, "seed", 1, "in which order the attacks come")
	backend := flag.Int64("backend-memory", 1024, "the backend's limit of memory in MiB, with git; 0 for none. It needs root and control groups")
	bridge := flag.Int64("bridge-memory", 768, "the bridge's limit of memory in MiB; 0 for none")
	flag.StringVar(&o.Dir, "dir", "", "folder for data, logs and kubeconfigs, kept afterwards (default: a temporary one)")
	flag.StringVar(&o.Bin, "bin", "", "folder with the built components (default: build them)")
	most := flag.Float64("most", 2, "how many times longer the innocent's p99 may be during the attack")
	flag.Parse()
	o.BackendMemory, o.BridgeMemory = *backend<<20, *bridge<<20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	report, err := hostile.Run(ctx, o)
	stop()
	if err == nil {
		fmt.Print(report)
		err = report.Err(*most)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}
