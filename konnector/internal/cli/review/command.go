package review

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Command is `kubectl gitbind review`.
func Command(env command.Env) *cobra.Command {
	var in Input
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "review [CHANGE]",
		Short: "Look at proposed changes, approve or reject them",
		Long: `Look at the changes that are proposed for a cluster, or at one of them: what it orders,
changes and cancels, who pushed it, and what was said of it. CHANGE is the name of its
branch; changes/ before it may be left out.

With --approve it is merged into main, and the control plane acts on it. Only what you
have seen is merged: when somebody pushes meanwhile, or main gets something that changes
what the merge would do, you are told to look again. Without a person to ask, --head and
--effect say what you have looked at: who looks at the change is told both. Nobody
approves what they have pushed themselves. With --reject it is not to be merged, and its
branch may be deleted; the person who pushed it may take it back so, too. With -m alone,
it is discussed.

It is for repositories of the control plane's own Git host, where you own the cluster, or
its owner shares it with you (kubectl gitbind share approve). All that is said is kept in
Git, too: git fetch origin refs/notes/reviews:refs/notes/reviews, then
git log --notes=reviews.

As JSON and YAML the list is {"items": [...]}, each with branch, head, subject, author,
when, proposedBy and rejected; one change also has effect, files (path, action, kind,
namespace, name, fields, diff), conflicts, commits, events, mayApprove and blocked.`,
		Example: `  # What is proposed?
  kubectl gitbind review

  # What would it do?
  kubectl gitbind review postgresqlinstances.anynines.com/team-a/orders

  # Merge it
  kubectl gitbind review postgresqlinstances.anynines.com/team-a/orders --approve -m "Right so."`,
		Args: command.Args(0, 1, "name one change, or none to list them: kubectl gitbind review [CHANGE]"),
	})
	c.Argument(&in.Change)
	fs := c.Flags()
	fs.BoolVar(&in.Approve, "approve", false, "merge it into main")
	fs.BoolVar(&in.Reject, "reject", false, "say that it is not to be merged; needs -m")
	fs.StringVarP(&in.Message, "message", "m", "", "what to say to the person who proposed it")
	fs.StringVar(&in.Head, "head", "", "the commit that you have looked at, or its first seven digits or more: another one is not touched")
	fs.StringVar(&in.Effect, "effect", "", "what the merge did when you looked, or its first seven digits or more: main may have changed that since. Needs --head")
	fs.BoolVarP(&in.Patch, "patch", "p", false, "show the changes of the files as well")
	c.Output(&in.Format, output.Table, output.Wide, output.JSON, output.YAML, output.Name)
	c.Excludes("approve", "reject")
	c.BackendCluster(&in.Connection, &in.BackendURL, &in.ClusterRef)
	c.SignInFlags()
	c.Check = func() error {
		says := in.Approve || in.Reject || in.Message != ""
		switch {
		case in.Change == "" && (says || in.Head != "" || in.Patch):
			return usage.Errorf("name the change: kubectl gitbind review lists them")
		case in.Reject && in.Message == "":
			return usage.Errorf("say why, so that the person who proposed it can go on: -m")
		case says && in.Format != output.Table:
			return usage.Errorf("-o is for looking at changes")
		case in.Head != "" && len(in.Head) < 7:
			return usage.Errorf("--head %q: give seven digits or more", in.Head)
		case in.Effect != "" && len(in.Effect) < 7:
			return usage.Errorf("--effect %q: give seven digits or more", in.Effect)
		case in.Effect != "" && (in.Head == "" || !in.Approve):
			return usage.Errorf("--effect is for --approve, and needs --head")
		}
		if in.Change != "" {
			in.Change = contract.ChangesPrefix + strings.TrimPrefix(in.Change, contract.ChangesPrefix)
		}
		return nil
	}
	return c.Run(command.Cluster|command.SignIn, func(ctx context.Context) error { return Do(ctx, in) })
}
