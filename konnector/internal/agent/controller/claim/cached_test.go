package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/konnector/internal/agent/repository"
	"gitbind.dev/konnector/internal/base"
)

// agreedObject is an object as the API server has it once all is done for it.
func agreedObject(tb testing.TB, i int) *unstructured.Unstructured {
	tb.Helper()
	name, uid := fmt.Sprintf("orders-%06d", i), types.UID(fmt.Sprintf("%08d-c4bb-4f1c-8ffd-1f2e3d4c5b6a", i))
	claim := &contract.Claim{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance", Namespace: "team-a", Name: name,
		Labels: map[string]string{"app.kubernetes.io/part-of": "shop"}, Annotations: map[string]string{"example.org/owner": "the team that takes the orders, floor 3, phone 4711"},
		Spec: map[string]any{
			"service": "a9s-postgresql13", "plan": "postgresql-single-nano", "expose": "Internal <here>", "acceptsIncomplete": true,
			"parameters": map[string]any{"maxConnections": int64(120), "ratio": 0.5, "logStatement": "ddl"},
		},
	}
	b := base.Base{
		UID: uid, Connection: "1b2d3c4d-c4bb-4f1c-8ffd-1f2e3d4c5b6a", Commit: fmt.Sprintf("%040d", i/20), Blob: fmt.Sprintf("%040d", i),
		Generation: 1, Claim: claim,
	}
	value, err := b.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	u := claim.Object()
	u.SetUID(uid)
	u.SetResourceVersion(strconv.Itoa(1000 + i))
	u.SetGeneration(1)
	u.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	u.SetFinalizers([]string{v1alpha1.Finalizer})
	annotate(u, v1alpha1.BaseAnnotation, value)
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl-client-side-apply", Operation: "Update", APIVersion: "anynines.com/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{".":{},"f:example.org/owner":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}},"f:labels":{".":{},"f:app.kubernetes.io/part-of":{}}},"f:spec":{".":{},"f:acceptsIncomplete":{},"f:expose":{},"f:parameters":{".":{},"f:logStatement":{},"f:maxConnections":{},"f:ratio":{}},"f:plan":{},"f:service":{}}}`)}},
		{Manager: string(fieldOwner), Operation: "Update", APIVersion: "anynines.com/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:annotations":{"f:gitbind.dev/base":{}},"f:finalizers":{".":{},"v:\"gitbind.dev/claim\"":{}}}}`)}},
		{Manager: string(fieldOwner), Operation: "Update", APIVersion: "anynines.com/v1", FieldsType: "FieldsV1", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)}},
	})
	conditions := func(reasons map[string]string) (all []any) {
		for _, kind := range []string{conditionCommitted, conditionApplied, conditionReady, conditionHeld, conditionConflict} {
			if reason, ok := reasons[kind]; ok {
				status := "True"
				if reason == "None" {
					status = "False"
				}
				all = append(all, condition{kind: kind, status: status, reason: reason}.object(1))
			}
		}
		return all
	}
	u.Object["status"] = map[string]any{
		"managed":    map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)},
		"conditions": conditions(map[string]string{"Ready": "Available"}),
		"gitbind": map[string]any{
			"uid": string(uid), "commit": b.Commit, "message": "",
			"conditions": conditions(map[string]string{"Committed": "Committed", "Applied": "Applied", "Ready": "Available", "Held": "None", "Conflict": "None"}),
		},
	}
	return u
}

func annotate(u *unstructured.Unstructured, key, value string) {
	a := u.GetAnnotations()
	a[key] = value
	u.SetAnnotations(a)
}

// writtenBy says who wrote some fields.
func writtenBy(u *unstructured.Unstructured, manager, fields string) {
	u.SetManagedFields(append(u.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: manager, Operation: "Update", APIVersion: "anynines.com/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}))
}

// setCondition changes one of our conditions.
func setCondition(u *unstructured.Unstructured, kind, status, reason string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "gitbind", "conditions")
	for i := range list {
		if c := list[i].(map[string]any); c["type"] == kind {
			c["status"], c["reason"] = status, reason
		}
	}
	_ = unstructured.SetNestedSlice(u.Object, list, "status", "gitbind", "conditions")
}

func rebase(t *testing.T, u *unstructured.Unstructured, change func(*base.Base)) {
	t.Helper()
	b := base.Read(u)
	change(b)
	value, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	annotate(u, v1alpha1.BaseAnnotation, value)
}

func decoded(tb testing.TB, u *unstructured.Unstructured) *cachedClaim {
	tb.Helper()
	return informerstest.Decoded[*cachedClaim](tb, u, decodeClaim)
}

// What the cache keeps leads to the same decisions as the object itself.
func TestTheCacheKeepsWhatDecisionsNeed(t *testing.T) {
	api, err := NewAPI(postgresql(), &repository.Repository{Options: repository.Options{ConnectionUID: "another"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &reconciler{}
	facts := func(t *testing.T, keys contract.Keys, in input) (decision.Facts, string) {
		api := api.WithKeys(keys)
		l := &look{api: &api, key: key, object: in.object, reduced: in.reduced}
		if err := r.lookAtObject(t.Context(), l, in); err != nil {
			t.Fatal(err)
		}
		return l.facts, l.object.GetResourceVersion()
	}
	listed := contract.Keys{"example.org/", "example.net/"}
	// Who wrote what travels by a longer list, is for the API server to say.
	isIncomplete := func(t *testing.T, in input) bool {
		api := api.WithKeys(listed)
		return errors.Is(r.lookAtObject(t.Context(), &look{api: &api, key: key, object: in.object, reduced: in.reduced}, in), errIncomplete)
	}
	mayBeListed := []string{"an annotation that may be listed", "a label that may be listed"}
	for _, tc := range []struct {
		name    string
		change  func(t *testing.T, u *unstructured.Unstructured)
		reduced bool
	}{
		{"all is done", func(*testing.T, *unstructured.Unstructured) {}, true},
		{"an annotation that does not travel", func(_ *testing.T, u *unstructured.Unstructured) {
			annotate(u, "kubectl.kubernetes.io/last-applied-configuration", "{}")
		}, true},
		{"an annotation that may be listed", func(_ *testing.T, u *unstructured.Unstructured) {
			annotate(u, "example.net/tier", "gold")
			writtenBy(u, "kubectl-annotate", `{"f:metadata":{"f:annotations":{"f:example.net/tier":{}}}}`)
		}, true},
		{"a label that may be listed", func(_ *testing.T, u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"app.kubernetes.io/part-of": "shop", "example.net/tier": "gold"})
			writtenBy(u, "kubectl-label", `{"f:metadata":{"f:labels":{"f:example.net/tier":{}}}}`)
		}, true},
		{"a label more", func(_ *testing.T, u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"app.kubernetes.io/part-of": "shop", "tier": "gold"})
			writtenBy(u, "kubectl-label", `{"f:metadata":{"f:labels":{"f:tier":{}}}}`)
		}, false},
		{"stamped as the konnector wrote it", func(_ *testing.T, u *unstructured.Unstructured) {
			annotate(u, "example.net/tier", "gold")
			writtenBy(u, "a-webhook", `{"f:metadata":{"f:annotations":{"f:example.net/tier":{}}}}`)
			_ = unstructured.SetNestedField(u.Object, "3f1c", "status", "gitbind", "taken")
		}, false},
		{"another finalizer", func(_ *testing.T, u *unstructured.Unstructured) { u.SetFinalizers([]string{"x/y", v1alpha1.Finalizer}) }, true},
		{"edited and back again", func(_ *testing.T, u *unstructured.Unstructured) { u.SetGeneration(3) }, true},
		{"made from a file", func(t *testing.T, u *unstructured.Unstructured) { rebase(t, u, func(b *base.Base) { b.UID = "" }) }, true},
		{"a conflict was lost and is over", func(t *testing.T, u *unstructured.Unstructured) {
			rebase(t, u, func(b *base.Base) { b.Lost = lostConflict })
		}, true},
		{"the service is not ready", func(_ *testing.T, u *unstructured.Unstructured) { setCondition(u, "Ready", "False", "Creating") }, true},
		{"the spec was edited", func(_ *testing.T, u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "big", "spec", "plan")
		}, false},
		{"a default came with a definition", func(_ *testing.T, u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "", "spec", "parameters", "tier")
		}, false},
		{"a label was edited", func(_ *testing.T, u *unstructured.Unstructured) { u.SetLabels(map[string]string{"team": "b"}) }, false},
		{"an annotation was edited", func(_ *testing.T, u *unstructured.Unstructured) { annotate(u, "example.org/owner", "") }, false},
		{"a person changed it", func(_ *testing.T, u *unstructured.Unstructured) { annotate(u, v1alpha1.ChangedByAnnotation, "alice") }, false},
		{"a person decided", func(_ *testing.T, u *unstructured.Unstructured) { annotate(u, v1alpha1.ResolveAnnotation, "keep.x") }, false},
		{"paused", func(_ *testing.T, u *unstructured.Unstructured) { annotate(u, v1alpha1.PauseAnnotation, "true") }, false},
		{"without our finalizer", func(_ *testing.T, u *unstructured.Unstructured) { u.SetFinalizers(nil) }, false},
		{"the base of another object", func(_ *testing.T, u *unstructured.Unstructured) { u.SetUID("another") }, false},
		{"a base that cannot be read", func(_ *testing.T, u *unstructured.Unstructured) { annotate(u, v1alpha1.BaseAnnotation, "{") }, false},
		{"no status yet", func(_ *testing.T, u *unstructured.Unstructured) { delete(u.Object, "status") }, false},
		{"held", func(_ *testing.T, u *unstructured.Unstructured) {
			setCondition(u, conditionHeld, "True", string(decision.ManyRemovals))
		}, false},
		{"a conflict was lost", func(_ *testing.T, u *unstructured.Unstructured) {
			setCondition(u, conditionConflict, "True", "BothChanged")
		}, false},
		{"denied", func(_ *testing.T, u *unstructured.Unstructured) { setCondition(u, conditionApplied, "False", "Denied") }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := agreedObject(t, 1)
			tc.change(t, u)
			c := decoded(t, u)
			if c.reduced != tc.reduced {
				t.Fatalf("reduced: %t", c.reduced)
			}
			kept, err := c.object()
			if err != nil {
				t.Fatal(err)
			}
			in := input{object: kept}
			if c.reduced {
				in.reduced = c
			}
			for _, keys := range []contract.Keys{nil, listed} {
				if keys != nil && slices.Contains(mayBeListed, tc.name) {
					if !isIncomplete(t, in) {
						t.Error("the cache decides without the object")
					}
					continue
				}
				want, version := facts(t, keys, input{object: u})
				got, keptVersion := facts(t, keys, in)
				if diff := cmp.Diff(want, got); diff != "" || version != keptVersion {
					t.Errorf("with keys %v: facts (-object +cache): %s; versions %s and %s", keys, diff, version, keptVersion)
				}
			}
			for _, kind := range []string{conditionHeld, conditionConflict, conditionCommitted, conditionApplied} {
				if reason := reasonOf(u, kind); !c.reduced && reasonOf(kept, kind) != reason {
					t.Errorf("%s is kept as %q, want %q", kind, reasonOf(kept, kind), reason)
				}
			}
			if evidentlyNew(c) != evidentlyNew(u) {
				t.Errorf("evidently new: %t, the object: %t", evidentlyNew(c), evidentlyNew(u))
			}
		})
	}
}

func TestTheStatusOfAnAgreedClaimIsWrittenWhenItDiffers(t *testing.T) {
	api := testAPI(t)
	l := inStep()
	l.api = &api
	u := agreedObject(t, 1)
	l.object = u
	u.Object["status"] = l.status(nil)
	l.reduced = decoded(t, u)
	if !l.reduced.reduced {
		t.Fatal("it is not reduced")
	}
	if l.statusDiffers(nil) {
		t.Error("it would be written again")
	}
	l.answer.Status["known"] = "<y>"
	if !l.statusDiffers(nil) {
		t.Error("what is new would not be written")
	}
}

// Removals are judged together: a part of the claims would make them look many.
func TestAListWaitsUntilAllAreKnown(t *testing.T) {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	if err := store.Add(decoded(t, agreedObject(t, 1))); err != nil {
		t.Fatal(err)
	}
	synced, stopped := make(chan struct{}), make(chan struct{})
	claims := cachedClaims{store, synced, stopped}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := claims.list(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("before that it is %v, %v", all, err)
	}
	close(synced)
	if all, err := claims.list(t.Context()); err != nil || len(all) != 1 || all[0].Name != "orders-000001" {
		t.Errorf("it is %v, %v", all, err)
	}
	close(stopped)
	for range 20 {
		if all, err := claims.list(t.Context()); !errors.Is(err, errStopped) {
			t.Fatalf("when nobody watches any more it is %v, %v", all, err)
		}
	}
	claims.synced = nil
	if all, err := claims.list(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("when nobody watches any more before all are known it is %v, %v", all, err)
	}
}

// A hundred thousand must leave room for all else in 600 MiB.
func TestAnAgreedClaimTakesLittle(t *testing.T) {
	const n, most = 2000, 950
	all := make([]*cachedClaim, n)
	before := informerstest.Heap()
	for i := range all {
		u := agreedObject(t, i)
		annotate(u, "example.net/contact", "the team that takes the orders, floor 3, phone 4711")
		all[i] = decoded(t, u)
	}
	each := (informerstest.Heap() - before) / n
	t.Logf("%d bytes each", each)
	if each > most || !all[n-1].reduced {
		t.Errorf("a reduced claim (%t) takes %d bytes, want at most %d", all[n-1].reduced, each, most)
	}
	runtime.KeepAlive(all)
}

// Who may write claims in one namespace must not fill the memory of all with them.
func TestH4_LargeClaimsTakeLittleOfTheCache(t *testing.T) {
	const most = 8 << 10
	many := func(n int, entry func(i int) string) (all []string) {
		for i := range n {
			all = append(all, entry(i))
		}
		return all
	}
	for _, tc := range []struct {
		name   string
		n      int
		change func(u *unstructured.Unstructured)
	}{
		{"1.3 MiB of spec", 100, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, noise(1300<<10), "spec", "plan")
		}},
		{"paused, with 250 KiB of an annotation", 20, func(u *unstructured.Unstructured) {
			annotate(u, v1alpha1.PauseAnnotation, "true")
			annotate(u, "note", noise(250<<10))
		}},
		{"agreed, with 200 KiB of an annotation that may be listed", 20, func(u *unstructured.Unstructured) { annotate(u, "example.net/note", u.GetName()+noise(200<<10)) }},
		{"5000 owners", 20, func(u *unstructured.Unstructured) {
			annotate(u, v1alpha1.ChangedByAnnotation, "alice")
			var owners []metav1.OwnerReference
			for _, name := range many(5000, strconv.Itoa) {
				owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: "x"})
			}
			u.SetOwnerReferences(owners)
		}},
		{"2000 short labels", 20, func(u *unstructured.Unstructured) {
			all := map[string]string{}
			for _, key := range many(2000, strconv.Itoa) {
				all[key] = ""
			}
			u.SetLabels(all)
		}},
		{"2000 finalizers", 20, func(u *unstructured.Unstructured) {
			u.SetFinalizers(append(many(2000, func(i int) string { return "x/" + strconv.Itoa(i) }), v1alpha1.Finalizer))
		}},
		{"a base of others", 20, func(u *unstructured.Unstructured) {
			annotate(u, v1alpha1.BaseAnnotation, `{"uid":"`+string(u.GetUID())+`","commit":"`+noise(200<<10)+`"}`)
		}},
	} {
		u := agreedObject(t, 1)
		tc.change(u)
		data, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]*cachedClaim, tc.n)
		before := informerstest.Heap()
		for i := range all {
			o, err := decodeClaim(informerstest.Renamed(data, u.GetName(), fmt.Sprintf("orders-%06d", i)))
			if err != nil {
				t.Fatal(err)
			}
			all[i] = o.(*cachedClaim)
		}
		each := (int64(informerstest.Heap()) - int64(before)) / int64(tc.n)
		t.Logf("%s: of %d bytes %d are kept", tc.name, len(data), each)
		if each > most {
			t.Errorf("%s: one takes %d bytes, want at most %d", tc.name, each, most)
		}
		if c := all[0]; evidentlyNew(c) != evidentlyNew(u) && base.Read(u) != nil {
			t.Errorf("%s: evidently new: %t", tc.name, evidentlyNew(c))
		}
		runtime.KeepAlive(data)
		runtime.KeepAlive(all)
	}
}

// Removals are judged together by what the cache has, also those of large claims.
func TestALargeClaimIsJudgedAsWhatItIs(t *testing.T) {
	w := newGitWorld(t)
	u := agreedObject(t, 1)
	w.r.api().Repository.ConnectionUID = base.Read(u).Connection
	rebase(t, u, func(b *base.Base) { b.Removed = true })
	setCondition(u, conditionHeld, "True", string(decision.ManyRemovals))
	whole := decoded(t, u)
	annotate(u, "note", noise(100<<10))
	large := decoded(t, u)
	if whole.abridged || whole.reduced || !large.abridged {
		t.Fatalf("abridged: %t, and %t", whole.abridged, large.abridged)
	}
	want, _, err := tracked{w.r}.object(t.Context(), key, whole)
	if err != nil || want.Commit == "" || !want.Removed || !want.Held {
		t.Fatalf("%+v, %v", want, err)
	}
	if got, ok, err := (tracked{w.r}).object(t.Context(), key, large); err != nil || !ok || got != want {
		t.Errorf("it is %+v, %v, want %+v", got, err, want)
	}
	deleted := metav1.NewTime(time.Now().Truncate(time.Second))
	u.SetDeletionTimestamp(&deleted)
	_ = unstructured.SetNestedField(u.Object, string(decision.NamespaceDeleted), "status", "gitbind", "hold", "reason")
	if _, ok, err := (tracked{w.r}).object(t.Context(), key, decoded(t, u)); err != nil || ok {
		t.Errorf("one that goes with its namespace counts: %t, %v", ok, err)
	}
}

// What waits may be many, and is kept for as long as a person takes to decide.
func TestH4_LargeClaimsThatAreRemovedTakeLittle(t *testing.T) {
	const n, most = 20, 8 << 10
	w := newGitWorld(t)
	u := agreedObject(t, 1)
	w.r.api().Repository.ConnectionUID = base.Read(u).Connection
	text := strings.Repeat("x", 500<<10)
	_ = unstructured.SetNestedField(u.Object, text, "spec", "plan")
	rebase(t, u, func(b *base.Base) { b.Claim.Spec["plan"] = text })
	c := decoded(t, u)
	if !c.reduced {
		t.Fatal("it is not reduced")
	}
	all := make([]repository.Object, n)
	before := informerstest.Heap()
	for i := range all {
		var err error
		if all[i], _, err = (tracked{w.r}).object(t.Context(), key, c); err != nil || all[i].Commit == "" {
			t.Fatal(all[i], err)
		}
	}
	if each := (int64(informerstest.Heap()) - int64(before)) / n; each > most {
		t.Errorf("one that waits takes %d bytes, want at most %d", each, most)
	}
	runtime.KeepAlive(all)
}

// listed are objects in JSON, as a list of so many.
func listed(tb testing.TB, n int) [][]byte {
	tb.Helper()
	all := make([][]byte, n)
	for i := range all {
		data, err := json.Marshal(agreedObject(tb, i))
		if err != nil {
			tb.Fatal(err)
		}
		all[i] = data
	}
	return all
}

// BenchmarkList is the list of a start, from an API server into the cache.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			all := listed(b, 1000)
			config := informerstest.Serve(b, "anynines.com/v1", "PostgresqlInstance", func(yield func([]byte) bool) {
				for i := range n {
					if !yield(informerstest.Renamed(all[i%len(all)], fmt.Sprintf("orders-%06d", i%len(all)), fmt.Sprintf("orders-%06d", i))) {
						return
					}
				}
			})
			for b.Loop() {
				before := informerstest.Heap()
				informer, err := informers.New(config, schema.ParseGroupResource(binding).WithVersion("v1"), labels.Everything(), decodeClaim)
				if err != nil {
					b.Fatal(err)
				}
				go informer.RunWithContext(b.Context())
				<-informer.HasSyncedChecker().Done()
				b.ReportMetric(float64(informerstest.Heap()-before)/float64(n), "heap-B/object")
				if got := len(informer.GetStore().ListKeys()); got != n {
					b.Fatalf("%d objects", got)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/object")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	data := listed(b, 1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeClaim(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLook is what each look at a claim that is in step costs, without Git.
func BenchmarkLook(b *testing.B) {
	api, err := NewAPI(postgresql(), &repository.Repository{Options: repository.Options{ConnectionUID: "another"}})
	if err != nil {
		b.Fatal(err)
	}
	r, c, l := &reconciler{}, decoded(b, agreedObject(b, 1)), inStep()
	l.api = &api
	b.ReportAllocs()
	for b.Loop() {
		object, err := c.object()
		if err != nil {
			b.Fatal(err)
		}
		l.object, l.reduced = object, c
		if err := r.lookAtObject(b.Context(), l, input{cached: true}); err != nil {
			b.Fatal(err)
		}
		l.statusDiffers(nil)
	}
}
