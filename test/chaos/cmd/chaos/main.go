// Command chaos lets everything around gitbind fail for a while, and sees
// whether anything is lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"gitbind.dev/test/chaos"
	"gitbind.dev/test/e2e/platform"
)

func main() {
	o := chaos.Options{Out: os.Stdout, Crossplane: true}
	flag.Uint64Var(&o.Seed, "seed", 0, "what faults and load are made of (default: one by chance)")
	flag.DurationVar(&o.For, "for", 5*time.Minute, "how long the load and the faults last")
	flag.DurationVar(&o.Pause, "pause", 150*time.Millisecond, "how long each person waits between two things, on average")
	flag.DurationVar(&o.Settle, "settle", 2*time.Minute, "how long it may take until all agree afterwards")
	runs := flag.Int("runs", 1, "how many runs, one after the other, each with the seed after the last one's")
	flag.StringVar(&o.Evidence, "evidence", "", "folder for what a violation can be explained from (default: a temporary one, kept)")
	flag.BoolVar(&o.Snapshots, "snapshots", true, "restore the app cluster from a snapshot of its etcd once in a run that is long enough")
	flag.BoolVar(&o.Limits, "limits", false, "leave the limits of removals as they are, and approve what is held when the load has ended")
	flag.BoolVar(&o.Crossplane, "crossplane", true, "deliver some of the claims by Crossplane")
	flag.BoolVar(&o.Restores, "restores", true, "have the Git host restored to seconds ago, and given back what it lost")
	flag.BoolVar(&o.Clocks, "clocks", true, "have the clocks of components be a day wrong for a while, and build components for that")
	flag.StringVar(&o.Dir, "dir", "", "folder for data, logs and kubeconfigs, kept afterwards (default: a temporary one)")
	flag.StringVar(&o.Bin, "bin", "", "folder with the built components, with --clocks=false (default: build them)")
	flag.Parse()
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := build(ctx, o, *runs)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// build builds the components once for all runs, if their clocks are to be wrong.
func build(ctx context.Context, o chaos.Options, runs int) error {
	if !o.Clocks {
		return repeat(ctx, o, runs)
	}
	if o.Bin != "" {
		return errors.New("--bin needs --clocks=false: only components that are built for it have clocks that can be wrong")
	}
	bin, err := os.MkdirTemp("", "gitbind-chaos-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	fmt.Fprintln(o.Out, "Building components whose clocks can be wrong.")
	if err := platform.BuildWithClocks(ctx, bin); err != nil {
		return err
	}
	o.Bin = bin
	return repeat(ctx, o, runs)
}

// repeat makes several runs and tells of all of them together. It ends with the
// first run that found something, or could not be made.
func repeat(ctx context.Context, o chaos.Options, runs int) error {
	faults := 0
	for run := range runs {
		report, err := chaos.Run(ctx, o)
		if err != nil {
			return err
		}
		faults += report.Faults
		fmt.Fprintf(o.Out, "%d of %d runs, %d faults in all.\n", run+1, runs, faults)
		if err := report.Err(); err != nil {
			return err
		}
		o.Seed++
	}
	return nil
}
