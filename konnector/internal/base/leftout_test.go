package base

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gitbind.dev/gitbridge/contract"
)

func TestWhatAFileLeavesOut(t *testing.T) {
	type object = map[string]any
	agreed := &contract.Claim{
		Labels: map[string]string{"team": "a", "a/b": "hook"},
		Spec:   object{"plan": "small", "size": "s", "net": object{"port": int64(1), "tls": object{"on": true}}, "list": []any{"x"}},
	}
	file := func(spec object) *contract.Claim {
		return &contract.Claim{Labels: map[string]string{"team": "a"}, Spec: spec}
	}
	was := file(object{"plan": "small", "net": object{"port": int64(1)}})
	b := &Base{Claim: agreed, LeftOut: LeftOut(was, agreed)}
	if diff := cmp.Diff([]string{"/labels/a~1b", "/spec/list", "/spec/net/tls", "/spec/size"}, b.LeftOut); diff != "" {
		t.Fatal(diff)
	}
	for name, c := range map[string]struct{ file, want object }{
		"it says another thing":            {object{"plan": "big", "net": object{"port": int64(1)}}, object{"plan": "big", "size": "s", "net": object{"port": int64(1), "tls": object{"on": true}}, "list": []any{"x"}}},
		"it says what it left out":         {object{"plan": "small", "size": "l", "net": object{"port": int64(1)}}, object{"plan": "small", "size": "l", "net": object{"port": int64(1), "tls": object{"on": true}}, "list": []any{"x"}}},
		"it says a part of what it left":   {object{"net": object{"tls": object{"ca": "x"}}}, object{"size": "s", "net": object{"tls": object{"on": true, "ca": "x"}}, "list": []any{"x"}}},
		"it takes away what it said":       {object{"net": object{}}, object{"size": "s", "net": object{"tls": object{"on": true}}, "list": []any{"x"}}},
		"it takes away the parent, too":    {object{"plan": "small"}, object{"plan": "small", "size": "s", "list": []any{"x"}}},
		"its parent is no object any more": {object{"net": "none"}, object{"net": "none", "size": "s", "list": []any{"x"}}},
	} {
		in := file(c.file)
		before := &contract.Claim{Labels: in.Labels, Spec: (&Base{}).Complete(file(c.file)).Spec}
		got := b.Complete(in)
		if diff := cmp.Diff(c.want, got.Spec); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(map[string]string{"team": "a", "a/b": "hook"}, got.Labels); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(before.Spec, in.Spec); diff != "" {
			t.Errorf("%s: the argument was changed: %s", name, diff)
		}
	}
}

// A file is completed to what was agreed on, whatever it leaves out.
func TestAFileThatWasNotChangedIsCompletedToTheBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agreed := anObject(2).Draw(t, "agreed")
		file := without(t, agreed)
		a, f := &contract.Claim{Spec: agreed}, &contract.Claim{Spec: file}
		b := &Base{Claim: a, LeftOut: LeftOut(f, a)}
		if diff := cmp.Diff(agreed, b.Complete(f).Spec); diff != "" {
			t.Fatalf("left out %q: %s", b.LeftOut, diff)
		}
	})
}

func anObject(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		out := map[string]any{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "a/b", "~", "~1", ""}), 0, 4, rapid.ID[string]).Draw(t, "keys") {
			if depth > 0 && rapid.Bool().Draw(t, "object") {
				out[key] = anObject(depth-1).Draw(t, key)
			} else {
				out[key] = rapid.SampledFrom([]string{"x", "y"}).Draw(t, key)
			}
		}
		return out
	})
}

func without(t *rapid.T, all map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range all {
		if rapid.IntRange(0, 3).Draw(t, "keep") == 0 {
			continue
		}
		if o, ok := value.(map[string]any); ok {
			value = without(t, o)
		}
		out[key] = value
	}
	return out
}

func TestL12_DefaultsThatCameAfterTheAgreementArePartOfIt(t *testing.T) {
	type object = map[string]any
	b := &Base{LeftOut: []string{"/spec/plan"}, Claim: &contract.Claim{Labels: map[string]string{"team": "a"}, Spec: object{"plan": "small", "net": object{"port": int64(1)}}}}
	said := &contract.Claim{Labels: map[string]string{"team": "a", "more": "b"}, Spec: object{"plan": "big", "tier": "normal", "net": object{"port": int64(1), "tls": true}}}
	got := b.WithDefaultsOf(said)
	want := &Base{
		LeftOut: []string{"/spec/net/tls", "/spec/plan", "/spec/tier"},
		Claim:   &contract.Claim{Labels: map[string]string{"team": "a"}, Spec: object{"plan": "small", "tier": "normal", "net": object{"port": int64(1), "tls": true}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(b.LeftOut) != 1 || len(b.Claim.Spec) != 2 {
		t.Errorf("the base was changed: %+v", b)
	}
	if same := got.WithDefaultsOf(said); same != got {
		t.Errorf("added twice: %+v", same)
	}
}
