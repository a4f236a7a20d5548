// Package command is what the subcommands have in common: New makes one, its flags
// are bound to its Input, and Run reads a call, opens what it needs, and does it.
//
// A check before Do is of flags and arguments only: nothing is asked, nor opened,
// before these are right. The package knows no subcommand, and prints nothing.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Env is where commands run: it opens what a command needs, once it is known to.
type Env struct {
	// Cluster is the one that kubectl's flags and the kubeconfig name.
	Cluster func() (*appcluster.Cluster, error)
	// SignIn signs people in, with the sessions of this machine. With an error there are
	// none, and it is for tokens from elsewhere.
	SignIn  func() (*signin.SignIn, error)
	Version string
}

// Call is the part of an Input that is the same for all commands.
type Call struct {
	controlplane.Access
	Terminal *terminal.Terminal
	// Notes are for the person, where Terminal gets what a program reads.
	Notes io.Writer
	Now   func() time.Time
}

// Needs is what is opened before a command does its work.
type Needs int

// The needs.
const (
	// Cluster is the app cluster; not with --url, see Backend.
	Cluster Needs = 1 << iota
	// SignIn is for those that act at a backend, or read a repository, as the person.
	SignIn
)

// Command is a subcommand that is being made.
type Command struct {
	*cobra.Command
	// Check refuses wrong flags and arguments that the shared flags do not.
	Check func() error
	// Trouble is the exit code of each error; 0 for that of all commands.
	Trouble int
	// MayBeEmpty names the flags that mean something when they are empty.
	MayBeEmpty []string

	env    Env
	call   *Call
	name   *string
	names  *[]string
	checks []func() error
	signin *signin.Flags
	// url is the value of --url, for a command that works without a cluster then.
	url *string
	// caBundle is what --ca-file has, for a backend at --url.
	caBundle []byte
}

// New begins a subcommand whose Input has a call. Unless it says otherwise, it takes
// no arguments, and the shell offers no files for them.
func New(env Env, call *Call, cmd *cobra.Command) *Command {
	if cmd.Args == nil {
		cmd.Args = NoArgs
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	return &Command{Command: cmd, env: env, call: call}
}

// Argument is where the first argument goes, if there is one.
func (c *Command) Argument(name *string) { c.name = name }

// Arguments is where all arguments go.
func (c *Command) Arguments(names *[]string) { c.names = names }

// Output adds -o, for the formats that the command has: all of them when none is
// named.
func (c *Command) Output(format *output.Format, formats ...output.Format) {
	if len(formats) == 0 {
		formats = output.All()
	}
	names := output.Names(formats)
	text := c.Flags().StringP("output", "o", names[0], "one of "+strings.Join(names, ", "))
	c.offer("output", names)
	c.checks = append(c.checks, func() (err error) {
		*format, err = output.Parse(*text, formats)
		return err
	})
}

// SignInFlags adds the flags that say how to sign in.
func (c *Command) SignInFlags() {
	c.signin = &signin.Flags{}
	c.signin.AddTo(c.Flags())
}

// Backend adds --connection and --url, by which a person chooses a backend, and --ca-file
// for --url: a Connection has its own. With --url no cluster is opened.
func (c *Command) Backend(connection, url *string) {
	c.Flags().StringVar(connection, "connection", "", "name of the Connection, if the cluster has several")
	c.Flags().StringVar(url, "url", "", "the backend's URL, in the place of a Connection's")
	c.CAFile(&c.caBundle, "with --url: trust the certificates in this PEM file, beside the system's, at backend and issuer (kept with the sign-in)")
	c.Excludes("connection", "url", "ca-file")
	c.checks = append(c.checks, func() error {
		if c.caBundle != nil && *url == "" {
			return usage.Errorf("--ca-file is for --url: what is trusted for a Connection is in its spec.caBundle (kubectl gitbind connect URL --ca-file FILE)")
		}
		return nil
	})
	c.url = url
}

// CAFile adds --ca-file, of which bundle gets the content.
func (c *Command) CAFile(bundle *[]byte, does string) {
	file := c.Flags().String("ca-file", "", does)
	c.checks = append(c.checks, func() (err error) {
		if *file == "" {
			return nil
		}
		if *bundle, err = os.ReadFile(*file); err != nil {
			return fmt.Errorf("read --ca-file: %w", err)
		}
		if len(*bundle) == 0 {
			return usage.Errorf("--ca-file %s is empty: give PEM, beginning with -----BEGIN CERTIFICATE-----", *file)
		}
		return nil
	})
}

// BackendCluster adds Backend's flags and --cluster-name, by which a person chooses a
// cluster of that backend; a command with one of the flags in without needs none.
func (c *Command) BackendCluster(connection, url, cluster *string, without ...string) {
	c.Backend(connection, url)
	c.Flags().StringVar(cluster, "cluster-name", "", "with --url: the id or the name of the cluster there")
	c.checks = append(c.checks, func() error {
		if slices.ContainsFunc(without, c.Flags().Changed) {
			return nil
		}
		if (*url == "") != (*cluster == "") {
			return usage.Errorf("--url and --cluster-name are for each other")
		}
		return nil
	})
}

// NoWait adds --no-wait, which makes a timeout 0, in the place of --timeout.
func (c *Command) NoWait(timeout *time.Duration, does string) {
	not := c.Flags().Bool("no-wait", false, does)
	c.Excludes("no-wait", "timeout")
	c.checks = append(c.checks, func() error {
		if *not {
			*timeout = 0
		}
		return nil
	})
}

// Excludes refuses a flag together with any of the others.
func (c *Command) Excludes(flag string, others ...string) {
	for _, other := range others {
		c.checks = append(c.checks, func() error {
			if c.Flags().Changed(flag) && c.Flags().Changed(other) {
				return usage.Errorf("--%s and --%s exclude each other", flag, other)
			}
			return nil
		})
	}
}

// Values are those that a flag can have; the shell offers them.
func (c *Command) Values(flag string, values ...string) {
	c.offer(flag, values)
	c.checks = append(c.checks, func() error {
		given := c.Flag(flag).Value.String()
		if given == "" || slices.Contains(values, given) {
			return nil
		}
		return usage.Errorf("--%s %q: it is one of %s", flag, given, strings.Join(values, ", "))
	})
}

func (c *Command) offer(flag string, values []string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Run ends the making of a subcommand: it reads each call, opens what it needs, and
// does it.
func (c *Command) Run(needs Needs, do func(ctx context.Context) error) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := c.read(args)
		if err == nil {
			err = c.open(needs)
		}
		if err == nil {
			err = do(cmd.Context())
		}
		var exit *usage.Exit
		if err != nil && c.Trouble != 0 && !errors.As(err, &exit) {
			return &usage.Exit{Code: c.Trouble, Err: err}
		}
		return err
	}
	return c.Command
}

// read reads what the person typed.
func (c *Command) read(args []string) (err error) {
	c.call.Terminal = terminal.Open(c.InOrStdin(), c.OutOrStdout())
	c.call.Notes, c.call.Now = c.ErrOrStderr(), time.Now
	if c.name != nil && len(args) > 0 {
		*c.name = args[0]
	}
	if c.names != nil {
		*c.names = args
	}
	if err := c.refuseEmpty(args); err != nil {
		return err
	}
	for _, check := range c.checks {
		if err := check(); err != nil {
			return err
		}
	}
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return &usage.Error{Err: err}
		}
	}
	if c.url != nil && *c.url != "" {
		if *c.url, err = session.BackendURL(*c.url); err != nil {
			return &usage.Error{Err: err}
		}
	}
	if c.signin != nil {
		c.call.How, err = c.signin.How(c.InOrStdin())
	}
	return err
}

// refuseEmpty refuses empty flags, kubectl's own as well, and arguments: each is a variable that
// is not set, and does not mean all, nor what is meant without it.
func (c *Command) refuseEmpty(args []string) (err error) {
	if slices.Contains(args, "") {
		return usage.Errorf("an argument is empty: give it a value, or leave it out")
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if empty && !slices.Contains(c.MayBeEmpty, f.Name) {
			err = usage.Errorf("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

func (c *Command) open(needs Needs) (err error) {
	if needs&Cluster != 0 && (c.url == nil || *c.url == "") {
		if c.call.Cluster, err = c.env.Cluster(); err != nil {
			return err
		}
	}
	if needs&SignIn == 0 {
		return nil
	}
	if c.call.SignIn, err = c.env.SignIn(); err != nil && c.call.How.Token == "" {
		return err
	}
	if c.call.SignIn, err = c.call.SignIn.Trusting(c.caBundle); err != nil {
		return err
	}
	// Standard output may be for a program when a person is there.
	if asked := terminal.Open(c.InOrStdin(), c.ErrOrStderr()); asked.Interactive {
		c.call.SignIn.Confirm = asked.Confirm
	}
	return nil
}

// Args refuses fewer or more arguments than these (any number with most -1), in the
// command's own words.
func Args(least, most int, wrong string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return errors.New(wrong)
		}
		return nil
	}
}

// NoArgs refuses arguments; where they look like a subcommand, it says which.
func NoArgs(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}
