package approve

import (
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/konnector/internal/cli/appcluster"
	"gitbind.dev/konnector/internal/cli/output"
)

const recreateAnnotation = v1alpha1.RecreateEmptyAnnotation

// holder is a Connection, an APIServiceBinding or a ClusterBinding, and what is
// held there.
type holder struct {
	// Holder names it for people, Name is the object's.
	Holder string `json:"holder"`
	Name   string `json:"name"`
	// Main says why main does not count; "" when it does.
	Main string `json:"main,omitempty"`
	// RemovalsHeld says that removals wait, and Message why; Removals lists them,
	// as far as they can be seen.
	RemovalsHeld bool   `json:"removalsHeld,omitempty"`
	Message      string `json:"message,omitempty"`
	Removals     []Item `json:"removals,omitempty"`
	// AllLost says why nothing at all is done: many services are missing on the
	// control plane. Lost are those that were answered as lost one by one.
	AllLost string `json:"allLost,omitempty"`
	Lost    []Item `json:"lost,omitempty"`
	// Schema says why a newer definition of an API is not installed; "" when it is.
	Schema string `json:"schema,omitempty"`
	// Note says what could not be seen.
	Note string `json:"note,omitempty"`

	kind string
	// connection is that of a binding.
	connection string
	// applied are the paths of the claims that were applied once.
	applied []string
}

// Item is one claim that waits.
type Item struct {
	Claim  string `json:"claim"`
	Path   string `json:"path"`
	Reason string `json:"reason,omitempty"`
	// Commit is main's head when the bridge noticed that the file is gone.
	Commit  string `json:"commit,omitempty"`
	Message string `json:"message"`
}

func (h *holder) gvk() schema.GroupVersionKind {
	return v1alpha1.GroupVersion.WithKind(h.kind)
}

// lost are the claims at a path, or in a folder, that may be made again.
func (h *holder) lost(path string) []string {
	var out []string
	add := func(p string) {
		if includes(path, p) {
			out = append(out, p)
		}
	}
	if h.AllLost != "" {
		for _, p := range h.applied {
			add(p)
		}
		return out
	}
	for _, i := range h.Lost {
		add(i.Path)
	}
	return out
}

// includes reports whether a path, or the folder at it, includes that of a claim or of a folder.
func includes(path, p string) bool {
	return strings.HasPrefix(strings.TrimSuffix(p, "/")+"/", strings.TrimSuffix(path, "/")+"/")
}

func (h *holder) waits() bool {
	return h.Main != "" || h.RemovalsHeld || h.AllLost != "" || h.Schema != "" || len(h.Lost) > 0
}

// list prints what waits, and with each the words of who holds it: they say what
// to type.
func list(w io.Writer, all []*holder) error {
	printed := 0
	for _, h := range all {
		if !h.waits() && h.Note == "" {
			continue
		}
		if printed++; printed > 1 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s:\n", h.Holder)
		if h.Main != "" {
			fmt.Fprintf(w, "  main: %s\n", output.Line(h.Main))
		}
		if h.Schema != "" {
			fmt.Fprintf(w, "  schema: %s\n", output.Line(h.Schema))
		}
		if h.RemovalsHeld {
			fmt.Fprintln(w, strings.TrimRight("  removals: "+output.Line(h.Message), " "))
			items(w, h.Removals)
		}
		if h.AllLost != "" {
			fmt.Fprintf(w, "  services: %s\n", output.Line(h.AllLost))
		}
		if len(h.Lost) > 0 {
			fmt.Fprintln(w, "  lost services:")
			items(w, h.Lost)
		}
		if h.Note != "" {
			fmt.Fprintf(w, "  (%s)\n", output.Line(h.Note))
		}
	}
	if printed > 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "Nothing waits for an approval.")
	return err
}

func items(w io.Writer, items []Item) {
	for _, i := range items {
		fmt.Fprintf(w, "    %s: %s\n", i.Claim, output.Line(i.Message))
	}
}

// until is for waiting for what becomes of the approval that was written with a
// resourceVersion: it is acted on, or instead is what somebody else approved in its place,
// which the agent acts on then.
func (c chosen) until(written string, instead *string) appcluster.Is {
	return func(u *unstructured.Unstructured) (bool, *metav1.Condition) {
		if u != nil {
			// The first one that is seen may be older.
			if order, err := resourceversion.CompareResourceVersion(u.GetResourceVersion(), written); err == nil && order < 0 {
				return false, nil
			}
		}
		done := c.done(u)
		if !done && u != nil {
			*instead = c.replacement(u)
		}
		return done || *instead != "", nil
	}
}

// replacement is what an annotation says in the place of what was approved, "" for nothing. Paths
// are approved beside others.
func (c chosen) replacement(u *unstructured.Unstructured) string {
	for annotation, value := range c.annotations {
		if now := u.GetAnnotations()[annotation]; annotation != recreateAnnotation && now != "" && now != value {
			return now
		}
	}
	return ""
}

// done reports whether the approval was acted on.
func (c chosen) done(u *unstructured.Unstructured) bool {
	switch {
	case u == nil:
		return false
	case c.kind == bindingKind:
		return doneFor(u)
	case c.kind == "Connection":
		return c.doneIn(u)
	}
	return c.doneOn(u)
}
