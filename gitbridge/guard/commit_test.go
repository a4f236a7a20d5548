package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"gitbind.dev/gitbridge/contract"
)

// order is a commit that makes claims of objects of a generation.
func order(konnector bool, at time.Duration, generation int64, of ...int) Commit {
	c := removal(konnector, at)
	for _, i := range of {
		c.Message += contract.TrailerObject + ": " + contract.ObjectTrailer{Key: keyOf(i), UID: "u", Generation: generation, Blob: "b"}.String() + "\n"
	}
	return c
}

func TestL10_OnlyWhatTheKonnectorMadeOfNewObjectsWasOrdered(t *testing.T) {
	for name, tc := range map[string]struct {
		commits []Commit
		want    []string
	}{
		"a new object":                 {[]Commit{order(true, 0, 1, 1, 2)}, pathsOf(1, 2)},
		"and edited since":             {[]Commit{order(true, 1, 5, 1), order(true, 0, 1, 1)}, pathsOf(1)},
		"in the second life":           {[]Commit{order(true, 2, 1, 1), removal(true, 1, 1), order(true, 0, 4, 1)}, pathsOf(1)},
		"made of a file, and edited":   {[]Commit{order(true, 0, 2, 1)}, nil},
		"of a file in the second life": {[]Commit{order(true, 2, 2, 1), removal(true, 1, 1), order(true, 0, 1, 1)}, nil},
		"a removal":                    {[]Commit{removal(true, 0, 1)}, nil},
		"what a person says":           {[]Commit{order(false, 0, 1, 1)}, nil},
	} {
		if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(Ordered(tc.commits, nil))), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestOnlyTheKonnectorsWordSaysWhatWasRemoved(t *testing.T) {
	update := contract.TrailerObject + ": " + contract.ObjectTrailer{Key: keyOf(2), UID: "u", Generation: 1, Blob: "b"}.String()
	c := removal(true, 0, 1, 3)
	c.Message += update
	if diff := cmp.Diff(pathsOf(3, 1), c.Removed()); diff != "" {
		t.Error(diff)
	}
	c.Konnector = false
	if diff := cmp.Diff([]string{}, c.Removed(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// A message may be a thousand times as long as what is kept of it.
func TestAUIDKeepsNoMessageInMemory(t *testing.T) {
	t.Parallel()
	data := []byte(contract.TrailerObject + ": " + contract.ObjectTrailer{Key: keyOf(1), UID: "u", Generation: 1}.String() + strings.Repeat("\n", 1<<20))
	collected := make(chan struct{})
	runtime.AddCleanup(&data[0], func(done chan struct{}) { close(done) }, collected)
	uids, _ := UIDs([]Commit{{Konnector: true, Message: unsafe.String(&data[0], len(data))}}, room(1))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-collected:
			if uids[pathsOf(1)[0]] != "u" {
				t.Errorf("%q", uids)
			}
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the message is still there")
		}
	}
}

// room is for a number of paths.
func room(paths int) func(string) bool {
	return func(string) bool {
		paths--
		return paths >= 0
	}
}

func TestAUIDIsTheOneThatTheKonnectorNamedLast(t *testing.T) {
	named := func(konnector bool, at time.Duration, uid string) Commit {
		c := removal(konnector, at)
		c.Message += contract.TrailerObject + ": " + contract.ObjectTrailer{Key: keyOf(1), UID: uid, Generation: 1, Blob: "b"}.String() + "\n"
		return c
	}
	for name, tc := range map[string]struct {
		commits []Commit
		want    map[string]string
	}{
		"the last one":        {[]Commit{named(true, 1, "u2"), named(true, 0, "u1")}, map[string]string{pathsOf(1)[0]: "u2"}},
		"not what others say": {[]Commit{named(false, 1, "u2"), named(true, 0, "u1")}, map[string]string{pathsOf(1)[0]: "u1"}},
		"nor others alone":    {[]Commit{named(false, 1, "u2")}, nil},
	} {
		got, all := UIDs(tc.commits, room(math.MaxInt))
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" || !all {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// named gives a commit a name and parents.
func named(hash string, c Commit, parents ...string) Commit {
	c.Hash, c.Parents = hash, parents
	return c
}

func TestL10_ADeleteOfAnEarlierLifeIsNone(t *testing.T) {
	// A person's branch is merged after the delete, and a reviewed delete after what was known.
	linear := []Commit{named("3", removal(false, 3), "2"), named("2", removal(true, 2, 1), "1"), named("1", removal(false, 1), "0")}
	merged := []Commit{named("4", removal(false, 4), "3", "side"), named("3", removal(false, 3), "0"), named("side", removal(true, 1, 1), "0")}
	twice := []Commit{named("4", removal(true, 4, 1), "3"), named("3", order(true, 3, 1, 1), "2"), named("2", removal(true, 2, 1), "1")}
	for name, tc := range map[string]struct {
		commits []Commit
		since   []string
		want    map[string]int
	}{
		"nothing is known":                  {linear, nil, map[string]int{pathsOf(1)[0]: 1}},
		"known before":                      {linear, []string{"1"}, map[string]int{pathsOf(1)[0]: 1}},
		"known before all that was read":    {linear, []string{"0"}, map[string]int{pathsOf(1)[0]: 1}},
		"known at the delete itself":        {linear, []string{"2"}, nil},
		"known after":                       {linear, []string{"3"}, nil},
		"one of two is known after":         {linear, []string{"1", "3"}, nil},
		"merged after what was known":       {merged, []string{"3"}, map[string]int{pathsOf(1)[0]: 2}},
		"merged before what is known":       {merged, []string{"4"}, nil},
		"the second delete, after":          {twice, []string{"3"}, map[string]int{pathsOf(1)[0]: 0}},
		"the second one, known before both": {twice, []string{"1"}, map[string]int{pathsOf(1)[0]: 0}},
	} {
		if diff := cmp.Diff(tc.want, RemovedBy(tc.commits, func(string) []string { return tc.since }), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	ordered := []Commit{named("2", removal(false, 2), "1"), named("1", order(true, 1, 1, 1), "0")}
	for since, want := range map[string]bool{"0": true, "1": false, "2": false} {
		if got := Ordered(ordered, func(string) []string { return []string{since} }); got[pathsOf(1)[0]] != want {
			t.Errorf("ordered since %s: %v, want %v", since, got, want)
		}
	}
}

// One commit may hold several edits of a claim, in their order.
func TestL10_TheLastThatACommitSaysOfAClaimCounts(t *testing.T) {
	removed, made := removal(true, 0, 1), order(true, 0, 1, 1)
	for name, tc := range map[string]struct {
		message          string
		removed, ordered bool
	}{
		"removed, and made again": {removed.Message + made.Message, false, true},
		"made, and removed":       {made.Message + removed.Message, true, false},
	} {
		commits := []Commit{{Konnector: true, Message: tc.message}}
		if _, got := RemovedBy(commits, nil)[pathsOf(1)[0]]; got != tc.removed {
			t.Errorf("%s: removed %t", name, got)
		}
		if got := Ordered(commits, nil)[pathsOf(1)[0]]; got != tc.ordered {
			t.Errorf("%s: ordered %t", name, got)
		}
	}
	made.Message += strings.Replace(made.Message, "uid=u", "uid=later", 1)
	if got, _ := UIDs([]Commit{made}, room(1)); got[pathsOf(1)[0]] != "later" {
		t.Errorf("UID %q", got)
	}
}

func TestTheCommitsOfOthersAfterOne(t *testing.T) {
	person := func(name string, parents ...string) Commit { return named(name, removal(false, 0), parents...) }
	konnector := func(name string, parents ...string) Commit { return named(name, removal(true, 0), parents...) }
	commits := []Commit{
		person("merge", "two", "side"), person("two", "ours"), konnector("ours", "one"), person("one", "removed"),
		person("side", "before"), konnector("removed", "before"), person("before"),
	}
	want := []string{"merge", "one", "two"}
	for range 2 {
		got, err := After(t.Context(), commits, slices.IndexFunc(commits, func(c Commit) bool { return c.Hash == "removed" }))
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v %v, want %v", got, err, want)
		}
		slices.Reverse(commits) // by late clocks
	}
}

// linear is a history of so many commits of others, newest first, after a removal.
func linear(n int) []Commit {
	commits := make([]Commit, 0, n+1)
	for i := range n {
		commits = append(commits, named(fmt.Sprint(n-i), removal(false, 0), fmt.Sprint(n-i-1)))
	}
	return append(commits, named("0", removal(true, 0)))
}

// passes counts how often it is asked whether it has ended.
type passes struct {
	context.Context
	asked int
}

func (p *passes) Err() error {
	p.asked++
	return p.Context.Err()
}

func TestALongHistoryIsGoneThroughTwiceForWhatComesAfterACommit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	counted := &passes{Context: ctx}
	got, err := After(counted, linear(1000), 1000)
	if err != nil || len(got) != 1000 || counted.asked > 2 {
		t.Errorf("%d commits, %v, in %d passes", len(got), err, counted.asked)
	}
	cancel()
	if _, err := After(ctx, linear(1), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("it goes on after its end: %v", err)
	}
}

func BenchmarkAfter(b *testing.B) {
	for _, n := range []int{4000, 16000} {
		commits := linear(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := After(b.Context(), commits, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
