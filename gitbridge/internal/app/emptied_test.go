package app_test

import (
	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
)

// testEmptied takes the last entry out of a map, which server-side apply alone
// makes null of.
func testEmptied(w *world, apis apis) {
	t := w.tenant(apis.postgresql)
	orders := path(apis.postgresql, "team-a", "orders")
	t.push("Order", map[string]string{orders: manifest(orders, nano+"\n  parameters: {maxConnections: 120}")})
	t.wantObject(orders, "spec.plan", "postgresql-single-nano")
	uid := t.object(orders).GetUID()
	t.push("Take the last parameter out", map[string]string{orders: manifest(orders, small+"\n  parameters: {}")})
	t.wantObject(orders, "spec.plan", "postgresql-single-small")
	t.wantObserved()
	if s := t.wantAnswer(orders, contract.Applied); s.Message != "" {
		w.Errorf("it says %q", s.Message)
	}
	u := t.object(orders)
	if diff := cmp.Diff(map[string]any{}, u.Object["spec"].(map[string]any)["parameters"]); diff != "" || u.GetUID() != uid {
		w.Errorf("uid %s → %s, parameters: %s", uid, u.GetUID(), diff)
	}
}
