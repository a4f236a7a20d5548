package guard

import (
	"testing"

	"gitbind.dev/gitbridge/contract"
)

func TestWhichStatusIsTheOneThatWasKnown(t *testing.T) {
	for _, tc := range []struct {
		known, now Observed
		want       contract.Reason
	}{
		{Observed{}, Observed{}, ""},
		{Observed{}, Observed{"e1", 3}, ""},
		{Observed{"e1", 3}, Observed{"e1", 3}, ""},
		{Observed{"e1", 3}, Observed{"e1", 4}, ""},
		{Observed{"e1", 3}, Observed{"e1", 2}, StatusBehind},
		{Observed{"e1", 3}, Observed{"e2", 4}, StatusReplaced},
		{Observed{"e1", 3}, Observed{}, StatusMissing},
	} {
		if got := JudgeStatus(tc.known, tc.now); got.Reason != tc.want || got.IsHeld() != (tc.want != "") {
			t.Errorf("%+v after %+v: %+v, want %q", tc.now, tc.known, got, tc.want)
		}
	}
}
