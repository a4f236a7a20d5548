package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/klog/v2"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"gitbind.dev/konnector/internal/cli/allowedsigners"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/approve"
	"gitbind.dev/konnector/internal/cli/bind"
	"gitbind.dev/konnector/internal/cli/catalog"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/completion"
	"gitbind.dev/konnector/internal/cli/connect"
	"gitbind.dev/konnector/internal/cli/diff"
	"gitbind.dev/konnector/internal/cli/disconnect"
	"gitbind.dev/konnector/internal/cli/doctor"
	"gitbind.dev/konnector/internal/cli/get"
	"gitbind.dev/konnector/internal/cli/gitcredential"
	"gitbind.dev/konnector/internal/cli/log"
	"gitbind.dev/konnector/internal/cli/logout"
	"gitbind.dev/konnector/internal/cli/policy"
	"gitbind.dev/konnector/internal/cli/propose"
	"gitbind.dev/konnector/internal/cli/resolve"
	"gitbind.dev/konnector/internal/cli/review"
	"gitbind.dev/konnector/internal/cli/revoke"
	"gitbind.dev/konnector/internal/cli/rollback"
	"gitbind.dev/konnector/internal/cli/rotate"
	"gitbind.dev/konnector/internal/cli/serviceinfo"
	"gitbind.dev/konnector/internal/cli/session"
	"gitbind.dev/konnector/internal/cli/share"
	"gitbind.dev/konnector/internal/cli/signin"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/transfer"
	"gitbind.dev/konnector/internal/cli/unbind"
	"gitbind.dev/konnector/internal/cli/usage"
	versions "gitbind.dev/konnector/internal/cli/version"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitInterrupted = 130
)

// Run runs the plugin with arguments and gives its exit code. All that it prints is
// cleaned of what steers a terminal.
func Run(ctx context.Context, version string, args []string, in io.Reader, out, errOut io.Writer) int {
	silence()
	out, errOut = terminal.NewWriter(out), terminal.NewWriter(errOut)
	root := root(version, errOut)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	ran, err := root.ExecuteContextC(ctx)
	return end(ctx, ran, err, errOut)
}

// end says how a command ended, and gives the exit code for that.
func end(ctx context.Context, ran *cobra.Command, err error, errOut io.Writer) int {
	var wrong *usage.Error
	code := exitFailed
	var exit *usage.Exit
	if errors.As(err, &exit) {
		code = exit.Code
	}
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintln(errOut, "interrupted")
		if remains := (*usage.Remains)(nil); errors.As(err, &remains) {
			fmt.Fprintln(errOut, remains.What)
		}
		return exitInterrupted
	case errors.As(err, &wrong):
		fmt.Fprintf(errOut, "error: %s\nSee '%s --help'.\n", err.Error(), ran.CommandPath())
		return exitUsage
	case exit != nil && exit.Err == nil:
		return code
	}
	fmt.Fprintf(errOut, "error: %s\n", err.Error())
	if apierrors.IsForbidden(err) {
		fmt.Fprintln(errOut, "Your own rights in this cluster do not suffice: ask somebody who administers it, or choose another --context.")
	}
	return code
}

// silence keeps off the person's terminal what client libraries log for themselves:
// what concerns the person is in the error.
func silence() {
	klog.SetLogger(logr.Discard())
	crlog.SetLogger(logr.Discard())
}

func root(version string, errOut io.Writer) *cobra.Command {
	flags := kubeFlags()
	env := command.Env{
		Version: version,
		Cluster: func() (*appcluster.Cluster, error) { return appcluster.Open(flags) },
		SignIn: func() (*signin.SignIn, error) {
			sessions, err := session.Default()
			return &signin.SignIn{
				Sessions: sessions, HTTP: &http.Client{Timeout: time.Minute},
				Out: errOut, OpenBrowser: signin.OpenBrowser, Now: time.Now,
			}, err
		},
	}
	root := &cobra.Command{
		Use:   "kubectl-gitbind",
		Short: "Order services from a control plane, through Git",
		Long: `Order services from a control plane, through Git: connect this cluster, bind an
API, and create its objects with kubectl. Each change becomes a commit that the
control plane acts on, and the status comes back the same way.`,
		Example: `  kubectl gitbind connect https://gitbind.example.com
  kubectl gitbind catalog
  kubectl gitbind bind postgresql
  kubectl gitbind get`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gitbind"},
		Args:          command.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags.AddFlags(root.PersistentFlags())
	const other = "Other:"
	for _, group := range []struct {
		title string
		cmds  []*cobra.Command
	}{
		{"Getting in:", []*cobra.Command{connect.Command(env), catalog.Command(env), bind.Command(env), unbind.Command(env), disconnect.Command(env), logout.Command(env)}},
		{"Claims:", []*cobra.Command{get.Command(env), serviceinfo.Command(env), diff.Command(env), log.Command(env), rollback.Command(env), resolve.Command(env), propose.Command(env), review.Command(env)}},
		{"Operating:", []*cobra.Command{doctor.Command(env), policy.Command(env), allowedsigners.Command(env), approve.Command(env), rotate.Command(env), revoke.Command(env), share.Command(env), share.UndoCommand(env), transfer.Command(env)}},
		{other, []*cobra.Command{gitcredential.Command(env), versions.Command(env)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.cmds {
			cmd.GroupID = group.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID(other)
	root.SetCompletionCommandGroupID(other)
	completion.AddKubectl(root)
	completion.ConnectionFlags(root, env)
	markUsageErrors(root)
	return root
}

// kubeFlags are kubectl's own, without those that mean nothing here.
func kubeFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.CacheDir, flags.DisableCompression = nil, nil
	return flags
}

// markUsageErrors marks what cobra says of wrong arguments and flags. What it says of flags that
// are required comes too late to be marked, unless it is asked for with the arguments.
func markUsageErrors(root *cobra.Command) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usage.Error{Err: err} })
	mark(root)
}

func mark(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			err = cmd.ValidateRequiredFlags()
		}
		if err != nil {
			return &usage.Error{Err: err}
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		mark(sub)
	}
}
