package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func newRecreation() (r *Recreation, enqueued *[]string) {
	enqueued = new([]string)
	return &Recreation{enqueue: func(path string, _ bool) { *enqueued = append(*enqueued, path) }, changed: func() {}}, enqueued
}

func TestAnApprovalCountsForWhatIsMissingUntilItIsMade(t *testing.T) {
	t.Parallel()
	r, enqueued := newRecreation()
	r.Set("x/,\ny/b z")
	approved := r.Open()
	if r.Includes("x/a") || r.Rest() != "x/,\ny/b z" {
		t.Error("it counts before it is known what is missing")
	}
	for path, want := range map[string][2]bool{"x/a": {true, false}, "x/a/b": {true, false}, "y/b": {true, true}, "y/bc": {}, "y": {}, "xx": {}, "z": {true, true}} {
		if got := [2]bool{approved.Includes(path), approved.Names(path)}; got != want {
			t.Errorf("%s is included and named: %v", path, got)
		}
	}
	r.Take(approved, []string{"x/b", "x/a"})
	if !slices.Equal(*enqueued, []string{"x/b", "x/a"}) || !r.Includes("x/a") || r.Includes("x/c") || r.Open() != nil {
		t.Errorf("enqueued %v, counts for %v", *enqueued, r.Paths())
	}
	// What is written is read after a while only, and something else is not written meanwhile.
	if rest := r.Rest(); rest != "x/a,x/b" {
		t.Errorf("left is %q", rest)
	}
	r.Drop([]string{"x/a"})
	r.Set("x/,\ny/b z")
	if rest := r.Rest(); rest != "x/a,x/b" || r.Open() != nil {
		t.Errorf("before it is read, left is %q", rest)
	}
	r.Set("x/a,x/b")
	if rest := r.Rest(); rest != "x/b" || r.Open() != nil || r.Includes("x/a") {
		t.Errorf("once it is read, left is %q", rest)
	}
	r.Set("x/b")
	r.Drop([]string{"x/b"})
	if rest := r.Rest(); rest != "" {
		t.Errorf("at last, left is %q", rest)
	}
	r.Set("")
	r.Set("x/b")
	if r.Open() == nil {
		t.Error("it cannot be approved once more")
	}
}

func TestAnApprovalThatIsAnotherOneByNowIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	r, enqueued := newRecreation()
	r.Set("x")
	approved := r.Open()
	r.Set("y")
	r.Take(approved, []string{"x/a"})
	if len(*enqueued) > 0 || r.Includes("x/a") || r.Open() == nil {
		t.Errorf("enqueued %v, counts for %v", *enqueued, r.Paths())
	}
	r.Take(r.Open(), []string{"y/a"})
	r.Set("")
	if r.Includes("y/a") || r.Open() != nil || r.Rest() != "" {
		t.Error("it counts though it was withdrawn")
	}
}

func TestAnApprovalOfMoreThanAnAnnotationHoldsIsWrittenBitByBit(t *testing.T) {
	t.Parallel()
	r, _ := newRecreation()
	r.Set("x")
	var missing []string
	for i := range 2000 {
		missing = append(missing, fmt.Sprintf("x/%s-%04d", strings.Repeat("n", 60), i))
	}
	r.Take(r.Open(), missing)
	for n := 0; n < len(missing); {
		rest := r.Rest()
		written := strings.Split(rest, ",")
		if len(rest) > maxAnnotation || !slices.Equal(written, missing[n:n+len(written)]) || !r.Includes(missing[len(missing)-1]) {
			t.Fatalf("%d of them in %d bytes", len(written), len(rest))
		}
		r.Set(rest)
		r.Drop(written)
		n += len(written)
	}
	if rest := r.Rest(); rest != "" {
		t.Errorf("left is %q", rest)
	}
}
