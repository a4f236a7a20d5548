package resolve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/konnector/internal/choice"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

// report is what there is to decide on.
type report struct {
	Claim     string `json:"claim"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	// Held says that nothing is done meanwhile. Otherwise a conflict was lost, and
	// the file's version is in both places.
	Held    bool            `json:"held"`
	Reason  string          `json:"reason"`
	Message string          `json:"message"`
	Token   string          `json:"token,omitempty"`
	Choices []choice.Choice `json:"choices,omitempty"`
	// Kept is the branch that has the object's version.
	Kept string `json:"kept,omitempty"`
	// ChangedBy are the users who changed the object since its last commit, as
	// far as the cluster tells.
	ChangedBy []string `json:"changedBy,omitempty"`
	// Deleting says that the object's delete has begun.
	Deleting bool `json:"deleting,omitempty"`
	// Cluster, File and Base are what the object says, what main says, and what
	// both said last, as YAML. File is empty when main has no claim there, Base
	// when they never agreed.
	Cluster string `json:"cluster"`
	File    string `json:"file,omitempty"`
	Base    string `json:"base,omitempty"`

	managers []string
	agreed   string
}

func newReport(key contract.Key, keys contract.Keys, u *unstructured.Unstructured, s appcluster.ClaimStatus, now time.Time) (report, error) {
	h := s.Hold
	r := report{
		Claim: key.Binding + "/" + key.Name, Namespace: key.Namespace, Name: key.Name, Path: key.Path(),
		Held: appcluster.True(u, "Held") != nil, Reason: h.Reason, Message: s.Message, Token: h.Token, Choices: h.Choices, Kept: h.Kept,
		ChangedBy: changedBy(u), Deleting: u.GetDeletionTimestamp() != nil, File: h.File,
		managers: managers(u, now),
	}
	text, err := contract.Encode(keys.Of(contract.FromObject(u)))
	if err != nil {
		return r, err
	}
	r.Cluster = string(text)
	if b := base.Read(u); b != nil && b.Claim != nil {
		if text, err = contract.Encode(keys.Of(b.Claim)); err != nil {
			return r, err
		}
		r.Base, r.agreed = string(text), b.Commit
	}
	return r, nil
}

// changedBy are the users whom the attribution policy noted.
func changedBy(u *unstructured.Unstructured) []string {
	return slices.DeleteFunc(strings.Split(u.GetAnnotations()[v1alpha1.ChangedByAnnotation], "\n"), func(s string) bool { return s == "" })
}

// managers are the programs that wrote the object's content, with the time, the
// newest first: what is known where the policy is not installed.
func managers(u *unstructured.Unstructured, now time.Time) []string {
	fields := slices.DeleteFunc(u.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool {
		return f.Subresource != "" || f.Time == nil || f.Manager == "gitbind-konnector"
	})
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int { return b.Time.Compare(a.Time.Time) })
	var out []string
	for _, f := range fields {
		out = append(out, fmt.Sprintf("%s %s ago", f.Manager, duration.HumanDuration(max(now.Sub(f.Time.Time), 0))))
	}
	return out
}

// print shows it to a person.
func (r report) print(t *terminal.Terminal) {
	state := "lost a conflict"
	if r.Held {
		state = "is held"
	}
	fmt.Fprintf(t.Out, "%s in %s %s: %s\n%s\n\n", r.Claim, r.Namespace, state, t.Paint(terminal.Yellow, r.Reason), r.Message)
	if who := r.who(); who != "" {
		fmt.Fprintln(t.Out, who)
	}
	if r.Deleting {
		fmt.Fprintln(t.Out, "The object's delete has begun, and cannot be undone.")
	}
	if r.File == "" {
		fmt.Fprintf(t.Out, "main has no claim at %s.\n", r.Path)
	} else {
		since := "origin/main"
		if r.agreed != "" {
			since = r.agreed + "..origin/main"
		}
		fmt.Fprintf(t.Out, "Who changed the file: git log -p %s -- %s\n", since, r.Path)
	}
	if r.Kept != "" {
		fmt.Fprintf(t.Out, "The version that lost is kept: git diff origin/main...origin/%s\n", r.Kept)
	}
	fmt.Fprintln(t.Out)
	if !r.Held {
		return
	}
	const cluster, main = "the object in the cluster", "the file on main"
	if r.Base == "" || r.File == "" {
		if r.File != "" {
			show(t, main, r.File, cluster, r.Cluster)
		} else if r.Base != "" {
			show(t, "last agreed", r.Base, cluster, r.Cluster)
		}
		return
	}
	show(t, "last agreed", r.Base, cluster, r.Cluster)
	show(t, "last agreed", r.Base, main, r.File)
}

func (r report) who() string {
	switch {
	case len(r.ChangedBy) > 0 && len(r.managers) > 0:
		return fmt.Sprintf("The object was changed by %s (%s).", strings.Join(r.ChangedBy, ", "), strings.Join(r.managers, ", "))
	case len(r.ChangedBy) > 0:
		return fmt.Sprintf("The object was changed by %s.", strings.Join(r.ChangedBy, ", "))
	case len(r.managers) > 0:
		return fmt.Sprintf("The object was written by %s.", strings.Join(r.managers, ", "))
	}
	return ""
}

// show prints what a version changed.
func show(t *terminal.Terminal, oldName, old, newName, changed string) {
	d := output.Diff(oldName, old, newName, changed)
	if d == nil {
		fmt.Fprintf(t.Out, "%s: not changed.\n\n", newName)
		return
	}
	t.Diff(d)
	fmt.Fprintln(t.Out)
}
