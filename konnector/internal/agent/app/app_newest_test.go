package app

import (
	"testing"

	"gitbind.dev/gitbridge/encryption"
)

// Keys change while the ones before are being set: what stays is the newest.
func TestTheNewestKeysAreSetLast(t *testing.T) {
	t.Parallel()
	first, second := &encryption.Opener{Cluster: "first"}, &encryption.Opener{Cluster: "second"}
	newest := first
	var is *encryption.Opener
	setNewest(func(o *encryption.Opener) {
		if newest == first {
			newest = second
			setNewest(func(o *encryption.Opener) { is = o }, func() *encryption.Opener { return newest })
		}
		is = o
	}, func() *encryption.Opener { return newest })
	if is != second {
		t.Errorf("it is %v", is.Cluster)
	}
}
