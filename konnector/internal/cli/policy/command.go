package policy

import (
	"context"

	"github.com/spf13/cobra"

	"gitbind.dev/konnector/internal/cli/command"
)

// Command is `kubectl gitbind policy`.
func Command(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Judge claims in files by policies, and test policies",
		Long: `Judge claims in files by ValidatingAdmissionPolicies, with the verdict and the words of
an API server that has them, and test policies of your own. Neither needs a cluster.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(checkCommand(env), testCommand(env))
	return cmd
}

func checkCommand(env command.Env) *cobra.Command {
	var in CheckInput
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "check [DIR|FILE...]",
		Short: "Say what policies are against in the claims of a clone",
		Long: `Say what policies are against in the claims of a repository's clone: those below each
DIR, the current one if none is named, or each FILE.

Policies, their bindings and parameters are read from --policies, files or folders, as
an API server would have them. With --base, claims are judged as changes of what that
revision has, and those that are the same there are not judged: so that a policy on
changes has its say, and one that came later holds nobody up. Without it each claim is
judged as a new one. What is deleted is not judged.

With --definitions, CustomResourceDefinitions such as "kubectl get crd -o yaml" prints,
the schema's defaults are filled in first, as an API server does. A policy that is
labelled gitbind.dev/gate: Admission is left to API servers, and named.

It needs git on the PATH, for --base only. Exit code: 0 nothing is denied, 1 something is,
or could not be read, 2 called wrongly.

As JSON it is an object with claims, judged, policies, admissionOnly, unbound and findings
(file, line, level, policy, binding, message).`,
		Example: `  # In the CI of a pull request
  kubectl gitbind policy check --policies policies/ --base origin/main

  # For a code host's own pages
  kubectl gitbind policy check --policies policies/ --base origin/main -o sarif > policies.sarif`,
		Args: cobra.ArbitraryArgs,
	})
	c.Arguments(&in.Paths)
	fs := c.Flags()
	fs.StringSliceVar(&in.Policies, "policies", nil, "files or folders with policies, bindings and parameters")
	fs.StringVar(&in.Base, "base", "", "revision that the claims are changes of, such as origin/main")
	fs.StringSliceVar(&in.Definitions, "definitions", nil, "files or folders with CustomResourceDefinitions, for their defaults")
	fs.StringVarP(&in.Format, "output", "o", formatText, "one of text, json, sarif, junit")
	c.Values("output", formatText, formatJSON, formatSARIF, formatJUnit)
	_ = c.MarkFlagRequired("policies")
	c.ValidArgsFunction = nil
	return c.Run(0, func(ctx context.Context) error { return Check(ctx, in) })
}

func testCommand(env command.Env) *cobra.Command {
	var in TestInput
	c := command.New(env, &in.Call, &cobra.Command{
		Use:   "test DIR|FILE...",
		Short: "Run the tests of policies",
		Long: `Run the tests of policies: files of kind PolicyTest, beside policies, bindings and
parameters in files and folders. Each case is a change, and what is to be said of it:

  apiVersion: gitbind.dev/v1alpha1
  kind: PolicyTest
  policies: [no-downgrade]  # whose say counts; may be left out
  cases:
  - name: a smaller plan
    oldObject: {...}        # left out for a new claim
    object: {...}
    want: Deny              # or Allow, or Warn
    message: smaller        # a part of what is said; may be left out

A policy that no case is denied by, or warned of, fails: its tests would pass without it.
Exit code: 0 all passed, 1 some failed, 2 called wrongly.

As JSON it is an object with cases, policies and findings (file, line, level, case, message).`,
		Example: `  kubectl gitbind policy test policies/`,
		Args:    command.Args(1, -1, "name files or folders: kubectl gitbind policy test DIR"),
	})
	c.Arguments(&in.Paths)
	c.Flags().StringVarP(&in.Format, "output", "o", formatText, "one of text, json, junit")
	c.Values("output", formatText, formatJSON, formatJUnit)
	c.ValidArgsFunction = nil
	return c.Run(0, func(ctx context.Context) error { return Test(ctx, in) })
}
