// Package diff compares claims in the app cluster with their files on main, or
// with files of the person, in the form in which the konnector compares them:
// defaults filled in, and without what tools keep on objects for themselves. It
// changes nothing.
package diff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/command"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/usage"
)

// Exit codes are those of kubectl diff.
const (
	differs = 1
	trouble = 2
)

// Input is what the person asked for.
type Input struct {
	command.Call
	// Names are KIND/NAME, or KIND; all claims when empty.
	Names []string
	// Files are the person's, in the place of those on main; "-" is standard input.
	Files  []string
	Format output.Format
}

// Difference is a claim that the two sides tell differently.
type Difference struct {
	Claim     string `json:"claim"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	// Only is "cluster" or "file" when the other side has no such claim.
	Only string `json:"only,omitempty"`
	// Diff leads from what the cluster says to what the file says.
	Diff string `json:"diff"`
}

// Do shows what differs. The error has the exit code.
func Do(ctx context.Context, in Input) error {
	found, err := in.differences(ctx)
	if err != nil && len(found) == 0 {
		return err
	}
	if printed := in.print(found); printed != nil {
		return printed
	}
	if err == nil && len(found) > 0 {
		return &usage.Exit{Code: differs}
	}
	return err
}

// differences goes on after a claim that cannot be compared; the error tells of
// those.
func (in Input) differences(ctx context.Context) ([]Difference, error) {
	pairs, broken := in.pairs(ctx)
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key.Path(), b.key.Path()) })
	var out []Difference
	bad := 0
	for _, p := range pairs {
		d, err := p.compare()
		var problem *contract.Problem
		switch {
		case errors.As(err, &problem):
			bad++
			fmt.Fprintf(in.Notes, "%s\n", output.Line(problem.Error()))
		case err != nil:
			return out, err
		case d != nil:
			out = append(out, *d)
		}
	}
	if bad > 0 {
		broken = errors.Join(broken, fmt.Errorf("files that are no claim: %d, so they could not be compared", bad))
	}
	return out, broken
}

// pair is a claim on both sides.
type pair struct {
	key    contract.Key
	live   *contract.Claim
	schema *contract.Schema
	kind   string
	// side names the file's side for people, and file is nil when it has none.
	side string
	file *contract.File
}

// compare gives nil when both sides say the same.
func (p pair) compare() (*Difference, error) {
	var want *contract.Claim
	if p.file != nil {
		var err error
		if want, err = contract.Decode(*p.file, p.kind); err != nil {
			return nil, err
		}
	}
	live := p.live
	if p.schema != nil {
		if live != nil {
			live = p.schema.Normalize(live)
		}
		if want != nil {
			want = p.schema.Normalize(want)
		}
	}
	if contract.Equal(live, want) {
		return nil, nil
	}
	d := &Difference{Claim: p.key.Binding + "/" + p.key.Name, Namespace: p.key.Namespace, Name: p.key.Name, Path: p.key.Path()}
	old, err := text(live)
	if err != nil {
		return nil, err
	}
	changed, err := text(want)
	if err != nil {
		return nil, err
	}
	oldName, newName := "cluster/"+p.key.Path(), p.side
	switch {
	case live == nil:
		d.Only, oldName = "file", "/dev/null"
	case want == nil:
		d.Only, newName = "cluster", "/dev/null"
	}
	d.Diff = string(output.Diff(oldName, old, newName, changed))
	return d, nil
}

func text(c *contract.Claim) (string, error) {
	if c == nil {
		return "", nil
	}
	data, err := contract.Encode(c)
	return string(data), err
}

func (in Input) print(found []Difference) error {
	switch {
	case in.Format.IsData():
		return output.Data(in.Terminal.Out, in.Format, output.Items(found))
	case in.Format == output.Name:
		for _, d := range found {
			fmt.Fprintln(in.Terminal.Out, d.Path)
		}
		return nil
	}
	for _, d := range found {
		in.Terminal.Diff([]byte(d.Diff))
	}
	return nil
}
