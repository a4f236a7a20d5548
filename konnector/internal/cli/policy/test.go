package policy

import (
	"context"

	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/usage"
	"gitbind.dev/policies/policytest"
)

// TestInput is what the person asked for.
type TestInput struct {
	command.Call
	Paths  []string
	Format string
}

// Test runs tests of policies.
func Test(ctx context.Context, in TestInput) error {
	files, err := manifests(in.Paths)
	if err != nil {
		return err
	}
	suite, err := policytest.Read(files...)
	if err != nil {
		return err
	}
	results, err := suite.Run(ctx)
	if err != nil {
		return err
	}
	r := &report{Policies: suite.Set.Policies(), AdmissionOnly: suite.Set.AdmissionOnly(), Cases: len(suite.Cases)}
	for _, result := range results {
		if p := result.Problem; p != nil {
			r.add(finding{File: p.File, Line: p.Line, Level: levelError, Case: result.Name, Message: p.Reason})
		}
	}
	if err := r.print(in.Terminal.Out, in.Format); err != nil {
		return err
	}
	if r.failed() {
		return &usage.Exit{Code: 1}
	}
	return nil
}
