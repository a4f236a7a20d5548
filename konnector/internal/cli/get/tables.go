package get

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/brief"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
	"gitbind.dev/konnector/internal/cli/terminal"
)

func (f found) tables(t *terminal.Terminal, wide bool) error {
	if f.absent != "" {
		fmt.Fprintf(t.Out, "%s: what follows is what it said last.\n\n", t.Paint(terminal.Yellow, f.absent))
	}
	printed := 0
	for _, l := range []output.Listing{f.connectionList(), f.bindingList(), f.claimList(wide)} {
		if len(l.Rows) == 0 {
			continue
		}
		if printed > 0 {
			fmt.Fprintln(t.Out)
		}
		if err := output.Print(t, l.Columns, l.Rows, wide); err != nil {
			return err
		}
		printed++
	}
	if len(f.bindings) == 0 {
		fmt.Fprintln(t.Out, "\nNothing is bound. To see what you may bind: kubectl gitbind catalog")
	}
	if err := f.decisions(t); err != nil {
		return err
	}
	f.refused(t.Out)
	f.held(t.Out)
	return nil
}

func (f found) connectionList() output.Listing {
	l := output.Listing{
		Columns: []output.Column{
			{Name: "CONNECTION"}, {Name: "READY", Colour: output.Good}, {Name: "CLUSTER"}, {Name: "REPOSITORY"},
			{Name: "BACKEND", Wide: true}, {Name: "COMMIT", Wide: true}, {Name: "MESSAGE"},
		},
		Empty: "This cluster is not connected to a control plane: kubectl gitbind connect URL",
	}
	for _, c := range f.connections {
		ready, message := f.condition(c.Status.Conditions, v1alpha1.ConditionReady, c.Generation)
		l.Rows = append(l.Rows, []string{c.Name, ready, c.Spec.ClusterID, c.Spec.RepositoryURL, c.Spec.BackendURL, commit(c.Status.AcceptedCommit, false), message})
		l.Names = append(l.Names, "connection.gitbind.dev/"+c.Name)
	}
	return l
}

func (f found) bindingList() output.Listing {
	l := output.Listing{
		Columns: []output.Column{
			{Name: "BINDING"}, {Name: "OFFER"}, {Name: "CONNECTION"}, {Name: "READY", Colour: output.Good}, {Name: "KIND", Wide: true}, {Name: "WRITER", Wide: true}, {Name: "AGE", Wide: true}, {Name: "MESSAGE"},
		},
		Empty: "Nothing is bound. To see what you may bind: kubectl gitbind catalog",
	}
	for _, b := range f.bindings {
		ready, message := f.condition(b.Status.Conditions, v1alpha1.ConditionReady, b.Generation)
		age := ""
		if !b.CreationTimestamp.IsZero() {
			age = ago(f.now, b.CreationTimestamp.Time)
		}
		l.Rows = append(l.Rows, []string{b.Name, f.offers[b.Name], b.Spec.Connection, ready, b.Status.Kind, string(b.Spec.Writer), age, message})
		l.Names = append(l.Names, "apiservicebinding.gitbind.dev/"+b.Name)
	}
	return l
}

func (f found) claimList(wide bool) output.Listing {
	l := output.Listing{Empty: "There are no claims."}
	for _, c := range claimColumns {
		if f.who != nil || c.Name != who && c.Name != when {
			l.Columns = append(l.Columns, c)
		}
	}
	for _, c := range f.claims {
		l.Rows = append(l.Rows, f.row(c, wide))
		l.Names = append(l.Names, c.name())
	}
	return l
}

const who, when = "WHO", "WHEN"

var claimColumns = []output.Column{
	{Name: "CLAIM"}, {Name: "OFFER"}, {Name: "KIND", Wide: true}, {Name: "READY", Colour: output.Good}, {Name: "COMMITTED", Wide: true, Colour: output.Good},
	{Name: "APPLIED", Colour: output.Good}, {Name: "HELD", Wide: true, Colour: output.Bad}, {Name: "SECRET"}, {Name: "COMMIT"},
	{Name: who, Wide: true}, {Name: when, Wide: true}, {Name: "BINDING", Wide: true}, {Name: "MESSAGE"},
}

// row has the cells of one claim.
func (f found) row(c claim, wide bool) []string {
	s := appcluster.StatusOf(&c.object)
	is := func(kind string) string {
		status, _ := f.condition(s.Conditions, kind, c.object.GetGeneration())
		return status
	}
	row := []string{
		c.indent() + c.object.GetNamespace() + "/" + c.object.GetName(), cmp.Or(f.offers[c.binding], c.object.GetKind()), c.object.GetKind(), is("Ready"), is("Committed"), is("Applied"), is("Held"),
		f.secrets(s), commit(s.Commit, wide),
	}
	if f.who != nil {
		person, age := "", ""
		key := contract.Key{Binding: c.binding, Namespace: c.object.GetNamespace(), Name: c.object.GetName()}
		if last, ok := f.who[key.Path()]; ok {
			person, age = output.Line(last.Author.Name), ago(f.now, last.Time)
		}
		row = append(row, person, age)
	}
	return append(row, c.binding, messageOf(&c.object, s, wide))
}

// secrets names the Secrets of a claim that are in its namespace, and says for how long
// each has been as it is. What keeps one from coming is in the message, too.
func (f found) secrets(s appcluster.ClaimStatus) string {
	var all []string
	for _, d := range s.Secrets {
		text := d.Name
		if at, err := time.Parse(time.RFC3339, d.Since); err == nil {
			text += " (" + ago(f.now, at) + ")"
		}
		all = append(all, text)
	}
	if c := meta.FindStatusCondition(s.Conditions, "Secrets"); c != nil && c.Status != metav1.ConditionTrue {
		all = append(all, c.Reason)
	}
	return strings.Join(all, ", ")
}

func (c claim) name() string {
	return strings.ToLower(c.object.GetKind()) + "." + c.object.GroupVersionKind().Group + "/" + c.object.GetName()
}

func ago(now, then time.Time) string { return duration.HumanDuration(max(now.Sub(then), 0)) }

// unseen is said of what was changed since the konnector looked at it.
const unseen = "was changed, and the konnector has not looked at it since"

// maxWords is how much of what a provider says stands in a table that is not wide, in
// characters.
const maxWords = 80

// messageOf is what a claim's owner should know first: of a service that is only not
// ready yet, what it waits for, in its provider's words.
func messageOf(u *unstructured.Unstructured, s appcluster.ClaimStatus, wide bool) string {
	switch {
	case len(s.Conditions) > 0 && appcluster.Current(s.Conditions, s.Conditions[0].Type, u.GetGeneration()) == nil:
		return unseen
	case s.Message == "" && u.GetDeletionTimestamp() != nil:
		return "is being deleted"
	}
	ready := appcluster.Current(s.Conditions, "Ready", u.GetGeneration())
	if ready != nil && ready.Status != metav1.ConditionTrue && (s.Message == "" || s.Message == ready.Message) {
		// A status of another shape says nothing.
		status, _ := u.Object["status"].(map[string]any)
		if words := output.Line(contract.WaitsFor(status, contract.DefaultReadyCondition)); words != "" {
			if wide {
				return words
			}
			return brief.Cut(words, maxWords)
		}
	}
	return output.Line(s.Message)
}

// offerNames are what people call the bound APIs, by the names of the bindings.
func offerNames(bindings []v1alpha1.APIServiceBinding) map[string]string {
	offers := map[string]*v1alpha1.Offer{}
	for _, b := range bindings {
		offers[b.Name] = b.Status.Offer
		if b.Status.Offer == nil && b.Status.Kind != "" {
			// From a control plane that says nothing for people.
			offers[b.Name] = &v1alpha1.Offer{DisplayName: b.Status.Kind}
		}
	}
	names := v1alpha1.DisplayNames(offers)
	for binding, name := range names {
		if names[binding] = output.Line(name); name == binding {
			delete(names, binding)
		}
	}
	return names
}

// decisions lists the claims that wait for one, with the command that shows what
// there is to decide.
func (f found) decisions(t *terminal.Terminal) error {
	var rows [][]string
	for _, c := range f.claims {
		if h := appcluster.StatusOf(&c.object).Hold; h != nil && len(h.Choices) > 0 {
			u := &c.object
			rows = append(rows, []string{"  " + u.GetNamespace() + "/" + u.GetName(), h.Reason,
				fmt.Sprintf("kubectl gitbind resolve %s/%s -n %s", c.binding, u.GetName(), u.GetNamespace())})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(t.Out, "\n"+t.Paint(terminal.Yellow, "Waiting for a decision:"))
	return output.Print(t, output.Columns("  CLAIM", "REASON", "TO DECIDE"), rows, false)
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
		rest := slices.DeleteFunc(slices.Clone(b.Status.Held), func(h v1alpha1.HeldFile) bool { return refused[h.Path] })
		all := b.Status.HeldFiles - (len(b.Status.Held) - len(rest))
		if all <= 0 {
			continue
		}
		fmt.Fprintf(w, "\nFiles on main without an object in this cluster, or with none that can be changed (%s)%s:\n", b.Name, of(len(rest), all))
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

// commit is a commit's hash, or as much of it as git needs to find it.
func commit(hash string, whole bool) string {
	if whole {
		return hash
	}
	return hash[:min(len(hash), 8)]
}
