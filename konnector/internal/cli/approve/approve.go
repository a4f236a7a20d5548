// Package approve lists what agents hold until a person approves it, and writes
// the approval: a commit of main, or a path, on the Connection of an app cluster
// or on the ClusterBinding of a control plane; the hash of an API's newer
// definition on its APIServiceBinding.
//
// It deletes nothing itself. What an approval covers, the agents judge; the
// package shows it by name first, as far as the person may see it.
package approve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/progress"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Approval is what a person approves.
type Approval struct {
	// Main and Removals are commits of main.
	Main, Removals string
	// Schema is the hash of a newer definition of an API.
	Schema string
	// RecreateEmpty are paths of claims on main, or of folders of them.
	RecreateEmpty []string
}

// Input is what the person asked for.
type Input struct {
	command.Call
	Approval
	// Connection and ClusterBinding limit it to one, by name.
	Connection, ClusterBinding string
	// CABundle, in PEM, is trusted at the Git host of a control plane beside the system's
	// certificates.
	CABundle    []byte
	Yes, DryRun bool
	Format      output.Format
	// Timeout of the wait for the agent; no wait when 0.
	Timeout time.Duration
}

var commit = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

var underRoot = regexp.MustCompile(`^` + contract.Root + `(/[a-z0-9][a-z0-9.-]*)*/?$`)

// check refuses what no agent would act on.
func check(a Approval) error {
	if a.Main != "" && a.Main != v1alpha1.ApproveNone && !commit.MatchString(a.Main) {
		return usage.Errorf("--main %q: give the whole hash of a commit, as it is shown", a.Main)
	}
	if a.Removals != "" && !commit.MatchString(a.Removals) {
		return usage.Errorf("--removals %q: give the whole hash of a commit, as it is shown", a.Removals)
	}
	if a.Schema != "" && !schemaHash.MatchString(a.Schema) {
		return usage.Errorf("--schema %q: give the hash of the definition, as it is shown", a.Schema)
	}
	for _, path := range a.RecreateEmpty {
		if !underRoot.MatchString(path) {
			return usage.Errorf("--recreate-empty %q: give the path of a claim on main, as it is shown, or of a folder", path)
		}
	}
	return nil
}

func (a Approval) empty() bool {
	return a.Main == "" && a.Removals == "" && a.Schema == "" && len(a.RecreateEmpty) == 0
}

// Do lists, or approves.
func Do(ctx context.Context, in Input) error {
	all, err := in.find(ctx)
	if err != nil {
		return err
	}
	switch {
	case in.Format != output.Table:
		return output.Data(in.Terminal.Out, in.Format, map[string]any{"holders": all})
	case in.empty():
		return list(in.Terminal.Out, all)
	}
	chosen, err := in.choose(all)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		c.show(in.Terminal.Out)
	}
	if in.DryRun {
		_, err := fmt.Fprintln(in.Terminal.Out, "Nothing was changed.")
		return err
	}
	if err := in.Terminal.Agree(ctx, "Go on?", in.Yes); err != nil {
		if errors.Is(err, terminal.ErrDeclined) {
			err = errors.New("nothing was approved")
		}
		return err
	}
	for _, c := range chosen {
		if err := in.approve(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Holder, err)
		}
	}
	return nil
}

// find lists who holds what. A cluster can be both: an app cluster, and a
// control plane.
func (in Input) find(ctx context.Context) ([]*holder, error) {
	all := []*holder{} // never null for programs
	app, isApp, err := in.connections(ctx)
	if err != nil {
		return nil, err
	}
	control, isControl, err := in.clusterBindings(ctx)
	if err != nil {
		return nil, err
	}
	if !isApp && !isControl {
		return nil, errors.New("this is neither a connected cluster nor a control plane of gitbind, or you may not see that: choose another --context")
	}
	for _, h := range append(app, control...) {
		named := in.Connection == "" && in.ClusterBinding == "" ||
			h.kind == "Connection" && h.Name == in.Connection || h.kind == bindingKind && h.connection == in.Connection || h.kind == "ClusterBinding" && h.Name == in.ClusterBinding
		if named {
			all = append(all, h)
		}
	}
	switch {
	case len(all) == 0 && in.Connection != "":
		return nil, fmt.Errorf("there is no Connection %s", in.Connection)
	case len(all) == 0 && in.ClusterBinding != "":
		return nil, fmt.Errorf("there is no ClusterBinding %s", in.ClusterBinding)
	}
	return all, nil
}

// chosen is one who holds something that the approval is about.
type chosen struct {
	*holder
	annotations map[string]string
	main        bool
	removals    []Item
	// recreate are the paths that were given, and empty the claims there.
	recreate, empty []string
}

// choose finds whom an approval is for: of each kind at most one, because a
// commit is one repository's, and a path or a hash says nothing about which.
func (in Input) choose(all []*holder) ([]chosen, error) {
	var out []chosen
	for _, kind := range []string{"Connection", bindingKind, "ClusterBinding"} {
		var of []chosen
		for _, h := range all {
			if h.kind != kind {
				continue
			}
			if c := in.of(h); len(c.annotations) > 0 {
				of = append(of, c)
			}
		}
		if len(of) > 1 {
			var names []string
			for _, c := range of {
				names = append(names, c.Name)
			}
			flag := map[string]string{"Connection": "--connection", bindingKind: "--connection", "ClusterBinding": "--cluster"}[kind]
			return nil, fmt.Errorf("the %ss %s wait for that: choose one with %s", kind, strings.Join(names, ", "), flag)
		}
		out = append(out, of...)
	}
	if len(out) > 0 {
		return out, nil
	}
	for _, h := range all {
		if h.Note != "" {
			return nil, fmt.Errorf("nothing that could be seen waits for that: %s: %s", h.Holder, h.Note)
		}
	}
	return nil, errors.New("nothing waits for that: kubectl gitbind approve lists what does")
}

// of is the part of an approval that is about one holder.
func (in Input) of(h *holder) chosen {
	c := chosen{holder: h, annotations: map[string]string{}}
	if in.Main != "" && h.Main != "" {
		c.main = true
		c.annotations[v1alpha1.ApproveMainAnnotation] = in.Main
	}
	if in.Removals != "" && h.RemovalsHeld {
		for _, r := range h.Removals {
			// One that nobody was seen making goes only by the very commit that its
			// answer names.
			if r.Commit == in.Removals || r.Reason != string(contract.NotRemoved) {
				c.removals = append(c.removals, r)
			}
		}
		c.annotations[v1alpha1.ApproveRemovalsAnnotation] = in.Removals
	}
	if h.awaits(in.Schema) {
		c.annotations[v1alpha1.ApproveSchemaAnnotation] = in.Schema
	}
	for _, path := range in.RecreateEmpty {
		if under := h.lost(path); len(under) > 0 {
			c.recreate = append(c.recreate, path)
			c.empty = append(c.empty, under...)
		}
	}
	if len(c.recreate) > 0 {
		c.annotations[recreateAnnotation] = strings.Join(c.recreate, ",")
	}
	return c
}

// show says by name what will be deleted, or be recreated empty.
func (c chosen) show(w io.Writer) {
	fmt.Fprintf(w, "%s:\n", c.Holder)
	if c.main {
		fmt.Fprintf(w, "  main counts from this commit on. Nothing that it lacks is deleted for that.\n")
	}
	if c.annotations[v1alpha1.ApproveSchemaAnnotation] != "" {
		fmt.Fprintf(w, "  The newer definition of this API is installed, though claims may be invalid with it, or mean another thing:\n    %s\n", output.Line(c.Schema))
	}
	if c.annotations[v1alpha1.ApproveRemovalsAnnotation] != "" {
		fmt.Fprintf(w, "  These services are DELETED, as far as their removal is in that commit:\n")
		for _, r := range c.removals {
			fmt.Fprintf(w, "    %s\n", r.Claim)
		}
		if len(c.removals) == 0 {
			fmt.Fprintf(w, "    (they could not be listed: %s)\n", output.Line(c.Note))
		}
	}
	if len(c.recreate) > 0 {
		fmt.Fprintf(w, "  These services are recreated, EMPTY, where they are missing:\n")
		for _, path := range c.empty {
			fmt.Fprintf(w, "    %s\n", path)
		}
	}
}

// approve writes the approval, and waits until it took effect.
func (in Input) approve(ctx context.Context, c chosen) error {
	if err := in.withdraw(ctx, c); err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(c.gvk())
	u.SetName(c.Name)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := in.withEarlier(ctx, c, u); err != nil {
			return err
		}
		return in.Cluster.Annotate(ctx, u, c.annotations)
	})
	if err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	if in.Timeout == 0 {
		_, err := fmt.Fprintf(in.Terminal.Out, "%s: approved\n", c.Holder)
		return err
	}
	doing := progress.Begin(in.Terminal, "waiting until it is acted on")
	var instead string
	err = in.Cluster.Until(ctx, appcluster.Watched{Kind: c.gvk(), Key: client.ObjectKey{Name: c.Name}}, in.Timeout, c.until(u.GetResourceVersion(), &instead))
	doing.End()
	var late *appcluster.NotReady
	if errors.As(err, &late) {
		return fmt.Errorf("approved, and not acted on within %s: is the commit still part of main, and does the agent run? kubectl gitbind approve says what waits", in.Timeout)
	}
	if err != nil {
		return err
	}
	if instead != "" {
		return fmt.Errorf("approved, but before that was seen to be acted on, somebody approved %s in its place: kubectl gitbind approve says what waits", instead)
	}
	_, err = fmt.Fprintf(in.Terminal.Out, "%s: approved, and acted on\n", c.Holder)
	return err
}
