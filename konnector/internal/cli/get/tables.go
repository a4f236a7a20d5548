package get

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	konnectorv1alpha1 "gitbind.dev/konnector/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/output"
)

// table is a heading with rows; it is left out when it has none.
type table struct {
	header []string
	rows   [][]string
}

func (f found) tables(w io.Writer, wide bool) error {
	tables := []table{connectionTable(f.connections, wide), bindingTable(f.bindings), f.claimTable(wide)}
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
	f.refused(w)
	f.held(w)
	return nil
}

func connectionTable(connections []konnectorv1alpha1.Connection, wide bool) table {
	t := table{header: []string{"CONNECTION", "READY", "CLUSTER", "REPOSITORY", "MESSAGE"}}
	if wide {
		t.header = []string{"CONNECTION", "READY", "CLUSTER", "REPOSITORY", "BACKEND", "COMMIT", "MESSAGE"}
	}
	for _, c := range connections {
		ready, message := condition(c.Status.Conditions, konnectorv1alpha1.ConditionReady)
		row := []string{c.Name, ready, c.Spec.ClusterID, c.Spec.RepositoryURL}
		if wide {
			row = append(row, c.Spec.BackendURL, short(c.Status.AcceptedCommit))
		}
		t.rows = append(t.rows, append(row, message))
	}
	return t
}

func bindingTable(bindings []konnectorv1alpha1.APIServiceBinding) table {
	t := table{header: []string{"BINDING", "CONNECTION", "READY", "MESSAGE"}}
	for _, b := range bindings {
		ready, message := condition(b.Status.Conditions, konnectorv1alpha1.ConditionReady)
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
		s := statusOf(c)
		ready, _ := condition(s.Conditions, "Ready")
		committed, _ := condition(s.Conditions, "Committed")
		applied, _ := condition(s.Conditions, "Applied")
		held, _ := condition(s.Conditions, "Held")
		name := c.object.GetNamespace() + "/" + c.object.GetName()
		if wide {
			t.rows = append(t.rows, []string{name, c.object.GetKind(), ready, committed, applied, held, s.Commit, c.binding, output.Line(s.Message)})
		} else {
			t.rows = append(t.rows, []string{name, c.object.GetKind(), ready, applied, short(s.Commit), output.Line(s.Message)})
		}
	}
	return t
}

// status is what the konnector writes into status.gitbind.
type status struct {
	Conditions []metav1.Condition `json:"conditions"`
	Commit     string             `json:"commit"`
	Message    string             `json:"message"`
}

func statusOf(c claim) status {
	var s struct {
		Status struct {
			Gitbind status `json:"gitbind"`
		} `json:"status"`
	}
	// What is no status of ours is shown as none: it is another tool's doing.
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(c.object.Object, &s)
	if c.object.GetDeletionTimestamp() != nil && s.Status.Gitbind.Message == "" {
		s.Status.Gitbind.Message = "is being deleted"
	}
	return s.Status.Gitbind
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

// condition is a condition's status, and what it says when it is not true.
func condition(conditions []metav1.Condition, kind string) (status, message string) {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "Unknown", ""
	}
	if c.Status != metav1.ConditionTrue {
		message = output.Line(c.Message)
	}
	return string(c.Status), message
}

// short is enough of a commit's hash for git to find it.
func short(commit string) string { return commit[:min(len(commit), 8)] }
