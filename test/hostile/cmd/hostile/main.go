// Command hostile has many tenants attack gitbind at once, and says what an innocent
// one notices.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gitbind.dev/test/bench/figure"
	"gitbind.dev/test/hostile"
)

func main() {
	hostile.AttackIfAsked()
	o := hostile.Options{Out: os.Stdout}
	flag.IntVar(&o.Hostile, "repositories", 100, "how many repositories attack")
	flag.IntVar(&o.Claims, "claims", 500, "how many claims the innocent tenant orders, alone and during the attack")
	flag.Uint64Var(&o.Seed, "seed", 1, "in which order the attacks come")
	backend := flag.Int64("backend-memory", 1024, "the backend's limit of memory in MiB, with git; 0 for none. It needs root and control groups")
	bridge := flag.Int64("bridge-memory", 768, "the bridge's limit of memory in MiB; 0 for none")
	flag.StringVar(&o.Dir, "dir", "", "folder for data, logs and kubeconfigs, kept afterwards (default: a temporary one)")
	flag.StringVar(&o.Bin, "bin", "", "folder with the built components (default: build them)")
	most := flag.Float64("most", 2, "how many times longer the innocent's p99 may be during the attack")
	out := flag.String("out", "docs/bench", "folder of the page; - for none")
	flag.Parse()
	o.BackendMemory, o.BridgeMemory = *backend<<20, *bridge<<20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	page := figure.Begin()
	report, err := hostile.Run(ctx, o)
	stop()
	if err == nil {
		fmt.Print(report)
		page.Took, page.Introduction = time.Since(page.Began), introduction
		page.Add(report.Figures(*most)...)
		if *out != "-" {
			err = page.Write(*out, "hostile")
		}
		err = errors.Join(err, report.Err(*most))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

const introduction = `# What hostile tenants cost an innocent one

Written by ` + "`make hostile`" + `, from [hostile.json](hostile.json). The size is how many
repositories attack at once, with all that [the threat model](../threat-model.md) names of
pushes, fetches and guessed credentials. Backend and bridge are held to the memory of their
deployments, by control groups. The floor is the same tenant without them, in the same run.
Those who attack have the lowest priority of the two processors that all of it shares.

`
