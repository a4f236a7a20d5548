// Package log shows a claim's history: who changed its file on main, when, and
// what. It reads Git and the names in the app cluster, and changes nothing.
package log

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/store"
	"gitbind.dev/konnector/internal/cli/clone"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Name is KIND/NAME.
	Name string
	// Limit is the most commits to show; all when 0.
	Limit          int
	Patch, Oneline bool
	Format         output.Format
}

// Entry is one commit as JSON and YAML show it.
type Entry struct {
	// Revision is what rollback takes: "~0" is the newest.
	Revision string `json:"revision"`
	Commit   string `json:"commit"`
	// Change is created, changed or removed.
	Change    clone.Change   `json:"change"`
	Author    clone.Person   `json:"author"`
	CoAuthors []clone.Person `json:"coAuthors,omitempty"`
	Committer clone.Person   `json:"committer"`
	// ApprovedBy is who approved it in a review of the control plane.
	ApprovedBy string    `json:"approvedBy,omitempty"`
	Time       time.Time `json:"time"`
	Subject    string    `json:"subject"`
	Message    string    `json:"message"`
	// Diff is what the commit did to the file, with --patch.
	Diff string `json:"diff,omitempty"`
}

// Do shows the history.
func Do(ctx context.Context, in Input) error {
	name, err := in.Cluster.Name(in.Name)
	if err != nil {
		return err
	}
	repo, err := clone.OfBinding(ctx, in.Access, name.Key.Binding)
	if err != nil {
		return err
	}
	commits, err := repo.Log(ctx, name.Key.Path(), in.Limit)
	if err != nil {
		return err
	}
	entries, err := in.entries(ctx, repo, name.Key.Path(), commits)
	if err != nil {
		return err
	}
	if len(entries) == 0 && !in.Format.IsData() {
		return fmt.Errorf("main has no history of %s: nothing was ever at %s", name.Key, name.Key.Path())
	}
	return in.show(entries)
}

func (in Input) entries(ctx context.Context, repo *clone.Clone, path string, commits []clone.Commit) ([]Entry, error) {
	var files map[string][]byte
	if in.Patch {
		var blobs []string
		for _, c := range commits {
			blobs = append(blobs, c.Old, c.New)
		}
		var err error
		if files, err = repo.Read(ctx, blobs); err != nil {
			return nil, err
		}
	}
	var approvals map[string]string
	if in.showsApprovals() {
		var err error
		if approvals, err = repo.Approvals(ctx, path); err != nil {
			return nil, err
		}
	}
	var out []Entry
	for i, c := range commits {
		e := Entry{
			Revision: fmt.Sprintf("~%d", i), Commit: c.Hash, Change: c.Change, Author: c.Author, CoAuthors: c.CoAuthors,
			Committer: c.Committer, ApprovedBy: approvals[c.Hash], Time: c.Time, Subject: c.Subject(), Message: c.Message,
		}
		if in.Patch {
			e.Diff = string(output.Diff(side("a", path, c.Old), string(files[c.Old]), side("b", path, c.New), string(files[c.New])))
		}
		out = append(out, e)
	}
	return out, nil
}

// showsApprovals reports whether what is shown says who approved a commit. To know that takes
// all of main's history.
func (in Input) showsApprovals() bool { return !in.Oneline && in.Format != output.Name }

// side names one side of a diff as git does.
func side(prefix, path, blob string) string {
	if blob == "" {
		return "/dev/null"
	}
	return prefix + "/" + path
}

func (in Input) show(entries []Entry) error {
	people := in.Format == output.Table || in.Format == output.Wide
	switch {
	case people && in.Patch:
		return in.patches(entries)
	case people && in.Oneline:
		for _, e := range entries {
			if _, err := fmt.Fprintf(in.Terminal.Out, "%s %s\n", in.Terminal.Paint(terminal.Yellow, e.short()), output.Line(e.Subject)); err != nil {
				return err
			}
		}
		return nil
	}
	l := output.Listing{Data: output.Items(entries), Columns: []output.Column{
		{Name: "REV"}, {Name: "COMMIT", Colour: func(string) terminal.Colour { return terminal.Yellow }}, {Name: "CHANGE", Colour: changes},
		{Name: "WHO"}, {Name: "AGE"}, {Name: "WHEN", Wide: true}, {Name: "COMMITTER", Wide: true}, {Name: "SUBJECT"},
	}}
	for _, e := range entries {
		l.Names = append(l.Names, e.Commit)
		l.Rows = append(l.Rows, []string{
			e.Revision, e.short(), string(e.Change), e.who(), duration.HumanDuration(max(in.Now().Sub(e.Time), 0)),
			e.Time.Format(time.RFC3339), e.Committer.Name, e.Subject,
		})
	}
	return l.Print(in.Terminal, in.Format)
}

func changes(cell string) terminal.Colour {
	switch clone.Change(cell) {
	case clone.Created:
		return terminal.Green
	case clone.Removed:
		return terminal.Red
	}
	return terminal.Plain
}

// patches are blocks as git log has them, each with its diff.
func (in Input) patches(entries []Entry) error {
	for i, e := range entries {
		var b strings.Builder
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, in.Terminal.Paint(terminal.Yellow, "commit "+e.Commit)+" ("+e.Revision+", "+string(e.Change)+")")
		fmt.Fprintf(&b, "Author:    %s\n", person(e.Author))
		for _, p := range e.CoAuthors {
			fmt.Fprintf(&b, "Co-author: %s\n", person(p))
		}
		if e.ApprovedBy != "" {
			fmt.Fprintf(&b, "Approved:  %s\n", output.Line(e.ApprovedBy))
		}
		fmt.Fprintf(&b, "Date:      %s (%s ago)\n\n", e.Time.Format(time.RFC3339), duration.HumanDuration(max(in.Now().Sub(e.Time), 0)))
		for line := range strings.Lines(e.Message) {
			fmt.Fprintln(&b, strings.TrimRight("    "+strings.TrimRight(line, "\n"), " "))
		}
		b.WriteByte('\n')
		if _, err := io.WriteString(in.Terminal.Out, b.String()); err != nil {
			return err
		}
		in.Terminal.Diff([]byte(e.Diff))
	}
	return nil
}

// who are all that had a part in it.
func (e Entry) who() string {
	names := []string{e.Author.Name}
	for _, p := range e.CoAuthors {
		names = append(names, p.Name)
	}
	who := strings.Join(names, ", ")
	if e.ApprovedBy != "" {
		who += " (approved by " + e.ApprovedBy + ")"
	}
	return who
}

func (e Entry) short() string { return store.Hash(e.Commit).Short() }

func person(p clone.Person) string { return output.Line(p.Name + " <" + p.Email + ">") }
