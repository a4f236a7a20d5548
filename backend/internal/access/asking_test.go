package access

import (
	"testing"
	"testing/synctest"

	"gitbind.dev/backend/internal/login"
)

func TestH7_OnePersonsRequestsAreBoundedAndNobodyElses(t *testing.T) {
	var a Asking
	mallory, alice := login.Identity{Issuer: "i", Subject: "mallory"}, login.Identity{Issuer: "i", Subject: "alice"}
	synctest.Test(t, func(t *testing.T) {
		let := 0
		for range 1000 {
			if a.May(mallory) == nil {
				let++
			}
		}
		if let != askAtOnce {
			t.Errorf("%d of 1000 at once", let)
		}
		if a.May(alice) != nil || a.May(login.Identity{Issuer: "j", Subject: "mallory"}) != nil {
			t.Error("others are kept out")
		}
	})
}
