package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"gitbind.dev/gitbridge/contract"
)

// rich is a claim with every sort of field.
const rich = `  size: 3
  mode: fast
  port: http
  topics: [{name: a, partitions: 3, labels: {k: v}}, {name: b}]
  users: [ann, bob]
  order: [one, two]
  steps: [{run: a}]
  place: {zone: z, rack: r}
  settings: {a: b}
  nested: {first: {enabled: true, ratio: 0.5}, empty: {}}
  free: {anything: {goes: 1}, list: [{a: b}]}
  template: {apiVersion: v1, kind: Pod, metadata: {name: x, labels: {k: v}, generateName: gen}, spec: {a: 1}}`

// edit changes the object of a claim as somebody on the control plane may.
func (t *tenant) edit(path, merge string) {
	t.Helper()
	u := t.object(path)
	t.must(t.admin.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(merge)), client.FieldOwner("admin")))
}

const brokersFile = "../export/testdata/brokers.live.yaml"

func TestC1_FieldsOfOthersStayAndOursAreSetBack(test *testing.T) {
	w := newWorld(test)
	brokers := w.define(brokersFile)
	w.startBridge()
	t := w.tenant(brokers)
	events := path(brokers, "team-a", "events")
	t.push("Order", map[string]string{events: manifest(events, rich)})
	t.wantAnswer(events, contract.Applied)
	applied := t.object(events)

	// Nothing is written again by itself, whatever sorts of fields there are, not
	// after a restart either.
	t.setStatus(events, map[string]any{"ready": true, "url": "amqp://x"})
	t.eventually("its status is there", func() error { return is(fmt.Sprint(t.answer(events).Status["url"]), "amqp://x") })
	w.bridge.stop()
	w.startBridge()
	t.wantSynced("Following")
	t.setStatus(events, map[string]any{"ready": true, "url": "amqp://y"})
	t.eventually("its status is there", func() error { return is(fmt.Sprint(t.answer(events).Status["url"]), "amqp://y") })
	if u := t.object(events); u.GetGeneration() != applied.GetGeneration() || times(u, "gitbind") != times(applied, "gitbind") {
		w.Errorf("it was applied again though nobody changed it:\n%v\n%v", applied.GetManagedFields(), u.GetManagedFields())
	}

	if n := corrections(t.id); n != 0 {
		w.Errorf("%v corrections of what nobody changed", n)
	}

	for _, c := range []struct{ what, edit, field, want string }{
		{"a changed value", `{"spec":{"mode":"safe"}}`, "spec.mode", "fast"},
		{"a value taken away", `{"spec":{"port":null}}`, "spec.port", "http"},
		{"a changed item", `{"spec":{"topics":[{"name":"a","partitions":9,"labels":{"k":"v"}},{"name":"b"}]}}`, "spec.topics", `[map[labels:map[k:v] name:a partitions:3] map[name:b partitions:3]]`},
		{"a changed atom", `{"spec":{"place":{"rack":"q"}}}`, "spec.place", "map[rack:r zone:z]"},
	} {
		// Each in a claim of its own: what is changed often is set back late.
		name := path(brokers, "team-a", strings.ReplaceAll(c.what, " ", "-"))
		t.push("Order", map[string]string{name: manifest(name, rich)})
		t.wantAnswer(name, contract.Applied)
		t.edit(name, `{"metadata":{"labels":{"cost":"42"}},"spec":{"owner":"anna","users":["ann","bob","eve"]}}`)
		t.edit(name, c.edit)
		t.eventually(c.what+" is set back", func() error {
			got, _, _ := unstructured.NestedFieldNoCopy(t.object(name).Object, strings.Split(c.field, ".")...)
			return is(fmt.Sprint(got), c.want)
		})
		u := t.object(name)
		owner, _, _ := unstructured.NestedString(u.Object, "spec", "owner")
		users, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "users")
		if owner != "anna" || len(users) != 3 || u.GetLabels()["cost"] != "42" {
			w.Errorf("%s: what others own went: owner %q, users %v, labels %v", c.what, owner, users, u.GetLabels())
		}
	}

	// Who changes it again and again is answered less often, and named.
	fought := path(brokers, "team-a", "fought")
	t.push("Order", map[string]string{fought: manifest(fought, rich)})
	t.wantAnswer(fought, contract.Applied)
	corrections := 0
	t.eventually("the fight is told", func() error {
		if mode, _, _ := unstructured.NestedString(t.object(fought).Object, "spec", "mode"); mode == "fast" {
			corrections++
			t.edit(fought, `{"spec":{"mode":"safe"}}`)
		}
		s := t.answer(fought)
		if s.Reason != contract.Contested || !strings.Contains(s.Message, "admin keeps changing spec.mode") {
			return fmt.Errorf("%s %q", s.Reason, s.Message)
		}
		return nil
	})
	version := t.object(fought).GetResourceVersion()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if u := t.object(fought); u.GetResourceVersion() != version && corrections > 3 {
			w.Fatalf("it goes on, after %d corrections", corrections)
		}
	}
	if s := t.answer(fought); s.Result != contract.Applied {
		w.Errorf("%+v", s)
	}
	if n, _ := counted("gitbind_bridge_claims", map[string]string{"cluster": t.id, "result": "Contested"}); n != 1 {
		w.Errorf("%v claims are counted as contested", n)
	}
	if n, _ := counted("gitbind_bridge_holds_total", map[string]string{"cluster": t.id, "reason": "Contested"}); n != 1 {
		w.Errorf("%v claims are counted that began to be contested", n)
	}
}

// corrections are those of a cluster's claims that were counted.
func corrections(id string) float64 {
	n, _ := counted("gitbind_bridge_drift_corrections_total", map[string]string{"cluster": id})
	return n
}

// counted is the sum of a metric's series with these labels, and whether there is one.
func counted(name string, labels map[string]string) (sum float64, isThere bool) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found := 0
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want == l.GetValue() {
					found++
				}
			}
			if found == len(labels) {
				sum, isThere = sum+m.GetCounter().GetValue()+m.GetGauge().GetValue(), true
			}
		}
	}
	return sum, isThere
}

// times are when a manager wrote last.
func times(u *unstructured.Unstructured, manager string) string {
	var out []string
	for _, e := range u.GetManagedFields() {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply {
			out = append(out, e.Time.String(), fmt.Sprint(len(e.FieldsV1.GetRawBytes())))
		}
	}
	return strings.Join(out, " ")
}
