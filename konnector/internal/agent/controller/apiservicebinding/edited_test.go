package apiservicebinding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/request"
)

var errCut = errors.New("the line is cut")

// says is the file on main with a deletion policy.
func says(policy contract.DeletionPolicy) string {
	data, _ := contract.EncodeRequest(contract.Request{Binding: binding, DeletionPolicy: policy})
	return string(data)
}

// live is the binding as the API server has it.
func (w *world) live() *v1alpha1.APIServiceBinding {
	w.Helper()
	b := &v1alpha1.APIServiceBinding{}
	if err := w.Live.Get(w.Context(), client.ObjectKey{Name: binding}, b); err != nil {
		w.Fatal(err)
	}
	return b
}

func (w *world) setPolicy(policy contract.DeletionPolicy) {
	w.Helper()
	b := w.live()
	b.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(policy)
	if err := w.Live.(client.Client).Update(w.Context(), b); err != nil {
		w.Fatal(err)
	}
}

// onMain reports whether the file on main has a deletion policy.
func (w *world) onMain(policy contract.DeletionPolicy) bool {
	w.Helper()
	l := w.look()
	return l.facts.File != nil && l.facts.File.DeletionPolicy == policy
}

// asks is a binding in step with its file, or a new one; both refuse.
func (w *world) asks(isNew bool) {
	w.Helper()
	w.adopted()
	files := map[string]string{"README.md": "x"}
	if !isNew {
		files[contract.RequestPath(binding)] = says(contract.Refuse)
	}
	w.put("main", files)
	w.look()
	if isNew {
		return
	}
	if _, err := w.agree(w.Context(), w.live()); err != nil {
		w.Fatal(err)
	}
}

// An edit that comes while the one before is pushed is not taken back for it.
func TestAnEditAfterAPushStays(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]func(w *world) error{
		"the binding was edited before the base was recorded": func(w *world) error {
			w.setPolicy(contract.Orphan)
			return apierrors.NewConflict(schema.GroupResource{}, binding, nil)
		},
		"the process ended before the base was recorded": func(*world) error { return context.Canceled },
	} {
		for _, isNew := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", new: ", isNew), func(t *testing.T) {
				w, status := newWorld(t), status
				w.asks(isNew)
				w.setPolicy(contract.Delete)
				w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						if status != nil && w.onMain(contract.Delete) {
							answer := status
							status = nil
							return answer(w)
						}
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				})
				_, err := w.agree(t.Context(), w.live())
				if errors.Is(err, context.Canceled) {
					w.setPolicy(contract.Orphan)
				}
				w.settles(contract.Orphan)
			})
		}
	}
}

// The same where the answer to a push is lost.
func TestAnEditAfterALostAnswerStays(t *testing.T) {
	t.Parallel()
	for _, isNew := range []bool{false, true} {
		w := newWorld(t)
		w.asks(isNew)
		w.setPolicy(contract.Delete)
		w.remote.CutAfterPush(errCut)
		_, _ = w.agree(t.Context(), w.live())
		w.remote.SetFault(nil)
		if !w.onMain(contract.Delete) {
			t.Fatal("it was not pushed")
		}
		w.setPolicy(contract.Orphan)
		w.settles(contract.Orphan)
	}
}

// And where main is not known by then.
func TestAnEditDuringAnOutageStaysAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for _, then := range []contract.DeletionPolicy{contract.Refuse, contract.Orphan} {
		w := newWorld(t)
		w.asks(false)
		w.setPolicy(contract.Delete)
		w.remote.CutAfterPush(errCut)
		_, _ = w.agree(t.Context(), w.live())
		w.setPolicy(then)
		if l, err := w.agree(t.Context(), w.live()); err != nil || l.trouble == nil {
			t.Errorf("%s is agreed on: %v, %+v", then, err, w.live().Status.Request)
		}
		w.remote.SetFault(nil)
		w.settles(then)
	}
}

// A binding that is deleted is not let go of while its request may have come to main.
func TestABindingWhoseRequestHadNoAnswerIsTakenBackWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks(true)
	w.remote.CutAfterPush(errCut)
	_, _ = w.agree(t.Context(), w.live())
	if err := w.Live.(client.Client).Delete(t.Context(), w.live()); err != nil {
		t.Fatal(err)
	}
	l, err := w.lookAt(t.Context(), w.live())
	if err != nil || l.action != request.TakeBack {
		t.Fatalf("%s, %v", l.action, err)
	}
	if _, err := w.unbind(t.Context(), l); err != nil || len(w.live().Finalizers) == 0 {
		t.Errorf("while main is not known: %v, %v", err, w.live().Finalizers)
	}
	w.remote.SetFault(nil)
	l.trouble = nil
	if _, err := w.unbind(t.Context(), l); !errors.Is(err, errMoved) || len(w.live().Finalizers) == 0 {
		t.Errorf("main has it: %v, %v", err, w.live().Finalizers)
	}
}

// settles wants binding and file to agree on a policy after two rounds.
func (w *world) settles(policy contract.DeletionPolicy) {
	w.Helper()
	for range 2 {
		w.look()
		if _, err := w.agree(w.Context(), w.live()); err != nil {
			w.Logf("agree: %v", err)
		}
	}
	b := w.live()
	if contract.DeletionPolicy(b.Spec.DeletionPolicy) != policy || !w.onMain(policy) {
		data, _ := w.look().view.Main.Read(contract.RequestPath(binding))
		w.Errorf("the binding says %s, the file %s, agreed on %+v", b.Spec.DeletionPolicy, strings.TrimSpace(string(data)), b.Status.Request)
	}
}

// What the status notes as being pushed is what both agreed on, and no other file is.
func TestAFileThatWasBeingPushedIsTheBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		pushing contract.DeletionPolicy
		change  func(*v1alpha1.RequestStatus)
		want    request.Action
	}{
		{"it was pushed", contract.Delete, nil, request.Commit},
		{"something else was pushed", contract.Refuse, nil, request.Write},
		{"it was pushed under another Connection", contract.Delete, func(r *v1alpha1.RequestStatus) { r.ConnectionUID = "c0" }, request.Write},
		{"nothing was agreed on before", contract.Delete, func(r *v1alpha1.RequestStatus) { r.Blob, r.Commit = "", "" }, request.Commit},
		{"the file went before, and came back by it", contract.Delete, func(r *v1alpha1.RequestStatus) { r.Removed = true }, request.Commit},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.asks(false)
			w.put("main", map[string]string{contract.RequestPath(binding): says(contract.Delete)})
			w.look()
			b := w.live()
			b.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(contract.Orphan)
			b.Status.Request.Pushing = string(store.BlobHash([]byte(says(c.pushing))))
			if c.change != nil {
				c.change(b.Status.Request)
			}
			if l, err := w.lookAt(t.Context(), b); err != nil || l.action != c.want {
				t.Errorf("%s, %v, want %s", l.action, err, c.want)
			}
		})
	}
}

// A file that went, and came back as it was once pushed, came back by somebody else.
func TestAFileThatCameBackIsNotThePushBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks(false)
	b := w.live()
	b.Status.Request.Pushing = "p1"
	if err := w.recordRemoved(t.Context(), b); err != nil || !b.Status.Request.Removed || b.Status.Request.Pushing != "" {
		t.Errorf("%+v, %v", b.Status.Request, err)
	}
}

// A push that never came to Git does not make others' edits of the file ours.
func TestAnEditOfTheFileStaysAfterAPushThatFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.asks(false)
	w.setPolicy(contract.Delete)
	w.remote.SetFault(func(c memstore.Call) error {
		if c.Op == memstore.Push {
			return errors.New("no route")
		}
		return nil
	})
	_, _ = w.agree(t.Context(), w.live())
	w.remote.SetFault(nil)
	// Somebody takes it back, and only later another one wants it, in Git.
	w.setPolicy(contract.Refuse)
	w.settles(contract.Refuse)
	w.put("main", map[string]string{contract.RequestPath(binding): says(contract.Delete)})
	w.settles(contract.Delete)
}
