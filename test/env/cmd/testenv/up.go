package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gitbind.dev/test/env"
)

func newUpCommand() *cobra.Command {
	o := env.Options{Crossplane: true, Dex: true}
	once := false
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start everything and stay until Ctrl-C",
		Example: `  testenv up
  testenv up --clusters app,app2,control --dir /tmp/gitbind
  testenv up --crossplane=false --dex=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Progress = cmd.ErrOrStderr()
			return up(cmd.Context(), cmd.OutOrStdout(), o, once)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "", "directory for data, logs and kubeconfigs; kept afterwards (default: a temporary one)")
	flags.StringSliceVar(&o.Clusters, "clusters", []string{env.App, env.Control}, "names of the clusters to start")
	flags.BoolVar(&o.Crossplane, "crossplane", true, "start Crossplane on the cluster "+env.Control)
	flags.BoolVar(&o.Dex, "dex", true, "start Dex")
	flags.BoolVar(&o.NoControllerManager, "no-controller-manager", false, "leave out the controller managers")
	flags.DurationVar(&o.PollInterval, "poll-interval", 10*time.Second, "how often Crossplane and its provider look at an object unasked")
	flags.BoolVar(&once, "once", false, "stop as soon as everything has started, and say how long it took")
	return cmd
}

func up(ctx context.Context, w io.Writer, o env.Options, once bool) (err error) {
	began := time.Now()
	e, err := env.Start(ctx, o)
	if err != nil {
		return err
	}
	took := time.Since(began)
	defer func() {
		fmt.Fprintln(w, "Stopping ...")
		began := time.Now()
		err = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		fmt.Fprintf(w, "Stopped in %.1f s.\n", time.Since(began).Seconds())
	}()
	printPhases(w, e.Phases())
	fmt.Fprintf(w, "Everything has started in %.1f s.\n\n", took.Seconds())
	printAddresses(w, e)
	if once {
		return nil
	}
	fmt.Fprintln(w, "\nPress Ctrl-C to stop it.")
	return stay(ctx, e)
}

// stay returns when the user says so, and with an error when a part ends.
func stay(ctx context.Context, e *env.Env) error {
	processes := e.Processes()
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for _, p := range processes {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(p.Done())})
	}
	chosen, _, _ := reflect.Select(cases)
	if chosen == 0 {
		return nil
	}
	p := processes[chosen-1]
	return fmt.Errorf("%s ended by itself; its log is %s", p.Name, p.LogPath)
}

func printPhases(w io.Writer, phases []env.Phase) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, p := range phases {
		fmt.Fprintf(t, "%.1f s\tto\t%.1f s\t%s\n", p.After.Seconds(), (p.After + p.Took).Seconds(), p.Name)
	}
	t.Flush()
}

func printAddresses(w io.Writer, e *env.Env) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range e.Clusters {
		fmt.Fprintf(t, "cluster %s\t%s\texport KUBECONFIG=%s\n", c.Name, c.URL, c.Kubeconfig)
	}
	if d := e.Dex; d != nil {
		fmt.Fprintf(t, "Dex\t%s\tclient %s\n", d.Issuer, d.ClientID)
		for _, u := range d.Users {
			fmt.Fprintf(t, "user\t%s\tpassword %s\n", u.Email, u.Password)
		}
	}
	if e.Crossplane != nil {
		fmt.Fprintf(t, "Crossplane\ton %s\tfunction %s, ProviderConfig %s\n", env.Control, env.FunctionName, env.ProviderConfigName)
	}
	fmt.Fprintf(t, "logs\t%s/logs\n", e.Dir)
	fmt.Fprintf(t, "kubectl\t%s\n", e.Kubectl)
	t.Flush()
}
