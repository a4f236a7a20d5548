package flipflop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitbind.dev/konnector/internal/agent/merge"
)

var start = time.Unix(1_800_000_000, 0)

type write struct {
	after  time.Duration
	git    bool
	values []string // of plan, size
}

func changes(values []string) []merge.Change {
	var out []merge.Change
	for i, v := range values {
		if v != "" {
			out = append(out, merge.Change{Path: []string{"spec.plan", "spec.size"}[i], Value: v})
		}
	}
	return out
}

func TestThird(t *testing.T) {
	const git, cluster = true, false
	for _, tc := range []struct {
		name   string
		writes []write
		next   []string
		want   []string
	}{
		{"one pull request, undone once", []write{{0, git, []string{"big"}}}, []string{"small"}, nil},
		{"undone, and done again", []write{{0, git, []string{"big"}}, {1, cluster, []string{"small"}}, {1, git, []string{"big"}}}, []string{"small"}, []string{"spec.plan"}},
		{"among other fields", []write{{0, git, []string{"big", "1"}}, {1, cluster, []string{"small"}}, {1, git, []string{"big"}}}, []string{"small", "2"}, []string{"spec.plan"}},
		{"a third value is an edit", []write{{0, git, []string{"big"}}, {1, cluster, []string{"small"}}, {1, git, []string{"big"}}}, []string{"medium"}, nil},
		{"Git set another value", []write{{0, git, []string{"big"}}, {1, cluster, []string{"small"}}, {1, git, []string{"medium"}}}, []string{"small"}, nil},
		{"too long ago", []write{{0, git, []string{"big"}}, {1, cluster, []string{"small"}}, {600, git, []string{"big"}}}, []string{"small"}, nil},
		{"a user did again what Git had done", []write{{0, git, []string{"big"}}, {1, cluster, []string{"small"}}, {1, cluster, []string{"big"}}}, []string{"small"}, nil},
		{"one user, there and back", []write{{0, cluster, []string{"big"}}, {1, cluster, []string{"small"}}, {1, cluster, []string{"big"}}}, []string{"small"}, nil},
		{"Git sets another value each time", []write{{0, git, []string{"1"}}, {1, cluster, []string{"small"}}, {1, git, []string{"2"}}, {1, cluster, []string{"small"}}, {1, git, []string{"3"}}}, []string{"small"}, []string{"spec.plan"}},
		{"Git sets two values before it is undone", []write{{0, git, []string{"1"}}, {1, cluster, []string{"small"}}, {1, git, []string{"2"}}, {1, git, []string{"2b"}}, {1, cluster, []string{"small"}}, {1, git, []string{"3"}}}, []string{"small"}, []string{"spec.plan"}},
		{"the cluster sets another value each time", []write{{0, git, []string{"big"}}, {1, cluster, []string{"1"}}, {1, git, []string{"big"}}, {1, cluster, []string{"2"}}, {1, git, []string{"big"}}}, []string{"3"}, []string{"spec.plan"}},
		{"both set another value each time", []write{{0, git, []string{"1"}}, {1, cluster, []string{"a"}}, {1, git, []string{"2"}}, {1, cluster, []string{"b"}}, {1, git, []string{"3"}}}, []string{"c"}, nil},
		{"it is about another field", []write{{0, git, []string{"1"}}, {1, cluster, []string{"small"}}, {1, git, []string{"", "2"}}, {1, cluster, []string{"small"}}, {1, git, []string{"3"}}}, []string{"small"}, nil},
		{"the cluster was not asked between", []write{{0, git, []string{"big"}}, {1, git, []string{"big"}}, {1, git, []string{"big"}}}, []string{"small"}, nil},
		{"nothing before", nil, []string{"small"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var writes []Write
			now := start
			for _, w := range tc.writes {
				now = now.Add(w.after * time.Second)
				write := New(now, changes(w.values))
				write.Git = w.git
				writes = Add(writes, write)
			}
			if diff := cmp.Diff(tc.want, Third(writes, now.Add(time.Second), changes(tc.next))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddForgets(t *testing.T) {
	var writes []Write
	writes = Add(writes, New(start, changes([]string{"big"})))
	if len(writes) > 0 {
		t.Errorf("an edit that Git has no part in was remembered: %v", writes)
	}
	var many []merge.Change
	for i := range 100 {
		many = append(many, merge.Change{Path: fmt.Sprint(i)})
	}
	for i := range 20 {
		write := New(start.Add(time.Duration(i)*time.Second), many)
		write.Git = true
		writes = Add(writes, write)
	}
	if len(writes) != maxWrites || slices.ContainsFunc(writes, func(t Write) bool { return len(t.Fields) > maxFields }) {
		t.Errorf("%d writes, the first of %d fields", len(writes), len(writes[0].Fields))
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		if later := Add(writes, Write{At: start.Add(by).Unix()}); len(later) > 0 {
			t.Errorf("what is %s old is remembered: %v", by, later)
		}
	}
}
