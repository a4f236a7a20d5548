package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/gitbridge/contract"
)

func TestWhichHeadOfMainIsAccepted(t *testing.T) {
	for _, tc := range []struct {
		name string
		main Main
		want contract.Reason
	}{
		{"a descendant", Main{Head: "b", Accepted: "a", Descends: true}, ""},
		{"first contact", Main{Head: "b"}, ""},
		{"first contact with a tree without files", Main{Head: "b", Empty: true}, ""},
		{"first contact without a branch", Main{Empty: true}, MainMissing},
		{"first contact without a branch, of who writes it", Main{Empty: true, Writer: true}, ""},
		{"no branch any more", Main{Accepted: "a", Empty: true}, MainMissing},
		{"no branch any more, of who writes it", Main{Accepted: "a", Empty: true, Writer: true}, MainMissing},
		{"another history", Main{Head: "b", Accepted: "a"}, MainRewritten},
		{"another history, of who writes it", Main{Head: "b", Accepted: "a", Writer: true}, MainRewritten},
		{"no file any more", Main{Head: "b", Accepted: "a", Descends: true, Empty: true}, MainEmptied},
		{"no file any more, of who writes it", Main{Head: "b", Accepted: "a", Descends: true, Empty: true, Writer: true}, ""},
		{"status is another one", Main{Head: "b", Accepted: "a", Descends: true, StatusLost: true}, StatusLost},
		{"first contact beside another status", Main{Head: "b", StatusLost: true}, StatusLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(Verdict{Reason: tc.want, Commit: tc.main.Head}, tc.main.Judge()); diff != "" {
				t.Error(diff)
			}
			tc.main.Approval = "another"
			if got := tc.main.Judge(); got.Reason != tc.want || got.Approved {
				t.Errorf("with the approval of another head: %+v", got)
			}
			tc.main.Approval = tc.main.Head
			got := tc.main.Judge()
			if tc.main.Head == "" {
				if got.Reason != tc.want || got.Approved {
					t.Errorf("what is not there was approved: %+v", got)
				}
			} else if got.IsHeld() || got.Approved != (tc.want != "") {
				t.Errorf("approved: %+v", got)
			}
		})
	}
}
