// Command bench measures gitbind beside what a bare client could do, and writes
// the figures down.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gitbind.dev/test/bench/measure"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := measure.Options{Progress: os.Stderr}
	sizes := flag.String("sizes", "", "how many claims, divided by commas (default 1000,10000; 300 with --quick)")
	out := flag.String("out", "docs/bench", "folder of the page; - for none")
	name := flag.String("name", "", "name of a page beside the main one (default: the main one)")
	flag.BoolVar(&o.Quick, "quick", false, "few samples")
	only := flag.String("only", "", "what to measure, divided by commas: "+strings.Join(measure.Steps, ", ")+" (default: all)")
	flag.IntVar(&o.Clusters, "clusters", 0, "how many app clusters the step clusters has (default 200; 20 with --quick)")
	flag.IntVar(&o.ClaimsOfEach, "claims-of-each", 50, "how many claims each of them has")
	flag.IntVar(&o.Shards, "shards", 1, "how many shards of bridges follow the app clusters")
	flag.StringVar(&o.Bin, "bin", "", "folder of the built components (default: they are built)")
	flag.StringVar(&o.Profiles, "profiles", "", "folder for CPU and allocation profiles of agents and API servers during bursts, of agents as they start, and of what they hold when idle")
	flag.Parse()
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	for _, step := range o.Only {
		if !slices.Contains(measure.Steps, step) {
			return fmt.Errorf("--only: %q is none of %s", step, strings.Join(measure.Steps, ", "))
		}
	}
	if o.Clusters == 0 {
		o.Clusters = 200
		if o.Quick {
			o.Clusters = 20
		}
	}
	switch {
	case *sizes != "":
	case o.Quick:
		*sizes = "300"
	default:
		*sizes = "1000,10000"
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("--sizes: %q is no number of claims", s)
		}
		o.Sizes = append(o.Sizes, n)
	}
	report, err := measure.All(ctx, o)
	if err != nil {
		return err
	}
	if *name != "" {
		report.Introduction = fmt.Sprintf(besideIntroduction, strings.ReplaceAll(*name, "-", " "), *name)
	}
	if *out != "-" {
		if err := report.Write(*out, *name); err != nil {
			return err
		}
	}
	for _, f := range report.Missed() {
		fmt.Fprintf(os.Stderr, "missed: %s at %d: %g %s, target %s\n", f.Name, f.Size, f.P50, f.Unit, f.Target)
	}
	return nil
}

// besideIntroduction is that of a page beside the main one, with its title and its name.
const besideIntroduction = `# What gitbind costs: %[1]s

Written by ` + "`make bench-large`" + `, from [%[2]s.json](%[2]s.json). How it is measured says
the [page of the others](README.md).

`
