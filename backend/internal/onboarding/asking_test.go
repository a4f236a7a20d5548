package onboarding

import (
	"testing"

	"gitbind.dev/backend/internal/login"
)

func TestH7_OnePersonsRequestsAreBoundedAndNobodyElses(t *testing.T) {
	var a asking
	mallory, alice := login.Identity{Issuer: "i", Subject: "mallory"}, login.Identity{Issuer: "i", Subject: "alice"}
	let := 0
	for range 1000 {
		if a.may(mallory) {
			let++
		}
	}
	if let < askAtOnce || let > askAtOnce+askPerSecond {
		t.Errorf("%d of 1000 at once", let)
	}
	if !a.may(alice) || !a.may(login.Identity{Issuer: "j", Subject: "mallory"}) {
		t.Error("others are kept out")
	}
}
