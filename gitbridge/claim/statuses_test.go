package claim

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func someStatus(i int) *Status {
	return &Status{
		APIVersion: APIVersion, Kind: "ClaimStatus", Metadata: StatusMeta{Name: fmt.Sprint("orders-", i), Namespace: "team-a"},
		Answers: Answers{Blob: "b7c1", Commit: "c0ffee"}, Result: Denied, Problem: &Problem{File: "f", Line: 3, Reason: "no"},
		Effective: map[string]any{"plan": nil},
		Status: map[string]any{
			"managed":    map[string]any{"clusterStatus": "Running", "readyReplicas": int64(1)},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2026-11-21T12:00:00Z", "message": ""}},
		},
	}
}

func TestStatusesDecodeOnceAndShareNothing(t *testing.T) {
	var s Statuses
	want := someStatus(1)
	data, err := EncodeStatus(want)
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	read := func() ([]byte, error) { reads++; return data, nil }
	for range 3 {
		got, err := s.Decode("1", read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		got.Problem.Reason, got.Result = "mine", Applied
		got.Effective["plan"] = "mine"
		got.Status["conditions"].([]any)[0].(map[string]any)["status"] = "mine"
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
	for i := range 3 * recentStatuses {
		if _, err := s.Decode(fmt.Sprint("x", i), read); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.recent) + len(s.older); n > 2*recentStatuses {
		t.Errorf("%d are kept", n)
	}
	if _, err := s.Decode("1", func() ([]byte, error) { return nil, errors.New("gone") }); err == nil {
		t.Error("it is kept for ever")
	}
	if _, err := s.Decode("bad", func() ([]byte, error) { return []byte("kind: Other"), nil }); err == nil || s.known("bad") != nil {
		t.Errorf("what is no ClaimStatus: %v", err)
	}
}

func BenchmarkDecodeStatus(b *testing.B) {
	data, err := EncodeStatus(someStatus(1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := DecodeStatus(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStatuses(b *testing.B) {
	data, err := EncodeStatus(someStatus(1))
	if err != nil {
		b.Fatal(err)
	}
	var s Statuses
	for b.Loop() {
		if _, err := s.Decode("1", func() ([]byte, error) { return data, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
