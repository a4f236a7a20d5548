package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/test/env"
	"gitbind.dev/test/webhook"
)

// mutate has a webhook set spec.parameters.logStatement of the world's claims, and
// waits until the API server asks it.
func (w *world) mutate(value func(before string) string) {
	w.Helper()
	server, err := webhook.Install(w.Context(), w.admin, w.name, schema.GroupResource{Group: w.group, Resource: w.plural}, func(object []byte) ([]byte, error) {
		var u struct {
			Spec struct{ Parameters map[string]any }
		}
		if err := json.Unmarshal(object, &u); err != nil {
			return nil, err
		}
		before, _ := u.Spec.Parameters["logStatement"].(string)
		if u.Spec.Parameters == nil {
			return fmt.Appendf(nil, `[{"op":"add","path":"/spec/parameters","value":{"logStatement":%q}}]`, value(before)), nil
		}
		return fmt.Appendf(nil, `[{"op":"add","path":"/spec/parameters/logStatement","value":%q}]`, value(before)), nil
	})
	w.must(err)
	w.Cleanup(server.Close)
	w.eventually("the webhook is asked", func() error {
		u := w.object("attempt", spec("small"))
		if err := w.alice.Create(w.Context(), u, client.DryRunAll); err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(u.Object, "spec", "parameters", "logStatement"); got == "" {
			return errors.New("it is not")
		}
		return nil
	})
}

// quiet waits until the konnector has written nothing for a while.
func (w *world) quiet() {
	w.Helper()
	commits, since := len(w.log("%h")), time.Now()
	w.eventually("the konnector is quiet", func() error {
		if n, writes := len(w.log("%h")), w.writes.take(w.group); n != commits || len(writes) > 0 {
			since, commits = time.Now(), n
		}
		if time.Since(since) < time.Second {
			return errors.New("it writes")
		}
		return nil
	})
}

// atMostCommits fails where main got more commits than these since there were some.
func (w *world) atMostCommits(most, before int) {
	w.Helper()
	if n := len(w.log("%h")) - before; n > most {
		w.Errorf("%d commits, the most is %d:\n%s", n, most, strings.Join(w.log("%s (%an)"), "\n"))
	}
}

// TestL9_AWebhookThatStampsEachWrite has a webhook write another value with each
// write of anybody, also with the konnector's own.
func TestL9_AWebhookThatStampsEachWrite(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	for _, name := range []string{"first", "second", "third"} {
		w.apply(name, spec("small"))
		w.committed(name)
	}
	var stamps atomic.Int64
	w.mutate(func(string) string { return fmt.Sprint(stamps.Add(1)) })

	before := len(w.log("%h"))
	w.apply("orders", spec("small"))
	w.fileIs("orders", plan("small"))
	w.quiet()
	w.committed("orders")
	w.atMostCommits(1, before)

	w.setSpec("orders", "medium", "plan")
	w.fileIs("orders", plan("medium"))
	w.quiet()
	w.atMostCommits(2, before)

	w.commit("orders", "service: a9s-postgresql13", "plan: big")
	w.objectIs("orders", plan("big"))
	w.quiet()
	w.atMostCommits(3, before)

	// A restart finds nothing to do.
	w.stop()
	w.start()
	w.quiet()
	w.atMostCommits(3, before)

	// What Git orders is stamped, too, and Git's removal is no conflict with it.
	w.commit("billing", "service: a9s-postgresql13", "plan: big")
	w.objectIs("billing", plan("big"))
	w.quiet()
	w.atMostCommits(4, before)
	w.commit("orders")
	w.terminates("orders")
}

// TestL9_AControllerAgainstWriterGit has something in the cluster write what only Git
// may. The policies let labels pass.
func TestL9_AControllerAgainstWriterGit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	// A konnector that has yet to hear of it would commit the label.
	w.stop()
	w.setWriter(v1alpha1.WriterGit)
	w.start()
	stop := w.controller("labeler", func(u *unstructured.Unstructured) bool {
		if u.GetLabels()["team"] == "a" {
			return false
		}
		u.SetLabels(map[string]string{"team": "a"}) // a key that travels
		return true
	})
	m := w.heldForManyWrites("orders")
	for _, want := range []string{"metadata.labels.team", "labeler"} {
		if !strings.Contains(m, want) {
			t.Errorf("%q does not say %s", m, want)
		}
	}
	w.quiet()
	stop()
	w.decideOn("orders", "ManyWrites", "file")
	w.eventually("the label is gone", func() error {
		if labels := w.get("orders").GetLabels(); labels["team"] != "" {
			return fmt.Errorf("labels %v", labels)
		}
		return nil
	})
}

// TestL9_AControllerThatAnswersEachWrite has something in the cluster write another
// value whenever the object changes, also when the konnector wrote its base.
func TestL9_AControllerThatAnswersEachWrite(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	w.apply("orders", spec("small"))
	w.committed("orders")
	before := len(w.log("%h"))
	n := int64(0)
	stop := w.controller("counter", func(u *unstructured.Unstructured) bool {
		n++
		w.must(unstructured.SetNestedField(u.Object, n, "spec", "parameters", "maxConnections"))
		return true
	})
	m := w.heldForManyWrites("orders")
	for _, want := range []string{"spec.parameters.maxConnections", "counter"} {
		if !strings.Contains(m, want) {
			t.Errorf("%q does not say %s", m, want)
		}
	}
	w.quiet()
	stop()
	w.atMostCommits(100, before)
	w.decideOn("orders", "ManyWrites", "cluster")
	w.committed("orders")
	w.conditionIs("orders", "Held", "None")
}

// heldForManyWrites waits as long as a busy machine may take for so many writes.
func (w *world) heldForManyWrites(name string) (message string) {
	w.Helper()
	err := env.Await(4*time.Minute, func() error {
		_, reason, m := condition(w.get(name), "Held")
		if message = m; reason != "ManyWrites" {
			return fmt.Errorf("it is %s: %s", reason, m)
		}
		return nil
	})
	if err != nil {
		w.Fatalf("never held: %v", err)
	}
	return message
}

// controller is somebody's controller of the claim orders, by the name of a field
// manager: it changes the object each time it sees another version of it.
func (w *world) controller(manager string, change func(*unstructured.Unstructured) bool) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := ""
		for ctx.Err() == nil {
			u := w.object("orders", nil)
			if err := w.alice.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil || u.GetResourceVersion() == seen || !change(u) {
				time.Sleep(20 * time.Millisecond) // Each look is a request.
				continue
			}
			if w.alice.Update(ctx, u, client.FieldOwner(manager)) == nil {
				seen = u.GetResourceVersion()
			}
		}
	}()
	stop = func() { cancel(); <-done }
	w.Cleanup(stop)
	return stop
}

// TestL9_AWebhookAtCreationIsNoEdit has a konnector create an object from a file, and end
// before it has recorded what a webhook made of it. The file is removed meanwhile.
func TestL9_AWebhookAtCreationIsNoEdit(t *testing.T) {
	t.Parallel()
	w := newLoop(t)
	for _, name := range []string{"first", "second", "third", "fourth"} {
		w.apply(name, spec("small"))
		w.committed(name)
	}
	w.mutate(func(string) string { return "hooked" })
	w.writes.refuseIf(func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/postgresqlinstances/") && r.Method != http.MethodPost
	})
	hooked := field("hooked", "parameters", "logStatement")
	w.commit("removed", "service: a9s-postgresql13", "plan: small")
	w.objectIs("removed", hooked)
	w.commit("edited", "service: a9s-postgresql13", "plan: small")
	w.objectIs("edited", hooked)
	w.stop()
	w.writes.refuseIf(nil)
	before := len(w.log("%h"))
	w.setSpec("edited", "big", "plan")
	w.commit("removed")
	w.start()
	w.terminates("removed")
	// What somebody edited since is an edit.
	w.fileIs("edited", plan("big"))
	w.committed("edited")
	w.atMostCommits(2, before)
}
