package get

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
)

// table is a heading with rows; it is left out when it has none.
type table struct {
	header []string
	rows   [][]string
}

func (f found) tables(w io.Writer, wide bool) error {
	tables := []table{f.connectionTable(wide), f.bindingTable(), f.claimTable(wide)}
	if f.absent != "" {
		fmt.Fprintf(w, "%s: what follows is what it said last.\n\n", f.absent)
	}
	printed := 0
	for _, t := range tables {
		if len(t.rows) == 0 {
			continue
		}
		if printed > 0 {
			fmt.Fprintln(w)
		}
		if err := output.Rows(w, t.header, t.rows); err != nil {
			return err
		}
		printed++
	}
	if len(f.bindings) == 0 {
		fmt.Fprintln(w, "\nNothing is bound. To see what you may bind: kubectl gitbind catalog")
	}
	f.decisions(w)
	f.refused(w)
	f.held(w)
	return nil
}

func (f found) connectionTable(wide bool) table {
	t := table{header: []string{"CONNECTION", "READY", "CLUSTER", "REPOSITORY", "MESSAGE"}}
	if wide {
		t.header = []string{"CONNECTION", "READY", "CLUSTER", "REPOSITORY", "BACKEND", "COMMIT", "MESSAGE"}
	}
	for _, c := range f.connections {
		ready, message := f.condition(c.Status.Conditions, konnectorv1alpha1.ConditionReady, c.Generation)
		row := []string{c.Name, ready, c.Spec.ClusterID, c.Spec.RepositoryURL}
		if wide {
			row = append(row, c.Spec.BackendURL, short(c.Status.AcceptedCommit))
		}
		t.rows = append(t.rows, append(row, message))
	}
	return t
}

func (f found) bindingTable() table {
	t := table{header: []string{"BINDING", "CONNECTION", "READY", "MESSAGE"}}
	for _, b := range f.bindings {
		ready, message := f.condition(b.Status.Conditions, konnectorv1alpha1.ConditionReady, b.Generation)
		t.rows = append(t.rows, []string{b.Name, b.Spec.Connection, ready, message})
	}
	return t
}

func (f found) claimTable(wide bool) table {
	t := table{header: []string{"CLAIM", "KIND", "READY", "APPLIED", "COMMIT", "MESSAGE"}}
	if wide {
		t.header = []string{"CLAIM", "KIND", "READY", "COMMITTED", "APPLIED", "HELD", "COMMIT", "BINDING", "MESSAGE"}
	}
	for _, c := range f.claims {
		s := appcluster.StatusOf(&c.object)
		is := func(kind string) string {
			status, _ := f.condition(s.Conditions, kind, c.object.GetGeneration())
			return status
		}
		name := c.object.GetNamespace() + "/" + c.object.GetName()
		if wide {
			t.rows = append(t.rows, []string{name, c.object.GetKind(), is("Ready"), is("Committed"), is("Applied"), is("Held"), s.Commit, c.binding, messageOf(&c.object, s)})
		} else {
			t.rows = append(t.rows, []string{name, c.object.GetKind(), is("Ready"), is("Applied"), short(s.Commit), messageOf(&c.object, s)})
		}
	}
	return t
}

// unseen is said of what was changed since the konnector looked at it.
const unseen = "was changed, and the konnector has not looked at it since"

// messageOf is what a claim's owner should know first.
func messageOf(u *unstructured.Unstructured, s appcluster.ClaimStatus) string {
	switch {
	case len(s.Conditions) > 0 && appcluster.Current(s.Conditions, s.Conditions[0].Type, u.GetGeneration()) == nil:
		return unseen
	case s.Message == "" && u.GetDeletionTimestamp() != nil:
		return "is being deleted"
	}
	return output.Line(s.Message)
}

// decisions lists the claims that wait for one, with the command that shows what
// there is to decide.
func (f found) decisions(w io.Writer) {
	var rows [][]string
	for _, c := range f.claims {
		if h := appcluster.StatusOf(&c.object).Hold; h != nil && len(h.Choices) > 0 {
			u := &c.object
			rows = append(rows, []string{"  " + u.GetNamespace() + "/" + u.GetName(), h.Reason,
				fmt.Sprintf("kubectl gitbind resolve %s/%s -n %s", c.binding, u.GetName(), u.GetNamespace())})
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWaiting for a decision:")
	_ = output.Rows(w, rows[0], rows[1:])
}

// refused prints each refused file as compilers do, so that editors find the
// line.
func (f found) refused(w io.Writer) {
	for _, c := range f.connections {
		if c.Status.RefusedFiles == 0 {
			continue
		}
		fmt.Fprintf(w, "\nRefused files on main (%s)%s:\n", c.Name, of(len(c.Status.Refused), c.Status.RefusedFiles))
		for _, r := range c.Status.Refused {
			at := r.Path
			if r.Line > 0 {
				at += ":" + strconv.Itoa(r.Line)
			}
			fmt.Fprintf(w, "  %s: %s: %s\n", output.Line(at), r.Result, output.Line(r.Message))
		}
	}
}

// held prints the files that the konnector keeps back, but for those that the
// control plane has refused: these are said already.
func (f found) held(w io.Writer) {
	refused := map[string]bool{}
	for _, c := range f.connections {
		for _, r := range c.Status.Refused {
			refused[r.Path] = true
		}
	}
	for _, b := range f.bindings {
		rest := slices.DeleteFunc(slices.Clone(b.Status.Held), func(h konnectorv1alpha1.HeldFile) bool { return refused[h.Path] })
		all := b.Status.HeldFiles - (len(b.Status.Held) - len(rest))
		if all <= 0 {
			continue
		}
		fmt.Fprintf(w, "\nFiles on main without an object in this cluster (%s)%s:\n", b.Name, of(len(rest), all))
		for _, h := range rest {
			text := h.Message
			if !strings.HasPrefix(text, h.Path+":") { // otherwise with the line
				text = h.Path + ": " + text
			}
			fmt.Fprintf(w, "  %s (%s)\n", output.Line(text), h.Reason)
		}
	}
}

// of tells that not all are shown.
func of(shown, all int) string {
	if shown == all {
		return ""
	}
	return fmt.Sprintf(", %d of %d", shown, all)
}

// condition is a condition's status, and what it says when it is not true. One
// of an earlier generation, and every one while no konnector is there, is
// Unknown: green of yesterday would lie.
func (f found) condition(conditions []metav1.Condition, kind string, generation int64) (status, message string) {
	c := appcluster.Current(conditions, kind, generation)
	switch {
	case f.absent != "":
		return "Unknown", ""
	case c == nil && meta.FindStatusCondition(conditions, kind) != nil:
		return "Unknown", unseen
	case c == nil:
		return "Unknown", ""
	}
	if c.Status != metav1.ConditionTrue {
		message = output.Line(c.Message)
	}
	return string(c.Status), message
}

// short is enough of a commit's hash for git to find it.
func short(commit string) string { return commit[:min(len(commit), 8)] }
