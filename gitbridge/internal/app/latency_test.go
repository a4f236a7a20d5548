package app_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/claim"
	"gitbind.dev/test/env"
)

// TestLatency measures how long a change takes through the bridge, one at a
// time. It fails only on what nobody could call quick: machines differ,
// and may have much else to do. What waits for a poll takes many times as long.
func TestLatency(t *testing.T) {
	w := newWorld(t, env.Options{})
	postgresql := w.define(postgresqlFile)
	w.startBridge()
	tn := w.tenant(postgresql)
	warm := path(postgresql, "team-a", "warm")
	tn.push("Warm up", map[string]string{warm: manifest(warm, nano)})
	tn.wantAnswer(warm, claim.Applied)

	watcher, err := client.NewWithWatch(w.control().Config(), client.Options{})
	w.must(err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "anynines.com", Version: "v1", Kind: "PostgresqlInstanceList"})
	objects, err := watcher.Watch(t.Context(), list)
	w.must(err)
	defer objects.Stop()
	pushes, end := w.host.Listen(tn.id)
	defer end()

	const rounds = 30
	var down, up, answered []time.Duration
	for i := range rounds {
		p := path(postgresql, "team-a", fmt.Sprintf("db-%d", i))
		key, _ := claim.ParsePath(p)
		head := w.host.head(tn.id, "status")
		tn.push("Order", map[string]string{p: manifest(p, nano)})
		pushed := time.Now()
		for e := range objects.ResultChan() {
			if u := e.Object.(*unstructured.Unstructured); e.Type == watch.Added && u.GetName() == key.Name {
				break
			}
		}
		down = append(down, time.Since(pushed))
		head = waitMoved(pushes, head)
		answered = append(answered, time.Since(pushed))
		tn.wantAnswer(p, claim.Applied)

		tn.setStatus(p, map[string]any{"managed": map[string]any{"clusterStatus": fmt.Sprint(i)}})
		set := time.Now()
		waitMoved(pushes, head)
		up = append(up, time.Since(set))
	}
	for what, times := range map[string][]time.Duration{
		"file pushed → object there": down, "file pushed → answer pushed": answered, "object's status changed → status pushed": up,
	} {
		slices.Sort(times)
		w.Logf("%s: p50 %s, p90 %s, max %s", what, times[rounds/2].Round(100*time.Microsecond), times[rounds*9/10].Round(100*time.Microsecond), times[rounds-1].Round(100*time.Microsecond))
		if times[rounds/2] > 3*time.Second {
			w.Errorf("%s: p50 is %s", what, times[rounds/2])
		}
	}
}

// waitMoved waits until status is elsewhere, and returns where.
func waitMoved(pushes <-chan moved, from string) string {
	for m := range pushes {
		if m.Ref == "refs/heads/status" && m.Hash != from {
			return m.Hash
		}
	}
	return ""
}
