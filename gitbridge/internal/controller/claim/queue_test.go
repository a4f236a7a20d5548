package claim

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatJustChangedGoesFirst(t *testing.T) {
	q := NewQueue()
	defer q.ShutDown()
	for i := range 3 {
		q.Enqueue(fmt.Sprint("check-", i), false)
	}
	q.Enqueue("new-0", true)
	q.Enqueue("check-2", true)
	q.Enqueue("new-1", true)
	q.Enqueue("new-0", false)
	var got []string
	for q.Len() > 0 {
		r, _ := q.Get()
		got = append(got, r.Path)
		q.Done(r)
	}
	if diff := cmp.Diff([]string{"new-0", "check-2", "new-1", "check-0", "check-1"}, got); diff != "" {
		t.Errorf("order (-want +got): %s", diff)
	}
}

func TestAPathThatIsWorkedOnComesAgain(t *testing.T) {
	q := NewQueue()
	defer q.ShutDown()
	q.Enqueue("a", true)
	r, _ := q.Get()
	q.Enqueue("b", false)
	q.Enqueue("a", true)
	if q.Len() != 1 {
		t.Errorf("%d in the queue while a is worked on, want b", q.Len())
	}
	q.Done(r)
	if r, _ := q.Get(); r.Path != "a" {
		t.Errorf("next is %s, want a, which is urgent", r.Path)
	}
}

func TestAChangeThatIsTriedAgainWaitsForNoChecks(t *testing.T) {
	q := NewQueue()
	defer q.ShutDown()
	q.Enqueue("new", true)
	r, _ := q.Get()
	at := q.changedAt(r.Path)
	q.Enqueue("check", false)
	q.notYet(r.Path, at)
	q.Done(r)
	q.Add(r)
	if r, _ = q.Get(); r.Path != "new" {
		t.Fatalf("%s comes before what could not be done at once", r.Path)
	}
	q.changedAt(r.Path)
	q.Done(r)
	q.Add(r)
	if r, _ = q.Get(); r.Path != "check" {
		t.Errorf("%s comes first though it was done", r.Path)
	}
}
