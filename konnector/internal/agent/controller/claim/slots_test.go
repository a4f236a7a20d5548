package claim

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
)

func TestEachClaimWithoutASlotIsCalledOnce(t *testing.T) {
	keys := func(names ...string) (all []contract.Key) {
		for _, name := range names {
			all = append(all, contract.Key{Name: name})
		}
		return all
	}
	slots := &slots{most: 2}
	var got []bool
	for _, key := range keys("a", "b", "c", "d", "c", "e") {
		got = append(got, slots.take(key))
	}
	if want := []bool{true, true, false, false, false, false}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("slots: %v, want %v", got, want)
	}
	for i, want := range [][]contract.Key{nil, keys("c"), keys("d", "e"), nil} {
		if diff := cmp.Diff(want, slots.next()); diff != "" {
			t.Errorf("called after %d ends: %s", i, diff)
		}
		if i < 2 {
			slots.end()
		}
	}
	if !slots.take(keys("c")[0]) || !slots.take(keys("d")[0]) || slots.take(keys("x")[0]) {
		t.Error("there are not two slots again")
	}
}
