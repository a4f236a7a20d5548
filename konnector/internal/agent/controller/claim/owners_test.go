package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"gitbind.dev/konnector/internal/agent/decision"
	"gitbind.dev/test/fakeapi"
)

// ownersWorld is an API server with kinds of two groups, and who asks it for owners.
type ownersWorld struct {
	*testing.T
	owners *owners
	now    time.Time
	made   int

	mu sync.Mutex
	// objects are those of the namespace team-a, by resource and name, and codes what is
	// answered instead, by path; 0 ends the answer in its midst.
	objects map[string]metav1.ObjectMeta
	codes   map[string]int
	asked   map[string]int
	// widgets says that there is a kind Widget by now.
	widgets bool
}

func newOwnersWorld(t *testing.T) *ownersWorld {
	w := &ownersWorld{T: t, now: time.Unix(1_800_000_000, 0), objects: map[string]metav1.ObjectMeta{}, codes: map[string]int{}, asked: map[string]int{}}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	var err error
	if w.owners, err = newOwners(&rest.Config{Host: server.URL, QPS: -1}); err != nil {
		t.Fatal(err)
	}
	w.owners.now = func() time.Time { return w.now }
	return w
}

// core and metricsGroup are where the API server lists the kinds of each group.
const core, metricsGroup = "/api/v1", "/apis/metrics.k8s.io/v1beta1"

func (w *ownersWorld) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[r.URL.Path]++
	out.Header().Set("Content-Type", "application/json")
	if code, ok := w.codes[r.URL.Path]; ok && code == 0 {
		out.Header().Set("Content-Length", "1000")
		fmt.Fprint(out, `{"metadata":{`)
		return
	} else if ok {
		out.WriteHeader(code)
		fmt.Fprint(out, "not now")
		return
	}
	kinds := func(group string, all ...metav1.APIResource) any {
		if w.widgets && group == "v1" {
			all = append(all, metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true})
		}
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group, APIResources: all}
	}
	var answer any
	switch object, ok := w.objects[strings.TrimPrefix(r.URL.Path, core+"/namespaces/team-a/")]; {
	case ok:
		answer = metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: object}
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case r.URL.Path == "/apis":
		version := metav1.GroupVersionForDiscovery{GroupVersion: "metrics.k8s.io/v1beta1", Version: "v1beta1"}
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "metrics.k8s.io", Versions: []metav1.GroupVersionForDiscovery{version}}}}
	case r.URL.Path == core:
		answer = kinds("v1", metav1.APIResource{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, metav1.APIResource{Name: "namespaces", Kind: "Namespace"})
	case r.URL.Path == metricsGroup:
		answer = kinds("metrics.k8s.io/v1beta1", metav1.APIResource{Name: "pods", Kind: "PodMetrics", Namespaced: true})
	default:
		out.WriteHeader(http.StatusNotFound)
	}
	if answer != nil {
		_ = json.NewEncoder(out).Encode(answer)
	}
}

// takeAsked are how often discovery and objects were asked for since the last call, and which paths
// else.
func (w *ownersWorld) takeAsked() (discoveries, objects int, others []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, n := range w.asked {
		switch {
		case path == "/api", path == "/apis", path == core, path == metricsGroup:
			// The groups are asked for one by one, and twice where one does not answer.
			discoveries = max(discoveries, n)
		case strings.HasPrefix(path, core+"/namespaces/team-a/configmaps/"):
			objects += n
		default:
			others = append(others, path)
		}
	}
	clear(w.asked)
	return discoveries, objects, others
}

func ownerNamed(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID("uid of " + name)}
}

// has makes an owner, which goes from a time on, if there is one.
func (w *ownersWorld) has(name string, goes ...metav1.Time) metav1.OwnerReference {
	object := metav1.ObjectMeta{Name: name, UID: ownerNamed(name).UID}
	for _, at := range goes {
		object.DeletionTimestamp = &at
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects["configmaps/"+name] = object
	return ownerNamed(name)
}

// answers sets what a path is answered with; -1 for what there is.
func (w *ownersWorld) answers(path string, code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.codes[path] = code; code < 0 {
		delete(w.codes, path)
	}
}

// owned is an object that is being deleted.
func (w *ownersWorld) owned(refs ...metav1.OwnerReference) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetNamespace("team-a")
	u.SetName("orders")
	u.SetOwnerReferences(refs)
	w.made++
	u.SetUID(types.UID(fmt.Sprint("u", w.made)))
	return u
}

// isHeld wants what has these owners to be held.
func (w *ownersWorld) isHeld(what string, refs ...metav1.OwnerReference) {
	w.Helper()
	if with, err := w.owners.ending(w.Context(), w.owned(refs...), false); with != decision.OwnerEnds || err != nil {
		w.Errorf("%s: %q, error %v", what, with, err)
	}
}

// The konnector may read more than who changes an object.
func TestH10_AnOwnersNameLeadsToNoOtherPath(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	for _, name := range []string{"../../../../../openapi/v2", "../secrets/s", "..", ".", "a/b", "a%2fb", strings.Repeat("a", 1<<20)} {
		w.isHeld(fmt.Sprintf("%.40s", name), ownerNamed(name))
	}
	for _, ref := range []metav1.OwnerReference{
		{APIVersion: "../version", Kind: "ConfigMap", Name: "a", UID: "u"}, {APIVersion: "..", Kind: "ConfigMap", Name: "a", UID: "u"},
		{APIVersion: "v1", Kind: "../ConfigMap", Name: "a", UID: "u"}, {APIVersion: "v1/v1/v1", Kind: "ConfigMap", Name: "a", UID: "u"},
	} {
		w.isHeld(ref.APIVersion+" "+ref.Kind, ref)
	}
	if _, objects, others := w.takeAsked(); objects > 0 || len(others) > 0 {
		t.Errorf("%d objects and %q were asked for", objects, others)
	}
}

func TestL4_AnOwnerThatIsNotKnownToStayHolds(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	at := func(name string) string { return core + "/namespaces/team-a/configmaps/" + name }
	w.isHeld("one that is gone", ownerNamed("gone"))
	w.isHeld("a kind that there is not", metav1.OwnerReference{APIVersion: "v1", Kind: "Widget", Name: "a", UID: "u"})
	w.isHeld("an API that there is not", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: "a", UID: "u"})
	for _, code := range []int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusOK} {
		w.answers(at("a"), code)
		w.isHeld(fmt.Sprint("an answer ", code, " without an object"), ownerNamed("a"))
	}
	w.isHeld("another one of its name", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: w.has("b").Name, UID: "of before"})
	w.isHeld("one that is being deleted", w.has("c", metav1.Time{Time: w.now}))
	var many []metav1.OwnerReference
	for i := range decision.MaxOwners {
		many = append(many, ownerNamed(fmt.Sprint("gone", i)))
	}
	w.isHeld("more than are looked at", append(many, w.has("stays"))...)

	o := w.owned(append(many[1:], w.has("stays"))...)
	if _, err := w.owners.ending(t.Context(), o, true); !errors.Is(err, errIncomplete) {
		t.Errorf("by the cache alone: %v", err)
	}
	for _, cached := range []bool{false, true} {
		if with, err := w.owners.ending(t.Context(), o, cached); with != "" || err != nil {
			t.Errorf("one that stays among as many as are looked at: %q, error %v", with, err)
		}
	}
	if with, err := w.owners.ending(t.Context(), w.owned(), true); with != "" || err != nil {
		t.Errorf("none: %q, error %v", with, err)
	}
}

// What an API server says that is away, or busy, says nothing of an owner.
func TestL4_AnAPIServerThatIsAwayHoldsNothing(t *testing.T) {
	t.Parallel()
	ref := func(apiVersion, kind string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "a", UID: ownerNamed("a").UID}
	}
	configMap := ref("v1", "ConfigMap")
	object := core + "/namespaces/team-a/configmaps/a"
	for name, c := range map[string]struct {
		path  string
		code  int
		owner metav1.OwnerReference
		then  decision.Ending
	}{
		"unavailable":                       {object, http.StatusServiceUnavailable, configMap, ""},
		"too slow":                          {object, http.StatusGatewayTimeout, configMap, ""},
		"an error of its own":               {object, http.StatusInternalServerError, configMap, ""},
		"too many requests":                 {object, http.StatusTooManyRequests, configMap, ""},
		"a token that has just expired":     {object, http.StatusUnauthorized, configMap, ""},
		"gone in the midst of its answer":   {object, 0, configMap, ""},
		"unavailable when kinds are listed": {"/apis", http.StatusServiceUnavailable, configMap, ""},
		"gone while kinds are listed":       {"/api", 0, configMap, ""},
		"an API that does not answer":       {metricsGroup, http.StatusServiceUnavailable, ref("metrics.k8s.io/v1beta1", "PodMetrics"), decision.OwnerEnds},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newOwnersWorld(t)
			w.has("a")
			w.answers(c.path, c.code)
			o := w.owned(ownerNamed("gone"), c.owner)
			for range 3 {
				if with, err := w.owners.ending(t.Context(), o, false); with != "" || err == nil {
					t.Errorf("%q, error %v", with, err)
				}
			}
			w.answers(c.path, -1)
			w.now = w.now.Add(discoverEvery)
			if with, err := w.owners.ending(t.Context(), o, false); with != c.then || err != nil {
				t.Errorf("once it answers: %q, error %v", with, err)
			}
		})
	}
}

// The konnector does not ask for the kinds at each delete, and a kind may be new.
func TestL4_AnOwnerOfANewKindIsLookedFor(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	w.isHeld("a kind that there is not", metav1.OwnerReference{APIVersion: "v1", Kind: "Widget", Name: "a", UID: "u"})
	w.mu.Lock()
	w.widgets, w.objects["widgets/a"] = true, metav1.ObjectMeta{Name: "a", UID: "u"}
	w.mu.Unlock()
	w.now = w.now.Add(10 * time.Second)
	o := w.owned(metav1.OwnerReference{APIVersion: "v1", Kind: "Widget", Name: "a", UID: "u"})
	o.SetDeletionTimestamp(&metav1.Time{Time: w.now})
	if with, err := w.owners.ending(t.Context(), o, false); with != "" || err == nil {
		t.Errorf("before the kinds are listed again: %q, error %v", with, err)
	}
	w.now = w.now.Add(discoverEvery)
	if with, err := w.owners.ending(t.Context(), o, false); with != "" || err != nil {
		t.Errorf("after that: %q, error %v", with, err)
	}
}

func TestL4_AnAPIThatIsAwayHidesNoOwnerOfAnother(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	w.answers(metricsGroup, http.StatusServiceUnavailable)
	away := metav1.OwnerReference{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetrics", Name: "a", UID: "u"}
	if with, err := w.owners.ending(t.Context(), w.owned(away, w.has("stays")), false); with != "" || err != nil {
		t.Errorf("beside one that stays: %q, error %v", with, err)
	}
	o := w.owned(away, ownerNamed("gone"))
	if with, err := w.owners.ending(t.Context(), o, false); with != "" || err == nil {
		t.Errorf("beside one that is gone: %q, error %v", with, err)
	}
	w.answers(metricsGroup, -1)
	w.now = w.now.Add(discoverEvery)
	if with, err := w.owners.ending(t.Context(), o, false); with != decision.OwnerEnds || err != nil {
		t.Errorf("once it answers: %q, error %v", with, err)
	}
}

// An etcd that was restored has the object again, with its UID.
func TestL4_WhatOwnersDidAtADeleteSaysNothingOfTheNext(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	o := w.owned(w.has("a"))
	o.SetDeletionTimestamp(&metav1.Time{Time: w.now.Add(-time.Hour)})
	if with, err := w.owners.ending(t.Context(), o, false); with != "" || err != nil {
		t.Errorf("a person deletes it: %q, error %v", with, err)
	}
	w.answers(core+"/namespaces/team-a/configmaps/a", http.StatusNotFound)
	o.SetDeletionTimestamp(&metav1.Time{Time: w.now.Add(-time.Minute)})
	if with, err := w.owners.ending(t.Context(), o, false); with != decision.OwnerEnds || err != nil {
		t.Errorf("with its owner: %q, error %v", with, err)
	}
}

func TestH7_TheOwnersThatAUserMakesUpCostFewRequests(t *testing.T) {
	t.Parallel()
	const claims = 64
	w := newOwnersWorld(t)
	ask := func(refs func(i int) []metav1.OwnerReference) {
		var all sync.WaitGroup
		for i := range claims {
			o := w.owned(refs(i)...)
			all.Go(func() {
				for range 3 {
					if _, err := w.owners.ending(t.Context(), o, false); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	few := func(what string, discoveries, objects int) {
		t.Helper()
		if d, n, others := w.takeAsked(); d > discoveries || n > objects || len(others) > 0 {
			t.Errorf("%s: %d discoveries, %d objects and %q were asked for", what, d, n, others)
		}
	}
	madeUp := func(n int) func(i int) []metav1.OwnerReference {
		return func(i int) (refs []metav1.OwnerReference) {
			for j := range n {
				refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: fmt.Sprintf("X%dx%d", i, j), Name: "a", UID: "u"})
			}
			return refs
		}
	}
	ask(madeUp(decision.MaxOwners))
	few("kinds that there are not", 1, 0)
	ask(madeUp(2000))
	few("thousands of them", 0, 0)
	w.now = w.now.Add(discoverEvery)
	ask(madeUp(1))
	few("a minute later", 1, 0)
	ask(func(i int) (refs []metav1.OwnerReference) {
		for j := range decision.MaxOwners {
			refs = append(refs, ownerNamed(fmt.Sprintf("a%dx%d", i, j)))
		}
		return refs
	})
	few("names that there are not", 0, claims*decision.MaxOwners)

	w.answers(metricsGroup, http.StatusServiceUnavailable)
	w.now = w.now.Add(discoverEvery)
	o := w.owned(ownerNamed("gone"), metav1.OwnerReference{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics", Name: "a", UID: "u"})
	for range 100 {
		if _, err := w.owners.ending(t.Context(), o, false); err == nil {
			t.Fatal("an API that does not answer holds")
		}
	}
	few("an API that does not answer for long", 2, 1)
}

func TestL4_AClaimOfMoreOwnersThanAreLookedAtSaysSo(t *testing.T) {
	t.Parallel()
	w := newOwnersWorld(t)
	o := w.owned(make([]metav1.OwnerReference, decision.MaxOwners+1)...)
	o.SetDeletionTimestamp(&metav1.Time{Time: w.now})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
	server := fakeapi.New(fakeapi.Builder().WithObjects(namespace, postgresql()))
	r, l := &reconciler{common: &common{owners: w.owners}}, &look{key: key, object: o}
	for range 2 {
		if err := r.lookAtEnding(t.Context(), l, input{Reader: server, object: o, cached: true}); !errors.Is(err, errIncomplete) {
			t.Errorf("by the cache: %v", err)
		}
		if err := r.lookAtEnding(t.Context(), l, input{Reader: server, object: o}); err != nil || l.facts.Ending != decision.OwnerEnds || l.facts.Owners != decision.MaxOwners+1 {
			t.Errorf("%q of %d owners, error %v", l.facts.Ending, l.facts.Owners, err)
		}
	}
}
