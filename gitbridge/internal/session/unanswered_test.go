package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/gitbridge/contract"
	"gitbind.dev/gitbridge/guard"
	"gitbind.dev/gitbridge/store"
	"gitbind.dev/gitbridge/store/limits"
)

func TestH2_OneHistoryNamesNoMoreClaimsThanMainMayHave(t *testing.T) {
	t.Parallel()
	var message strings.Builder
	for i := range limits.Paths + 1 {
		key := contract.Key{Binding: "a.b", Namespace: "n", Name: fmt.Sprint("x", i)}
		fmt.Fprintf(&message, "%s: %s\n", contract.TrailerObject, contract.ObjectTrailer{Key: key, UID: "u", Generation: 1})
	}
	commits := []guard.Commit{{Konnector: true, Message: message.String()}}
	s := &Session{}
	uids, err := s.uidsOf(commits, "c1")
	if limit := (*store.LimitError)(nil); uids != nil || !errors.As(err, &limit) || limit.Passing || limit.Head != "c1" {
		t.Errorf("%d UIDs, %+v", len(uids), err)
	}
	s.approved = "c1"
	if uids, err := s.uidsOf(commits, "c1"); len(uids) > 0 || err != nil {
		t.Errorf("approved: %d UIDs, %v", len(uids), err)
	}
}

// What is counted wrongly adds up, until main waits for ever.
func TestH2_AClaimThatIsNamedAgainCountsOnce(t *testing.T) {
	t.Parallel()
	u := unanswered{uids: map[string]string{}}
	u.add(map[string]string{"a": "u1", "bc": "u"})
	u.add(map[string]string{"a": "u2"})
	u.answered("a", "u1")
	u.answered("d", "")
	if want := (limits.Tree{Paths: 2, Bytes: 3, Depth: 1}); u.extent != want || u.uids["a"] != "u2" {
		t.Errorf("%+v, %q", u.extent, u.uids)
	}
	u.answered("a", "u2")
	u.answered("bc", "u")
	if u.extent.Paths != 0 || u.extent.Bytes != 0 || len(u.uids) > 0 {
		t.Errorf("%+v, %q", u.extent, u.uids)
	}
}
