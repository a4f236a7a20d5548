package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gitbind.dev/gitbridge/api/v1alpha1"
	"gitbind.dev/gitbridge/contract"
)

// A person with push rights does the worst that Git can carry. Each time the
// author is told at the path, a good claim in the same push and one of another
// tenant go through, and memory stays bounded.
func TestD16_HostileRepositoryContentIsToldToItsAuthorAndStopsNothingElse(t *testing.T) {
	w := newWorld(t)
	api := w.define(postgresqlFile)
	w.startBridgeProcess()
	at := func(name string) string { return path(api, "team-a", name) }
	bomb := func(name, spec string) entry { return entry{"100644", at(name), manifest(at(name), spec)} }

	other := w.tenant(api)
	hostile := w.tenant(api)
	cases := []struct {
		name  string
		bad   entry
		words string
	}{
		{"a YAML bomb of aliases", bomb("aliases", billion()), "anchor"},
		{"a YAML bomb of merge keys", bomb("merge", "  a: &a {service: x}\n  b: {<<: *a}"), "anchor"},
		{"a YAML bomb of sequences", bomb("sequences", "  parameters: "+strings.Repeat("[", 90_000)+strings.Repeat("]", 90_000)), "max depth"},
		{"a YAML bomb of mappings", bomb("mappings", "  parameters: "+strings.Repeat("{a: ", 45_000)+"1"+strings.Repeat("}", 45_000)), "max depth"},
		{"a YAML bomb that a reader takes", bomb("nested", "  parameters: "+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), "nested"},
		{"very many keys", bomb("keys", nano+"\n  parameters: {"+strings.Repeat("a: 1, ", 40_000)+"}"), "twice"},
		{"more keys than are counted", bomb("uncounted", nano+"\n  parameters: {"+strings.Repeat("a: 1, ", 150_000)+"}"), "more than 100000 commas"},
		{"a file of 10 MiB", entry{"100644", at("large"), strings.Repeat("# nothing\n", 1<<20)}, "bytes"},
		{"duplicate keys", bomb("duplicate", nano+"\n  plan: postgresql-replica-big"), "twice"},
		{"no UTF-8", entry{"100644", at("latin"), manifest(at("latin"), nano) + "# \xe4\xf6\xfc\n"}, "UTF-8"},
		{"names that differ by case", entry{"100644", at("Good"), "x"}, "upper and lower case"},
		{"a symbolic link", entry{"120000", at("link"), "/etc/passwd"}, "symbolic link"},
		{"a submodule", entry{"160000", at("submodule"), strings.Repeat("1", 40)}, "submodule"},
		{"an executable", entry{"100755", at("executable"), manifest(at("executable"), nano)}, "executable"},
		{"two documents", bomb("two", nano+"\n---\nspec: {}"), "second document"},
		{"a name of 201 characters", entry{"100644", at(strings.Repeat("x", 201)), "x"}, "201 characters"},
		{"another tenant's namespace in the file", entry{"100644", at("elsewhere"), strings.Replace(manifest(at("elsewhere"), nano), "namespace: team-a", "namespace: "+v1alpha1.TenantNamespace(other.id)+"-team-a", 1)}, "the path says"},
		{"emptied", entry{"100644", at("empty"), ""}, "is empty"},
	}
	good := at("good")
	var entries []entry
	for _, c := range cases {
		entries = append(entries, c.bad)
	}
	w.withoutHarm(hostile, other, good, append(entries, entry{"100644", good, manifest(good, nano)}))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := hostile.in(t).wantAnswer(c.bad.path, contract.Invalid, c.words)
			if len(s.Message) > 4096 {
				t.Errorf("an answer of %d bytes", len(s.Message))
			}
		})
	}
	// Hundreds of them show the same, in minutes.
	for _, c := range []struct {
		name    string
		n, size int
		result  contract.Result
	}{{"twenty files of 10 MiB", 20, 10 << 20, contract.Invalid}, {"thirty files just below a MiB", 30, 1_000_000, contract.Invalid}} {
		t.Run(c.name, func(t *testing.T) {
			hostile := w.with(t).tenant(api)
			entries := largeFiles(at, c.n, c.size)
			hostile.withoutHarm(hostile, other.in(t), good, append(entries, entry{"100644", good, manifest(good, nano)}))
			for _, e := range []entry{entries[0], entries[c.n-1]} {
				hostile.wantAnswer(e.path, c.result)
			}
		})
	}
	t.Run("the parent folder", func(t *testing.T) {
		hostile := w.with(t).tenant(api)
		hostile.commitTree([]string{"claims", api.BindingName()}, "..")
		hostile.wantAnswer("bindings/"+api.BindingName()+"/claims/..", contract.Invalid)
	})
	t.Run("H1_a million paths in a push of a kilobyte", func(t *testing.T) { testPathBomb(w.with(t), api, other.in(t)) })
	t.Run("three thousand files in one folder", func(t *testing.T) { testCrowd(w.with(t), api, 3000) })
	t.Run("history rewritten during a fetch", func(t *testing.T) { testRewrittenMeanwhile(w.with(t), api) })
}

// in gives a tenant's tools to another test.
func (t *tenant) in(test *testing.T) *tenant {
	out := *t
	out.world = t.with(test)
	return &out
}

// withoutHarm puts hostile entries on main. The good claim among them, and
// another tenant's, go through, and memory does not follow what was pushed.
func (w *world) withoutHarm(hostile, other *tenant, good string, entries []entry) {
	w.Helper()
	peak := w.peakMemory()
	hostile.commitRaw(entries...)
	start := time.Now()
	theirs := strings.Replace(good, "good", hostile.id, 1)
	other.push("Order", map[string]string{theirs: manifest(theirs, nano)})
	other.wantAnswer(theirs, contract.Applied)
	hostile.eventuallyIn(patienceForMany, "the good claim goes through", func() error {
		if s := hostile.answer(good); s == nil || s.Result != contract.Applied {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	took := time.Since(start).Round(time.Millisecond)
	hostile.wantManyObserved()
	got := peak() >> 20
	w.Logf("the good claim took %s, and the bridge's heap had at most %d MiB", took, got)
	if got > 400 {
		w.Errorf("the bridge's heap had %d MiB", got)
	}
}

// billion are the laughs.
func billion() string {
	var b strings.Builder
	b.WriteString("  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	return b.String()
}
