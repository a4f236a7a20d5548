package apiservicebinding

import (
	"context"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/konnector/internal/agent/request"
)

// Who changed a binding is the author of what is committed for it, and of nothing
// that is committed later.
func TestWhoAsksForAnAPIIsTheAuthor(t *testing.T) {
	asksFor := &contract.Request{Binding: binding, DeletionPolicy: contract.Refuse}
	for _, c := range []struct {
		name, users string
		// meanwhile changes the binding after the push.
		meanwhile func(*v1alpha1.APIServiceBinding)
		authors   []string
		left      string
	}{
		{"one", "alice", nil, []string{"alice"}, ""},
		{"several", "alice\nbob", nil, []string{"alice", "bob"}, ""},
		{"nobody is known", "", nil, []string{contract.UnknownUser}, ""},
		{"another changed it meanwhile", "alice", func(b *v1alpha1.APIServiceBinding) {
			b.Spec.Template, b.Annotations[v1alpha1.ChangedByAnnotation] = "big", "alice\nbob"
		}, []string{"alice"}, "bob"},
		{"the same changed it meanwhile", "alice", func(b *v1alpha1.APIServiceBinding) { b.Spec.Template = "big" }, []string{"alice"}, "alice"},
		{"something else of it was changed meanwhile", "alice", func(b *v1alpha1.APIServiceBinding) { b.Spec.Writer = v1alpha1.WriterGit }, []string{"alice"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.put("main", map[string]string{"README.md": "x"})
			if c.users != "" {
				w.binding.Annotations = map[string]string{v1alpha1.ChangedByAnnotation: c.users, "example.com/note": "x"}
			}
			if err := w.Client.Update(t.Context(), w.binding); err != nil {
				t.Fatal(err)
			}
			l := w.look()
			l.facts.Live, l.action = asksFor, request.Commit
			api := w.Client.(client.WithWatch)
			w.Client = interceptor.NewClient(api, interceptor.Funcs{
				Patch: func(ctx context.Context, under client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if c.meanwhile == nil {
						return under.Patch(ctx, o, p, opts...)
					}
					b := &v1alpha1.APIServiceBinding{}
					if err := under.Get(ctx, client.ObjectKeyFromObject(o), b); err != nil {
						return err
					}
					c.meanwhile(b)
					c.meanwhile = nil
					if err := under.Update(ctx, b); err != nil {
						return err
					}
					return apierrors.NewConflict(schema.GroupResource{}, b.Name, nil)
				},
			})
			if err := w.agreeOn(t.Context(), l); err != nil || l.trouble != nil {
				t.Fatal(err, l.trouble)
			}
			b := &v1alpha1.APIServiceBinding{}
			if err := w.Live.Get(t.Context(), client.ObjectKey{Name: binding}, b); err != nil {
				t.Fatal(err)
			}
			if got := b.Annotations[v1alpha1.ChangedByAnnotation]; got != c.left || b.Status.Request == nil || b.Status.Request.Blob == "" {
				t.Errorf("changed by %q, agreed on %+v", got, b.Status.Request)
			}
			if c.users != "" && b.Annotations["example.com/note"] != "x" {
				t.Errorf("it lost %v", b.Annotations)
			}
			if got := w.authors(); !slices.Equal(got, c.authors) {
				t.Errorf("the authors are %v, want %v", got, c.authors)
			}
		})
	}
}

// authors are those of the newest commit on main.
func (w *world) authors() []string {
	w.Helper()
	c := w.remote.History("main")[0]
	authors := []string{c.Author.Name}
	for line := range strings.Lines(c.Message) {
		if name, ok := strings.CutPrefix(line, "Co-authored-by: "); ok {
			name, _, _ = strings.Cut(name, " <")
			authors = append(authors, name)
		}
	}
	return authors
}

// A change that the file has already, or that it wins over, is not committed.
func TestWhoseChangeIsNotCommittedIsNoAuthorLater(t *testing.T) {
	for action, file := range map[request.Action]*contract.Request{
		request.Record: {Binding: binding, DeletionPolicy: contract.Refuse},
		request.Write:  {Binding: binding, DeletionPolicy: contract.Orphan},
	} {
		w := newWorld(t)
		w.put("main", map[string]string{contract.RequestPath(binding): asked})
		w.binding.Annotations = map[string]string{v1alpha1.ChangedByAnnotation: "alice\nbob"}
		if err := w.Client.Update(t.Context(), w.binding); err != nil {
			t.Fatal(err)
		}
		l := w.look()
		l.facts.File, l.action = file, action
		if err := w.agreeOn(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		b := &v1alpha1.APIServiceBinding{}
		if err := w.Live.Get(t.Context(), client.ObjectKey{Name: binding}, b); err != nil || len(b.Annotations) > 0 || b.Status.Request == nil {
			t.Errorf("%s: %v, %+v", action, err, b)
		}
	}
}
