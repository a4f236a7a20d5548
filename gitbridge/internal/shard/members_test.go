package shard

import "testing"

func TestMembersJoinAndLeave(t *testing.T) {
	m := &Members{joined: map[string]int64{}}
	m.put("a", true)
	m.put("b", true)
	m.put("c", false)
	if !m.Has("a") || m.Has("c") || !m.HasNamespace("gb-a") || !m.HasNamespace("gb-b-team-a") || m.HasNamespace("gb-c") || m.HasNamespace("a") || m.HasNamespace("gb-ab") {
		t.Error("they are others than those that joined")
	}
	first, _ := m.Joined("b")
	m.put("b", true)
	if again, ok := m.Joined("b"); !ok || again != first {
		t.Error("who is there joins again")
	}
	m.put("b", false)
	last, left := m.Moment()
	if m.Has("b") || last != left || left <= first {
		t.Errorf("it left at %d, after %d", left, first)
	}
	m.put("b", true)
	if again, _ := m.Joined("b"); again <= left {
		t.Errorf("who comes back has joined at %d, before it left", again)
	}
}
