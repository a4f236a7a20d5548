package apiservicebinding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/breaker"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/memstore"
	"gitbind.dev/konnector/internal/agent/budget"
	"gitbind.dev/konnector/internal/agent/compatibility"
	"gitbind.dev/konnector/internal/agent/controller/claim"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/agent/request"
	"gitbind.dev/konnector/internal/base"
	"gitbind.dev/policies/protection"
	"gitbind.dev/test/fakeapi"
)

// world is a repository that a pool has opened, and a cluster with a CRD and a
// binding.
type world struct {
	*testing.T
	*Reconciler
	remote  *memstore.Remote
	repo    *repository.Repository
	binding *v1alpha1.APIServiceBinding
	crd     *apiextensionsv1.CustomResourceDefinition
	// objects are the claims, forbidden is whether they may be listed.
	objects   []metav1.PartialObjectMetadata
	forbidden bool
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	remote, pool := memstore.New(), repository.NewPool()
	w := &world{T: t, remote: remote, now: time.Now(), crd: postgresql(), binding: &v1alpha1.APIServiceBinding{
		ObjectMeta: metav1.ObjectMeta{Name: binding, UID: "b1"}, Spec: v1alpha1.APIServiceBindingSpec{Connection: "default"},
	}}
	prepare(&w.crd.Spec)
	w.crd.Annotations = map[string]string{v1alpha1.ConnectionAnnotation: "default"}
	w.crd.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.ManagedByKonnector}
	w.repo = pool.Open(t.Context(), repository.Options{
		Remote:     repository.Remote{Main: remote.Branch("main"), Status: remote.Branch("status")},
		Connection: "default", ConnectionUID: "c1", ClusterID: "k3x9d2abqw", Limits: breaker.Default(), Now: time.Now,
		Save: func(context.Context, repository.Checkpoint) error { return nil },
	})
	t.Cleanup(func() { pool.Close("default") })
	c := fakeapi.New(fakeapi.Builder().WithStatusSubresource(w.binding).WithObjects(w.binding, w.crd), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			page, ok := list.(*metav1.PartialObjectMetadataList)
			if !ok {
				return c.List(ctx, list, opts...)
			}
			if w.forbidden {
				return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
			}
			page.Items = w.objects
			return nil
		},
	})
	w.Reconciler = &Reconciler{
		Client: c, Live: c, Pool: pool, Claims: &claim.Controllers{},
		Rewrites: budget.Budget{Most: MaxRewrites, Every: RewriteEvery}, Now: func() time.Time { return w.now },
	}
	return w
}

// adopted is a binding with its finalizer, and with its Connection.
func (w *world) adopted() {
	w.Helper()
	w.binding.Finalizers = []string{v1alpha1.BindingFinalizer}
	if err := errors.Join(
		w.Client.Update(w.Context(), w.binding),
		w.Client.Create(w.Context(), &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Name: "default"}}),
	); err != nil {
		w.Fatal(err)
	}
}

// put writes files to a branch, and removes those with no content.
func (w *world) put(branch string, files map[string]string) {
	w.Helper()
	_, err := w.remote.Branch(branch).Update(w.Context(), store.Edit{
		Author: store.Signature{Name: "Ada", Email: "ada@example.org"}, Subject: "put",
		Apply: func(t *store.Tree) error {
			for path, content := range files {
				if content == "" {
					if err := t.Remove(path); err != nil {
						return err
					}
					continue
				}
				if err := t.Write(path, []byte(content)); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
}

// look is what is known when both branches are as they are on the remote.
func (w *world) look() *look {
	w.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		w.repo.Wake()
		view, err := w.repo.View(w.Context())
		if err == nil && view.Main.Head() == w.remote.Head("main") && view.Status.Head() == w.remote.Head("status") {
			l := &look{binding: w.binding, repo: w.repo, view: view, terms: lastTerms(w.binding)}
			l.facts.Live = &contract.Request{Binding: binding, DeletionPolicy: policy(w.binding)}
			l.readFile()
			l.readAnswer()
			return l
		}
		if time.Since(start) > time.Minute {
			w.Fatalf("not seen: %v", err)
		}
	}
}

func key(i int) contract.Key {
	return contract.Key{Binding: binding, Namespace: "team-a", Name: fmt.Sprint("c", i)}
}

// going are claims that are being deleted, all of them.
type going struct{ n int }

func (g going) Objects(_ context.Context, want func(contract.Key, bool) bool) ([]repository.Object, error) {
	var out []repository.Object
	for i := range g.n {
		if want(key(i), true) {
			out = append(out, repository.Object{Key: key(i), Deleted: time.Now()})
		}
	}
	return out, nil
}

func (going) Read(contract.File) *contract.Claim { return nil }

func TestWhatWasSaidOfOneBindingDoesNotCountForTheNext(t *testing.T) {
	w, files := newWorld(t), map[string]string{}
	for i := range 8 {
		files[key(i).Path()] = fmt.Sprint("plan: ", i)
	}
	w.put("main", files)
	w.look()
	if _, err := w.repo.Removals.Track(t.Context(), binding, going{8}); err != nil {
		t.Fatal(err)
	}
	may := func(i int) bool {
		v, err := w.repo.Removals.Judge(t.Context(), key(i), false)
		if err != nil {
			t.Fatal(err)
		}
		return !v.IsHeld()
	}
	w.repo.Removals.ApproveUnbinding(binding, true)
	if !may(0) {
		t.Error("a person who deletes the binding is asked")
	}
	w.stop(binding)
	if may(1) {
		t.Error("no person was asked about the next one's claims")
	}
}

// Objects of 1.5 MiB each, which anybody in a namespace may have made, must not end the konnector.
func TestH4_FewObjectsAreReadWholeAtOnce(t *testing.T) {
	w, most := newWorld(t), int64(0)
	w.Live = interceptor.NewClient(w.Live.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			if o.ApplyOptions(opts); o.Limit == 0 {
				o.Limit = math.MaxInt64
			}
			most = max(most, o.Limit)
			return nil
		},
	})
	l := w.look()
	l.crd = w.crd
	if err := w.findUnsaved(t.Context(), l); err != nil || most == 0 || most > 20 {
		t.Errorf("%d are read at once, %v", most, err)
	}
}

const asked = "apiVersion: gitbind.dev/v1alpha1\nkind: APIServiceExportRequest\nmetadata: {name: " + binding + "}\nspec: {}\n"

func TestAStrayFileBesideTheClaimsIsNoClaim(t *testing.T) {
	w := newWorld(t)
	stray := contract.ClaimsPath(binding) + "/.gitkeep"
	w.put("main", map[string]string{contract.RequestPath(binding): asked, stray: " "})
	l := w.look()
	if used, err := w.inUse(t.Context(), l, w.crd); err != nil || used {
		t.Errorf("in use: %v, %v", used, err)
	}
	if err := w.removeRequest(t.Context(), l); err != nil {
		t.Error(err)
	}
	l = w.look()
	if _, there := l.view.Main.Entry(stray); l.file != nil || !there {
		t.Errorf("the request: %v, the stray file: %v", l.file, there)
	}
}

func TestClaimsThatMayNotBeListedMayBeThere(t *testing.T) {
	for _, missing := range []*notReady{nil, {}} {
		for _, kind := range []string{"", "PostgresqlInstance"} {
			for _, forbidden := range []bool{false, true} {
				w := newWorld(t)
				l := w.look()
				l.missing, w.forbidden, w.binding.Status.Kind = missing, forbidden, kind
				if err := w.count(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if want := forbidden && kind != ""; l.facts.Unseen != want {
					t.Errorf("kind %q, forbidden %v: unseen is %v", kind, forbidden, l.facts.Unseen)
				}
			}
		}
	}
}

func TestWhatAnAnswerSays(t *testing.T) {
	orphan := asked[:len(asked)-len("{}\n")] + "{deletionPolicy: Orphan}\n"
	counts := map[string]any{"deletionPolicy": "Orphan"}
	for _, c := range []struct {
		name           string
		file           string
		status         contract.Status
		blob           bool
		answered, held bool
	}{
		{"it counts", orphan, contract.Status{Result: contract.Applied, Status: counts}, true, true, false},
		{"it is refused, and does not count", orphan, contract.Status{Result: contract.Denied, Status: map[string]any{"deletionPolicy": "Refuse"}}, true, false, false},
		{"it is of another file", orphan, contract.Status{Result: contract.Applied, Status: counts}, false, false, false},
		{"the API is kept", "", contract.Status{Result: contract.Held}, false, false, true},
		{"the API is held as it was before the file went", "", contract.Status{Result: contract.Held}, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			files := map[string]string{"README.md": "x"}
			if c.file != "" {
				files[contract.RequestPath(binding)] = c.file
			}
			w.put("main", files)
			s := c.status
			s.Metadata.Name = binding
			if c.blob {
				s.Answers.Blob = "1111111111111111111111111111111111111111"
				if l := w.look(); l.file != nil {
					s.Answers.Blob = string(l.file.Hash)
				}
			}
			data, err := contract.EncodeStatus(&s)
			if err != nil {
				t.Fatal(err)
			}
			w.put("status", map[string]string{contract.RequestPath(binding): string(data)})
			if l := w.look(); l.facts.Answered != c.answered || l.facts.Held != c.held {
				t.Errorf("answered %v, held %v: %+v", l.facts.Answered, l.facts.Held, l.answer)
			}
		})
	}
}

// As long as request.yaml cannot be taken off main, claims are kept in step, also after a
// restart; once it is off, they are not.
func TestClaimsGoOnWhileTheHostRefusesTheRemovalOfTheRequest(t *testing.T) {
	t.Parallel()
	for name, no := range map[string]error{"no route": errors.New("no route"), "a rule": fmt.Errorf("%w: protected", store.ErrRejected)} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", restarted: ", restarted), func(t *testing.T) {
				w := newWorld(t)
				w.granted(nil)
				if _, _, err := w.bind(t.Context(), w.look()); err != nil || !w.isRunning() {
					t.Fatal(err)
				}
				if restarted {
					w.Claims.Stop(binding)
				}
				l := w.ending(request.RemoveRequest)
				w.remote.SetFault(func(c memstore.Call) error {
					if c.Op == memstore.Push {
						return no
					}
					return nil
				})
				result, err := w.unbind(t.Context(), l)
				if err != nil || result.RequeueAfter != unsentWait || !w.isRunning() {
					t.Errorf("%+v, %v, claims go on: %v", result, err, w.isRunning())
				}
				if c := w.ready(); c.Reason != "ConnectionNotReady" || c.Message != l.waitsFor().message {
					t.Errorf("it says %s: %s", c.Reason, c.Message)
				}
				granted := meta.FindStatusCondition(w.live().Status.Conditions, v1alpha1.ConditionGranted)
				if granted == nil || !strings.Contains(granted.Message, "is still on main: ") {
					t.Errorf("of the request it says %+v", granted)
				}
				w.remote.SetFault(nil)
				w.binding = w.live()
				if result, err = w.unbind(t.Context(), w.ending(request.RemoveRequest)); err != nil || result.RequeueAfter != again || w.isRunning() {
					t.Errorf("when it is taken: %+v, %v, claims go on: %v", result, err, w.isRunning())
				}
				if w.look().file != nil {
					t.Error("the request is there")
				}
			})
		}
	}
}

func TestAnObjectIsSaved(t *testing.T) {
	object := func(change func(*unstructured.Unstructured, *base.Base)) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "anynines.com/v1", "kind": "PostgresqlInstance", "spec": map[string]any{}}}
		u.SetName("orders")
		u.SetNamespace("team-a")
		u.SetUID("u1")
		u.SetGeneration(2)
		u.SetFinalizers([]string{v1alpha1.Finalizer})
		b := &base.Base{UID: "u1", Blob: "f1", Generation: 2, Claim: contract.FromObject(u)}
		change(u, b)
		data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		annotations := map[string]string{v1alpha1.BaseAnnotation: data}
		maps.Copy(annotations, u.GetAnnotations())
		u.SetAnnotations(annotations)
		return u
	}
	deletedInReview := func(u *unstructured.Unstructured, _ *base.Base) {
		u.SetDeletionTimestamp(new(metav1.Now()))
		u.SetAnnotations(map[string]string{v1alpha1.ProposalAnnotation: "{}"})
	}
	file := store.Entry{Hash: "f1"}
	for _, c := range []struct {
		name   string
		change func(*unstructured.Unstructured, *base.Base)
		gone   bool
		want   bool
	}{
		{"in step", func(*unstructured.Unstructured, *base.Base) {}, false, true},
		{"it has no file", func(*unstructured.Unstructured, *base.Base) {}, true, false},
		{"edited", func(u *unstructured.Unstructured, _ *base.Base) { u.SetGeneration(3) }, false, false},
		{"labelled", func(u *unstructured.Unstructured, _ *base.Base) { u.SetLabels(map[string]string{"team": "a"}) }, false, false},
		{"labelled by others, H9", func(u *unstructured.Unstructured, b *base.Base) {
			u.SetLabels(map[string]string{"sidecar.istio.io/inject": "true"})
			b.Claim.Annotations = map[string]string{"policies.kyverno.io/x": "of before"}
		}, false, true},
		{"the file is another", func(_ *unstructured.Unstructured, b *base.Base) { b.Blob = "f0" }, false, false},
		{"it is another's base", func(_ *unstructured.Unstructured, b *base.Base) { b.UID = "u0" }, false, false},
		{"it is let go of", func(u *unstructured.Unstructured, b *base.Base) { u.SetFinalizers(nil); b.UID = "" }, false, true},
		{"it is being deleted", func(u *unstructured.Unstructured, _ *base.Base) { u.SetDeletionTimestamp(new(metav1.Now())) }, true, true},
		{"its delete is in review", deletedInReview, false, false},
		{"what was ordered is in review, and is withdrawn", deletedInReview, true, false},
		{"its delete is in review, and it is let go of", func(u *unstructured.Unstructured, b *base.Base) {
			deletedInReview(u, b)
			u.SetFinalizers(nil)
		}, false, true},
	} {
		if got := saved(object(c.change), file, !c.gone, nil); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestMarksOfAnUnbindThatWasNotCarriedThroughGo(t *testing.T) {
	for _, updates := range []v1alpha1.SchemaUpdates{v1alpha1.SchemaUpdatesAlways, v1alpha1.SchemaUpdatesNever} {
		w := newWorld(t)
		w.binding.Spec.SchemaUpdates = updates
		want := w.crd.DeepCopy()
		if updates == v1alpha1.SchemaUpdatesNever {
			want.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "newer"
		}
		l := &look{binding: w.binding}
		w.crd.Annotations[protection.AllowAnnotation] = "true"
		if next, _, err := w.next(t.Context(), l, w.crd, want); err != nil || next != nil {
			t.Errorf("what a person allowed is taken back: %v, %v", next, err)
		}
		w.crd.Annotations[unboundAnnotation] = "an earlier one"
		next, _, err := w.next(t.Context(), l, w.crd, want)
		if err != nil || next == nil {
			t.Fatalf("%s: %v, %v", updates, next, err)
		}
		if len(next.Annotations) != 1 || !compatibility.Same(next.Spec, w.crd.Spec) {
			t.Errorf("%s: %+v", updates, next.Annotations)
		}
	}
}

func TestClaimsAreCountedMoreSeldomInALongUnbind(t *testing.T) {
	for begun, want := range map[time.Duration]time.Duration{
		-time.Second: countWait, 0: countWait, time.Minute: countWait, 12 * time.Minute: time.Minute, 24 * time.Hour: maxCountWait,
	} {
		if got := untilCount(begun); got != want {
			t.Errorf("after %s: %s, want %s", begun, got, want)
		}
	}
}

// An API that is bound again before the garbage collector took what the earlier
// binding was given keeps the rights that the person who bound it found there.
func TestRightsThatWereOnTheirWayOutAreKept(t *testing.T) {
	name := metav1.ObjectMeta{Name: "gitbind:api:" + binding}
	other := metav1.OwnerReference{APIVersion: "example.org/v1", Kind: "APIServiceBinding", Name: binding, UID: "x1"}
	going := &v1alpha1.APIServiceBinding{ObjectMeta: metav1.ObjectMeta{Name: binding, UID: "b0"}}
	for what, bound := range map[string]func(w *world) error{
		"by a new binding": func(w *world) error {
			return w.agreeOn(w.Context(), &look{binding: w.binding, action: request.Adopt})
		},
		"by a file that came back before the binding went": func(w *world) error {
			w.binding.Finalizers = []string{v1alpha1.BindingFinalizer}
			if err := w.Client.Update(w.Context(), w.binding); err != nil {
				return err
			}
			return w.agreeOn(w.Context(), &look{binding: w.binding, action: request.Release})
		},
		"by a file that came back after it": func(w *world) error {
			if err := w.Client.Delete(w.Context(), w.binding); err != nil {
				return err
			}
			w.put("main", map[string]string{contract.RequestPath(binding): asked})
			w.look()
			return w.create(w.Context(), binding)
		},
		"without a role": func(w *world) error {
			if err := w.Client.Delete(w.Context(), &rbacv1.ClusterRole{ObjectMeta: name}); err != nil {
				return err
			}
			return w.agreeOn(w.Context(), &look{binding: w.binding, action: request.Adopt})
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.Recorder = events.NewFakeRecorder(1)
			rights := []client.Object{&rbacv1.ClusterRole{ObjectMeta: name}, &rbacv1.ClusterRoleBinding{ObjectMeta: name}}
			for _, o := range rights {
				if err := w.Client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if left, err := w.removeRights(t.Context(), going); err != nil || len(left) > 0 {
				t.Fatalf("%v, %v", left, err)
			}
			for _, o := range rights {
				if err := w.Live.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || len(o.GetOwnerReferences()) != 1 {
					t.Fatalf("%T: %v, %v", o, o.GetOwnerReferences(), err)
				}
				o.SetOwnerReferences(append(o.GetOwnerReferences(), other))
				if err := w.Client.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if err := bound(w); err != nil {
				t.Fatal(err)
			}
			for _, o := range rights {
				err := w.Live.Get(t.Context(), client.ObjectKeyFromObject(o), o)
				if apierrors.IsNotFound(err) && what == "without a role" {
					continue
				}
				if owners := o.GetOwnerReferences(); err != nil || len(owners) != 1 || owners[0] != other {
					t.Errorf("%T is owned by %v: %v", o, owners, err)
				}
			}
		})
	}
}
