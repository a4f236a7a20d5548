package claimcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/informers/informerstest"
	"gitbind.dev/gitbridge/internal/tenant"
	"gitbind.dev/gitbridge/store"
)

// members are app clusters that join and leave.
type members struct {
	mu           sync.Mutex
	joined       map[string]int64
	moment, left int64
}

func newMembers(ids ...string) *members {
	m := &members{joined: map[string]int64{}}
	for _, id := range ids {
		m.join(id)
	}
	return m
}

func (m *members) join(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moment++
	m.joined[id] = m.moment
}

func (m *members) leave(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moment++
	m.left = m.moment
	delete(m.joined, id)
}

func (m *members) Known() <-chan struct{} {
	known := make(chan struct{})
	close(known)
	return known
}

func (m *members) Has(id string) bool {
	_, ok := m.Joined(id)
	return ok
}

func (m *members) HasNamespace(namespace string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(namespace, "gb-"), "-")
	return m.Has(id)
}

func (m *members) Joined(id string) (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	moment, ok := m.joined[id]
	return moment, ok
}

func (m *members) Moment() (last, left int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moment, m.left
}

// of is an object of a cluster's claim.
func of(id, name string) *unstructured.Unstructured {
	c, key := tenant.Cluster{ID: id}, contract.Key{Binding: binding, Namespace: "team-a", Name: name}
	u := applied(0)
	u.SetNamespace(c.ClaimNamespace(key.Namespace))
	u.SetName(key.Name)
	u.SetLabels(c.Labels(key))
	return u
}

// plane is an API server with objects that do not change while they are watched. It
// counts how often all were listed.
type plane struct {
	mu      sync.Mutex
	objects []*unstructured.Unstructured
	lists   atomic.Int32
	// asked, if not nil, is called before it is told what an app cluster has.
	asked func(url.Values)
	// hold, if not nil, is what lists wait for that begin from then on.
	hold chan struct{}
}

// serve serves what there is when it is asked for.
func (p *plane) serve(t *testing.T) *rest.Config {
	t.Helper()
	return (&informerstest.Server{
		APIVersion: "anynines.com/v1", Kind: "PostgresqlInstance",
		Objects: func() iter.Seq[[]byte] {
			p.mu.Lock()
			defer p.mu.Unlock()
			var all [][]byte
			for _, u := range p.objects {
				data, err := u.MarshalJSON()
				if err != nil {
					t.Error(err)
				}
				all = append(all, data)
			}
			return slices.Values(all)
		},
		Asked: func(query url.Values) {
			if p.asked != nil {
				p.asked(query)
			}
		},
		Listing: func() {
			p.lists.Add(1)
			p.mu.Lock()
			hold := p.hold
			p.mu.Unlock()
			if hold != nil {
				<-hold
			}
		},
	}).Start(t)
}

func (p *plane) add(u *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects = append(p.objects, u)
}

func (p *plane) remove(u *unstructured.Unstructured) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects = slices.DeleteFunc(p.objects, func(o *unstructured.Unstructured) bool { return o == u })
}

// watching is a cache of a plane's objects.
func watching(t *testing.T, p *plane, m Members, changed func(string, contract.Key, bool)) *Objects {
	t.Helper()
	objects, err := New(p.serve(t), m, changed)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = objects.Start(t.Context()) }()
	return objects
}

// kept are the objects in the store, as namespace/name.
func (o *Objects) kept() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.kinds[gvk]
	o.settle(k)
	keys := k.current.objects.ListKeys()
	slices.Sort(keys)
	return keys
}

func (o *Objects) want(t *testing.T, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	deadline := time.Now().Add(time.Minute)
	for got := o.kept(); !slices.Equal(got, keys); got = o.kept() {
		if time.Now().After(deadline) {
			t.Fatalf("kept are %v, want %v", got, keys)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAShardKeepsTheObjectsOfItsOwnClustersOnly(t *testing.T) {
	t.Parallel()
	relabelled := of("ours", "relabelled")
	relabelled.SetLabels(map[string]string{tenant.ClusterLabel: "theirs"})
	p, m := &plane{objects: []*unstructured.Unstructured{of("ours", "a"), of("theirs", "b"), relabelled}}, newMembers("ours")
	told := make(chan string, 100)
	o := watching(t, p, m, func(id string, key contract.Key, _ bool) { told <- id + " " + key.Name })
	watch := func(id string) {
		t.Helper()
		if err := o.Watch(t.Context(), gvk, binding, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Watch(t.Context(), gvk, binding, "theirs", nil); err == nil {
		t.Error("the objects of another shard's cluster can be asked for")
	}
	watch("ours")
	o.want(t, "gb-ours-team-a/a", "gb-ours-team-a/relabelled")

	// A cluster that is new has nothing that could be missing.
	m.join("new")
	watch("new")
	if n := p.lists.Load(); n != 1 {
		t.Errorf("all was listed %d times", n)
	}

	// One that another shard had comes with its objects.
	m.join("theirs")
	watch("theirs")
	if u, err := o.Get(gvk, "gb-theirs-team-a", "b"); u == nil || err != nil {
		t.Errorf("what came with a cluster is not there: %v", err)
	}
	o.want(t, "gb-ours-team-a/a", "gb-ours-team-a/relabelled", "gb-theirs-team-a/b")
	watch("ours")
	watch("theirs")
	if n := p.lists.Load(); n != 2 {
		t.Errorf("all was listed %d times, want once more for the one that came", n)
	}

	// It leaves, and what it had is dropped.
	m.leave("theirs")
	o.tidy(t.Context())
	o.want(t, "gb-ours-team-a/a", "gb-ours-team-a/relabelled")

	got := map[string]int{}
	for len(told) > 0 {
		got[<-told]++
	}
	if got["ours a"] != 1 || got["theirs b"] != 1 {
		t.Errorf("told %v, want each once: a list that has what was known tells nothing", got)
	}
}

func TestTheClaimsOfAnAppClusterAreThoseOfItsObjects(t *testing.T) {
	t.Parallel()
	elsewhere := of("ours", "elsewhere")
	elsewhere.SetNamespace("default")
	a := of("ours", "a")
	a.SetAnnotations(map[string]string{tenant.CommitAnnotation: "c0ffee"})
	p, m := &plane{objects: []*unstructured.Unstructured{a, of("ours", "b"), elsewhere, of("others", "c")}}, newMembers("ours", "others")
	o := watching(t, p, m, func(string, contract.Key, bool) {})
	if got := o.PathsOf("ours", ""); len(got) > 0 {
		t.Errorf("before a kind is watched there are %v", got)
	}
	for _, waited := range []bool{true, false} {
		var waits bool
		if err := o.Watch(t.Context(), gvk, binding, "ours", func() { waits = true }); err != nil {
			t.Fatal(err)
		}
		if waits != waited {
			t.Errorf("it waits: %t, want %t", waits, waited)
		}
	}
	want := map[string]store.Hash{}
	for name, commit := range map[string]store.Hash{"a": "c0ffee", "b": store.Hash(strings.Repeat("0", 40))} {
		want[contract.Key{Binding: binding, Namespace: "team-a", Name: name}.Path()] = commit
	}
	if diff := cmp.Diff(want, o.PathsOf("ours", "")); diff != "" {
		t.Errorf("they differ from what was expected (-want +got):\n%s", diff)
	}
	if got := o.PathsOf("ours", "others.example.org"); len(got) > 0 {
		t.Errorf("of another binding there are %v", got)
	}
}

// An API server looks through all objects for each answer.
func TestAllWhoWaitForANewClusterAskOnce(t *testing.T) {
	t.Parallel()
	const waiting = 20
	var asks atomic.Int32
	all := make(chan struct{})
	p, m := &plane{objects: []*unstructured.Unstructured{of("ours", "a")}}, newMembers("ours")
	p.asked = func(query url.Values) {
		if query.Get("labelSelector") != tenant.ClusterLabel+"=new" {
			return
		}
		if limit := query.Get("limit"); limit != "" {
			t.Errorf("it is asked with a limit of %s: that is not answered from the cache", limit)
		}
		asks.Add(1)
		<-all
	}
	o := watching(t, p, m, func(string, contract.Key, bool) {})
	if err := o.Watch(t.Context(), gvk, binding, "ours", nil); err != nil {
		t.Fatal(err)
	}
	m.join("new")
	var group sync.WaitGroup
	for range waiting {
		group.Go(func() {
			if err := o.Watch(t.Context(), gvk, binding, "new", nil); err != nil {
				t.Error(err)
			}
		})
	}
	// Time for those who would ask, too.
	time.Sleep(100 * time.Millisecond)
	close(all)
	group.Wait()
	// One that came when the answer was there, and was not noted yet, may ask again.
	if n := asks.Load(); n < 1 || n > 2 {
		t.Errorf("it was asked %d times for %d who wait", n, waiting)
	}
}

func TestAKindThatMayNotBeListedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Forbidden","code":403}`)
	}))
	t.Cleanup(server.Close)
	o, err := New(&rest.Config{Host: server.URL}, newMembers("ours"), func(string, contract.Key, bool) {})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = o.Start(t.Context()) }()
	if err := o.Watch(t.Context(), gvk, binding, "ours", nil); err == nil || !strings.Contains(err.Error(), "may the bridge list and watch them?") {
		t.Errorf("it is told: %v", err)
	}
}

func TestWhoWaitsForAListIsServedByTheOneThatTakesItsPlace(t *testing.T) {
	t.Parallel()
	p, m := &plane{objects: []*unstructured.Unstructured{of("early", "a"), of("late", "b")}}, newMembers("early")
	never := make(chan struct{})
	p.hold = never
	o := watching(t, p, m, func(string, contract.Key, bool) {})
	t.Cleanup(func() { close(never) })
	early := make(chan error, 1)
	go func() { early <- o.Watch(t.Context(), gvk, binding, "early", nil) }()
	for deadline := time.Now().Add(time.Minute); p.lists.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing is listed")
		}
	}
	p.mu.Lock()
	p.hold = nil
	p.mu.Unlock()
	m.join("late")
	if err := o.Watch(t.Context(), gvk, binding, "late", nil); err != nil {
		t.Fatal(err)
	}
	o.want(t, "gb-early-team-a/a", "gb-late-team-a/b")
	if err := <-early; err != nil {
		t.Error(err)
	}
}

func TestWhetherThereIsAnyIsReadFromTheBeginningOfAList(t *testing.T) {
	t.Parallel()
	const begin = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":`
	for list, want := range map[string]bool{
		begin + `[]}`:             false,
		begin + `null,"more":1}`:  false,
		begin + `[{"metadata":{"`: true,
	} {
		if got, err := beginsWithItem(strings.NewReader(list)); err != nil || got != want {
			t.Errorf("%s: %t, %v", list, got, err)
		}
	}
	for _, list := range []string{"", "{}", begin, begin + "[", `{"kind":"Status"}`} {
		if got, err := beginsWithItem(strings.NewReader(list)); err == nil {
			t.Errorf("%q: %t, want an error", list, got)
		}
	}
}

// What a cluster lost while it was another shard's is not there when it comes back.
func TestAClusterThatComesBackHasNothingOfBefore(t *testing.T) {
	t.Parallel()
	gone := of("moves", "gone")
	p, m := &plane{objects: []*unstructured.Unstructured{gone}}, newMembers("moves", "stays")
	o := watching(t, p, m, func(string, contract.Key, bool) {})
	if err := o.Watch(t.Context(), gvk, binding, "moves", nil); err != nil {
		t.Fatal(err)
	}
	o.want(t, "gb-moves-team-a/gone")
	m.leave("moves")
	p.remove(gone)
	m.join("moves")
	if err := o.Watch(t.Context(), gvk, binding, "moves", nil); err != nil {
		t.Fatal(err)
	}
	if u, err := o.Get(gvk, "gb-moves-team-a", "gone"); u != nil || err != nil {
		t.Errorf("it is still there: %v, %v", u, err)
	}
	// And what it got meanwhile is.
	m.leave("moves")
	p.add(of("moves", "new"))
	m.join("moves")
	if err := o.Watch(t.Context(), gvk, binding, "moves", nil); err != nil {
		t.Fatal(err)
	}
	if u, err := o.Get(gvk, "gb-moves-team-a", "new"); u == nil || err != nil {
		t.Errorf("it is not there: %v", err)
	}
}

// The plane does not tell the first watch of changes: it is one that lags behind.
func TestADeletionIsToldThatOnlyANewListKnowsOf(t *testing.T) {
	t.Parallel()
	gone := of("stays", "gone")
	p, m := &plane{objects: []*unstructured.Unstructured{gone, of("stays", "there"), of("comes", "a")}}, newMembers("stays")
	told := make(chan string, 100)
	o := watching(t, p, m, func(id string, key contract.Key, now bool) { told <- fmt.Sprint(id, " ", key.Name, " ", now) })
	if err := o.Watch(t.Context(), gvk, binding, "stays", nil); err != nil {
		t.Fatal(err)
	}
	o.want(t, "gb-stays-team-a/gone", "gb-stays-team-a/there")
	p.remove(gone)
	m.join("comes")
	if err := o.Watch(t.Context(), gvk, binding, "comes", nil); err != nil {
		t.Fatal(err)
	}
	o.want(t, "gb-stays-team-a/there", "gb-comes-team-a/a")
	got := map[string]int{}
	for len(told) > 0 {
		got[<-told]++
	}
	if got["stays gone true"] != 1 || got["stays there false"] != 1 {
		t.Errorf("told %v, want that one is gone, and nothing of the other", got)
	}
}

// Two clusters come one after the other, and all is listed for the first one already.
func TestAListThatBeganTooEarlyIsNotTakenForComplete(t *testing.T) {
	t.Parallel()
	p, m := &plane{objects: []*unstructured.Unstructured{of("first", "a"), of("second", "b")}}, newMembers("stays")
	o := watching(t, p, m, func(string, contract.Key, bool) {})
	if err := o.Watch(t.Context(), gvk, binding, "stays", nil); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	p.mu.Lock()
	p.hold = hold
	p.mu.Unlock()
	with := func(id string) (isComplete bool) {
		t.Helper()
		m.join(id)
		_, isComplete, err := o.listingWith(t.Context(), gvk, binding, id, func() {})
		if err != nil {
			t.Fatal(err)
		}
		return isComplete
	}
	if !with("first") || with("second") {
		t.Error("a list has what cannot be in it, or has not what it was begun for")
	}
	close(hold)
	if err := o.Watch(t.Context(), gvk, binding, "second", nil); err != nil {
		t.Fatal(err)
	}
	if u, err := o.Get(gvk, "gb-second-team-a", "b"); u == nil || err != nil {
		t.Errorf("what came with a cluster is not there: %v", err)
	}
}

func TestTheAPIServerSaysWhetherThereAreObjectsInAnyVersion(t *testing.T) {
	t.Parallel()
	const group, status = `{"kind":"APIGroup","versions":[{"version":"v1"},{"version":"v2"}]}`, `{"kind":"Status","status":"Failure","reason":"%s","code":%d}`
	for name, tc := range map[string]struct {
		answers     map[string]string
		has, served bool
		fails       bool
	}{
		"the group is not served":        {},
		"no version has the resource":    {answers: map[string]string{"": group}},
		"it is in the second version":    {answers: map[string]string{"": group, "/v2/postgresqlinstances": `{"items":[{}]}`}, has: true, served: true},
		"nothing is in it":               {answers: map[string]string{"": group, "/v2/postgresqlinstances": `{"items":[]}`}, served: true},
		"the first one says all":         {answers: map[string]string{"": group, "/v1/postgresqlinstances": `{"items":[]}`, "/v2/postgresqlinstances": `{"items":[{}]}`}, served: true},
		"it may not be listed":           {answers: map[string]string{"": group, "/v1/postgresqlinstances": "Forbidden"}, fails: true},
		"the versions may not be listed": {answers: map[string]string{"": "Forbidden"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer, ok := tc.answers[strings.TrimPrefix(r.URL.Path, "/apis/anynines.com")]
				switch {
				case !ok:
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprintf(w, status, "NotFound", http.StatusNotFound)
				case answer == "Forbidden":
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(w, status, "Forbidden", http.StatusForbidden)
				default:
					fmt.Fprint(w, answer)
				}
			}))
			t.Cleanup(server.Close)
			o, err := New(&rest.Config{Host: server.URL}, newMembers("ours"), func(string, contract.Key, bool) {})
			if err != nil {
				t.Fatal(err)
			}
			has, served, err := o.HasAny(t.Context(), "ours", binding)
			if has != tc.has || served != tc.served || (err != nil) != tc.fails {
				t.Errorf("has %t, served %t, %v", has, served, err)
			}
		})
	}
}

func TestAKindThatNoBindingUsesIsDropped(t *testing.T) {
	t.Parallel()
	stays, goes := of("ours", "stays"), of("ours", "goes")
	p := &plane{objects: []*unstructured.Unstructured{stays, goes}}
	o, err := New(p.serve(t), newMembers("ours"), func(string, contract.Key, bool) {})
	if err != nil {
		t.Fatal(err)
	}
	v1, v2 := gvk, gvk
	v2.Version = "v2"
	resource := schema.ParseGroupResource(binding)
	var bound, trouble atomic.Value
	bound.Store([]string{"v1"})
	trouble.Store(false)
	o.Bound = func(context.Context) (map[schema.GroupVersionResource]bool, error) {
		used := map[schema.GroupVersionResource]bool{}
		if trouble.Load() == true {
			return used, errors.New("connection refused")
		}
		for _, version := range bound.Load().([]string) {
			used[resource.WithVersion(version)] = true
		}
		return used, nil
	}
	go func() { _ = o.Start(t.Context()) }()
	watch := func(of schema.GroupVersionKind) {
		t.Helper()
		if err := o.Watch(t.Context(), of, binding, "ours", nil); err != nil {
			t.Fatal(err)
		}
	}
	watch(v1)
	// It goes where nobody sees it: the version is not served any more.
	p.remove(goes)
	bound.Store([]string{"v1", "v2"})
	watch(v2)
	both := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.kinds[v1] != nil && o.kinds[v2] != nil
	}
	for range 3 {
		o.tidy(t.Context())
	}
	if paths := o.PathsOf("ours", binding); !both() || len(paths) != 2 {
		t.Fatalf("of two versions that are bound there are the objects %v", paths)
	}
	bound.Store([]string{"v2"})
	for range 3 {
		o.tidy(t.Context())
		watch(v1)
	}
	if !both() {
		t.Error("a kind that is asked for was dropped")
	}
	trouble.Store(true)
	for range 3 {
		o.tidy(t.Context())
	}
	if !both() {
		t.Error("a kind was dropped though it is not known what is bound")
	}
	trouble.Store(false)
	o.mu.Lock()
	old := o.kinds[v1].current
	o.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); both() || !old.informer.IsStopped(); time.Sleep(time.Millisecond) {
		if o.tidy(t.Context()); time.Now().After(deadline) {
			t.Fatal("it is still watched")
		}
	}
	if paths := o.PathsOf("ours", binding); len(paths) != 1 {
		t.Errorf("objects %v", paths)
	}
	watch(v1)
	if u, err := o.Get(v1, stays.GetNamespace(), stays.GetName()); u == nil || err != nil {
		t.Errorf("what is bound again: %v, %v", u, err)
	}
}

// Its list does not come before the kind is dropped.
func TestWhoWaitsForAKindThatIsDroppedIsServed(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	p := &plane{objects: []*unstructured.Unstructured{of("ours", "a")}, hold: hold}
	o := watching(t, p, newMembers("ours"), func(string, contract.Key, bool) {})
	waiting, done := make(chan struct{}, 10), make(chan error, 1)
	go func() { done <- o.Watch(t.Context(), gvk, binding, "ours", func() { waiting <- struct{}{} }) }()
	<-waiting
	p.mu.Lock()
	p.hold = nil
	p.mu.Unlock()
	o.mu.Lock()
	o.drop(gvk)
	o.mu.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	close(hold)
	if paths := o.PathsOf("ours", binding); len(paths) != 1 {
		t.Errorf("objects %v", paths)
	}
}
