// Command demo starts all of gitbind on this machine, on real parts, and tells
// its main job step by step while it happens.
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

	"gitbind.dev/test/e2e/platform"
	"gitbind.dev/test/e2e/story"
)

func main() {
	once := flag.Bool("once", false, "end after the story instead of staying up")
	bin := flag.String("bin", "", "folder with the built components (default: build them)")
	dir := flag.String("dir", "", "folder for data, logs and kubeconfigs, kept afterwards (default: a temporary one)")
	flag.Parse()
	if err := run(*bin, *dir, *once); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(bin, dir string, once bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	fmt.Println("Starting an app cluster and a control plane: API servers, Crossplane, Dex, an operator of PostgreSQL, gitbind.")
	p, err := platform.Start(ctx, platform.Options{Bin: bin, Dir: dir, Postgres: true, Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("\nStopping.")
		stopErr := p.Stop(context.WithoutCancel(ctx))
		if err == nil {
			err = stopErr
		}
		if stopErr == nil {
			fmt.Println("Stopped: no process is left, and no temporary folder.")
		}
	}()
	fmt.Printf("All is up after %s.\n", time.Since(began).Round(100*time.Millisecond))
	s := &story.Story{Platform: p, Out: os.Stdout, Began: began}
	if err := s.Tell(ctx); err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		return err
	}
	if once {
		return nil
	}
	try, err := s.WhatToTry(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\nEverything stays up until Ctrl-C. To try it, in another terminal:\n\n%s", try)
	<-ctx.Done()
	return nil
}
