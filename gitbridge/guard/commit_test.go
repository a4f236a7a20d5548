package guard

import (
	"maps"
	"slices"
	"testing"
	"time"

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
		if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(Ordered(tc.commits))), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestOnlyTheKonnectorsWordSaysWhatWasRemoved(t *testing.T) {
	update := contract.TrailerObject + ": " + contract.ObjectTrailer{Key: keyOf(2), UID: "u", Generation: 1, Blob: "b"}.String()
	c := removal(true, 0, 1, 3)
	c.Message += update
	if diff := cmp.Diff(pathsOf(1, 3), c.Removed()); diff != "" {
		t.Error(diff)
	}
	c.Konnector = false
	if diff := cmp.Diff([]string{}, c.Removed(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
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
		if diff := cmp.Diff(tc.want, UIDs(tc.commits), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
