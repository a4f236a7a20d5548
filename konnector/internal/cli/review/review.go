// Package review lets people look at proposed changes, discuss, approve and reject them,
// at the backend. It merges nothing itself.
package review

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/controlplane"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	Connection string
	// BackendURL has the form of session.BackendURL, and ClusterRef is a cluster's
	// id or name there.
	BackendURL, ClusterRef string

	// Change is a branch with its prefix; "" to list them.
	Change          string
	Approve, Reject bool
	Message         string
	// Head and Effect are the beginnings of the commit that the person has looked at, and of
	// what the merge did then.
	Head, Effect string

	Patch  bool
	Format output.Format
}

// Do lists changes, shows one, or says what the person thinks of one.
func Do(ctx context.Context, in Input) error {
	backend, cluster, err := in.OpenShared(ctx, in.BackendURL, in.Connection, in.ClusterRef)
	if err != nil {
		return err
	}
	if in.Change == "" {
		changes, more, err := backend.Changes(ctx, cluster.ID)
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintln(in.Notes, "There are more, with older commits: git ls-remote origin 'changes/*' lists their branches in a clone.")
		}
		return in.listing(changes).Print(in.Terminal, in.Format)
	}
	change, err := backend.Change(ctx, cluster.ID, in.Change)
	if err != nil {
		return err
	}
	if in.Head != "" && !strings.HasPrefix(change.Head, strings.ToLower(in.Head)) {
		return fmt.Errorf("%s is at %s now, and not at %s: look at it again", change.Branch, short(change.Head), in.Head)
	}
	switch {
	case in.Approve:
		return in.approve(ctx, backend, cluster, change)
	case in.Reject:
		return in.say(ctx, backend, cluster, change, restapi.VerdictReject, "Rejected")
	case in.Message != "":
		return in.say(ctx, backend, cluster, change, restapi.VerdictComment, "Said")
	case in.Format.IsData():
		return output.Data(in.Terminal.Out, in.Format, change)
	case in.Format == output.Name:
		_, err := fmt.Fprintln(in.Terminal.Out, output.Line(change.Branch))
		return err
	}
	return in.show(change)
}

func (in Input) approve(ctx context.Context, backend *controlplane.Client, cluster controlplane.Cluster, change restapi.Change) error {
	if !change.MayApprove {
		return fmt.Errorf("%s cannot be approved: %s", change.Branch, change.Blocked)
	}
	switch {
	case in.Effect != "" && !strings.HasPrefix(change.Effect, strings.ToLower(in.Effect)):
		return fmt.Errorf("main has changed what merging %s would do: look at it again", change.Branch)
	case in.Effect == "" && !in.Terminal.Interactive:
		return usage.Errorf("nobody is there to ask: kubectl gitbind review %s shows what merging it would do, and with which --head and --effect you approve that", name(change))
	case in.Effect == "":
		if err := in.show(change); err != nil {
			return err
		}
		if err := in.Terminal.Agree(ctx, "Merge this into main?", false); err != nil {
			return err
		}
	}
	reviewed, err := backend.Review(ctx, cluster.ID, restapi.Review{
		Branch: change.Branch, Head: change.Head, Effect: change.Effect, Verdict: restapi.VerdictApprove, Message: in.Message,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(in.Terminal.Out, "Merged into main as %s; the branch is gone. kubectl gitbind get shows what becomes of it.\n", short(reviewed.Merged))
	return nil
}

// say leaves words, and a verdict against the change or none.
func (in Input) say(ctx context.Context, backend *controlplane.Client, cluster controlplane.Cluster, change restapi.Change, verdict restapi.Verdict, done string) error {
	if _, err := backend.Review(ctx, cluster.ID, restapi.Review{Branch: change.Branch, Head: change.Head, Verdict: verdict, Message: in.Message}); err != nil {
		return err
	}
	fmt.Fprintf(in.Terminal.Out, "%s, of %s at %s.\n", done, change.Branch, short(change.Head))
	return nil
}

func (in Input) listing(changes []restapi.Change) output.Listing {
	l := output.Listing{
		Columns: append(output.Columns("CHANGE", "SUBJECT", "PROPOSED BY", "STATE", "AGE"), output.Column{Name: "HEAD", Wide: true}),
		Empty:   "No change is proposed.",
		Data:    output.Items(changes),
	}
	for _, c := range changes {
		state := "Open"
		if c.Rejected {
			state = "Rejected"
		}
		l.Rows = append(l.Rows, []string{name(c), c.Subject, proposers(c), state, in.age(c.When), c.Head})
		l.Names = append(l.Names, c.Branch)
	}
	return l
}

// proposers are the people who pushed a change, or whom its commit names.
func proposers(c restapi.Change) string {
	if len(c.ProposedBy) == 0 {
		return c.Author
	}
	return strings.Join(c.ProposedBy, ", ")
}

func (in Input) age(t time.Time) string {
	return duration.HumanDuration(max(in.Now().Sub(t), 0))
}

// name is that of a change, as people type it.
func name(c restapi.Change) string { return strings.TrimPrefix(c.Branch, contract.ChangesPrefix) }

func short(hash string) string { return store.Hash(hash).Short() }

// show is a change for a person to decide about.
func (in Input) show(c restapi.Change) error {
	t := in.Terminal
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s, proposed by %s %s ago\n", t.Paint(terminal.Yellow, output.Line(c.Branch)), short(c.Head), output.Line(proposers(c)), in.age(c.When))
	if c.Rejected {
		fmt.Fprintln(&b, t.Paint(terminal.Red, "It is rejected."))
	}
	if len(c.Commits) > 1 {
		fmt.Fprintf(&b, "\nCommits\n")
	}
	for _, commit := range c.Commits {
		fmt.Fprintf(&b, "  %s %s (%s)\n", short(commit.Hash), output.Line(commit.Subject), output.Line(commit.Author))
	}
	for _, f := range c.Conflicts {
		fmt.Fprintf(&b, "\n%s main has changed it, too: %s\n", t.Paint(terminal.Red, "conflict"), output.Line(f))
	}
	if _, err := io.WriteString(t.Out, b.String()); err != nil {
		return err
	}
	for _, f := range c.Files {
		if err := in.showFile(f); err != nil {
			return err
		}
	}
	return in.showEvents(c)
}

// actions are what becomes of a claim, for people.
var actions = map[restapi.Action]struct {
	word   string
	colour terminal.Colour
}{
	restapi.ActionCreate: {"orders", terminal.Green},
	restapi.ActionUpdate: {"changes", terminal.Yellow},
	restapi.ActionDelete: {"cancels", terminal.Red},
}

func (in Input) showFile(f restapi.ChangedFile) error {
	t := in.Terminal
	var b strings.Builder
	action := actions[f.Action]
	if f.Name == "" {
		fmt.Fprintf(&b, "\n%s %s\n", t.Paint(action.colour, string(f.Action)), output.Line(f.Path))
	} else {
		what := f.Kind
		if what == "" {
			what = f.Binding
		}
		fmt.Fprintf(&b, "\n%s %s\n", t.Paint(action.colour, action.word), output.Line(fmt.Sprintf("%s %s/%s (%s)", what, f.Namespace, f.Name, f.Binding)))
	}
	if f.Problem != "" {
		fmt.Fprintf(&b, "  %s %s\n", t.Paint(terminal.Red, "would be refused:"), output.Line(f.Problem))
	}
	if f.Unbinding != "" {
		fmt.Fprintln(&b, "  "+t.Paint(terminal.Red, output.Line(f.Unbinding)))
	}
	if f.Waits != "" {
		fmt.Fprintf(&b, "  %s %s\n", t.Paint(terminal.Yellow, "would wait:"), output.Line(f.Waits))
	}
	switch {
	case f.Held != "":
		fmt.Fprintln(&b, "  "+t.Paint(terminal.Yellow, output.Line(f.Held)))
	case f.Action == restapi.ActionDelete && f.Name != "":
		fmt.Fprintln(&b, "  "+t.Paint(terminal.Red, "its service and what is in it are deleted"))
	default:
		fields(&b, f.Action, f.Fields)
		if f.MoreFields > 0 {
			fmt.Fprintf(&b, "  … and %d fields more: see --patch\n", f.MoreFields)
		}
	}
	in.effective(&b, f)
	if _, err := io.WriteString(t.Out, b.String()); err != nil {
		return err
	}
	// Without fields the lines are all that there is to see.
	if in.Patch || f.Name == "" || len(f.Fields) == 0 {
		t.Diff([]byte(strings.Join(f.Diff, "\n") + "\n"))
	}
	if f.Cut {
		_, err := fmt.Fprintln(t.Out, "  … and more: see git diff")
		return err
	}
	return nil
}

// effective says what is otherwise on the control plane than the file says.
func (in Input) effective(b *strings.Builder, f restapi.ChangedFile) {
	if f.Untried != "" {
		fmt.Fprintf(b, "  %s %s\n", in.Terminal.Paint(terminal.Yellow, "not tried on the control plane:"), output.Line(f.Untried))
	}
	if len(f.Effective)+len(f.Unchanged) == 0 {
		return
	}
	fmt.Fprintln(b, "  on the control plane, other than the file says:")
	fields(b, f.Action, f.Effective)
	for _, field := range f.Unchanged {
		fmt.Fprintf(b, "  %s  stays as it is\n", output.Line(field))
	}
}

func fields(b *strings.Builder, action restapi.Action, all []restapi.FieldChange) {
	width := 0
	for _, field := range all {
		width = max(width, len(output.Line(field.Field)))
	}
	for _, field := range all {
		before, after := output.Line(field.Before), output.Line(field.After)
		var change string
		switch {
		case action == restapi.ActionCreate:
			change = after
		case before == "":
			change = "+ " + after
		case after == "":
			change = "- " + before
		default:
			change = before + " → " + after
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, output.Line(field.Field), change)
	}
}

func (in Input) showEvents(c restapi.Change) error {
	var b strings.Builder
	for _, e := range c.Events {
		fmt.Fprintf(&b, "\n%s %s %s %s ago\n", output.Line(e.By), e.What, short(e.Commit), in.age(e.At))
		for line := range strings.Lines(e.Message) {
			fmt.Fprintf(&b, "  %s\n", output.Line(line))
		}
	}
	writeChoices(&b, c)
	_, err := io.WriteString(in.Terminal.Out, b.String())
	return err
}

// writeChoices says what the person can do with a change.
func writeChoices(b *strings.Builder, c restapi.Change) {
	name := output.Line(name(c))
	refused := slices.ContainsFunc(c.Files, func(f restapi.ChangedFile) bool { return f.Problem != "" })
	b.WriteByte('\n')
	switch {
	case refused && c.MayReject:
		b.WriteString("Merge it only when nothing in it would be refused: what is refused has no effect.\n")
		fmt.Fprintf(b, "To correct it: kubectl gitbind propose -f FILE -m MESSAGE --branch %s\n", name)
		fmt.Fprintf(b, "To reject it: kubectl gitbind review %s --reject -m MESSAGE\n", name)
	case c.MayApprove && !refused:
		fmt.Fprintf(b, "To merge it: kubectl gitbind review %s --approve --head %s --effect %s\n", name, short(c.Head), short(c.Effect))
	}
	if !c.MayApprove {
		fmt.Fprintf(b, "You cannot approve it: %s\n", output.Line(c.Blocked))
	}
}
