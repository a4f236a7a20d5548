package review

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// merging is a world with a pull request that is about some claims, as it is shown.
type merging struct {
	*world
	host   *shown
	checks *Checks
	now    time.Time
}

// newMerging is one whose pull request orders claims of names, in namespace team-a.
func newMerging(t *testing.T, names ...string) *merging {
	t.Helper()
	m := &merging{world: newWorld(), host: &shown{}, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	m.files, m.main = map[string][]byte{}, map[string]string{}
	m.change.Branch, m.change.Files = githost.PullPrefix+"7", nil
	for _, name := range names {
		m.change.Files = append(m.change.Files, githost.FileChange{
			Path: pathOf(name), After: "blob of " + name, Is: []byte("apiVersion: anynines.com/v1\nkind: PostgresqlInstance\nmetadata: {name: " + name + ", namespace: team-a}\nspec: {plan: small}\n"),
		})
	}
	s := m.service(t, nil)
	s.PublicURL, s.Now = "https://gitbind.example.com", func() time.Time { return m.now }
	m.checks = NewChecks(s, m.host, func(string, restapi.RefEvent) {})
	m.look(t, 1)
	return m
}

func pathOf(name string) string {
	return contract.Key{Binding: "postgresqlinstances.anynines.com", Namespace: "team-a", Name: name}.Path()
}

// look looks at all again, after which so many checks have been shown, and gives the last.
func (m *merging) look(t *testing.T, n int) githost.Check {
	t.Helper()
	if err := m.checks.check(t.Context(), cluster, aPass(true)); err != nil || len(m.host.all) != n {
		t.Fatalf("it showed %d checks, want %d: %+v, %v", len(m.host.all), n, m.host.all, err)
	}
	return m.host.all[n-1]
}

// merge puts the change on main.
func (m *merging) merge() {
	m.gone, m.outcome.Merged = true, true
	for _, f := range m.change.Files {
		m.main[f.Path] = f.After
	}
}

// answer has the control plane answer a claim's file as main has it.
func (m *merging) answer(t *testing.T, name string, s contract.Status) {
	t.Helper()
	s.Answers = contract.Answers{Blob: m.main[pathOf(name)], Commit: seenHead}
	data, err := contract.EncodeStatus(&s)
	if err != nil {
		t.Fatal(err)
	}
	m.files[pathOf(name)] = data
}

func TestAMergedChangeShowsWhatTheControlPlaneHasMadeOfIt(t *testing.T) {
	m := newMerging(t, "orders")
	before := m.host.all[0]
	status := restapi.RefEvent{Ref: "refs/heads/status"}
	if m.checks.hasMerged(cluster) {
		t.Error("answers are waited for before it is merged")
	}
	m.checks.Moved(cluster, status)
	m.merge()
	m.look(t, 1)
	if !m.checks.hasMerged(cluster) {
		t.Error("no answer is waited for")
	}
	m.answer(t, "orders", contract.Status{Result: contract.Failed, Message: "the API server is away"})
	got := m.look(t, 2)
	if got.OK || got.Words != "team-a/orders could not be applied yet, and is tried again: the API server is away" {
		t.Errorf("%+v", got)
	}
	m.look(t, 2)
	m.answer(t, "orders", contract.Status{Result: contract.Applied})
	m.host.fails = 1
	if err := m.checks.check(t.Context(), cluster, aPass(true)); err == nil {
		t.Error("no word of a host that refused it")
	}
	got = m.look(t, 3)
	_, change, _ := strings.Cut(before.Text, "\n")
	if !got.OK || got.Words != "team-a/orders is applied" || got.Commit != before.Commit || got.Branch != before.Branch ||
		got.URL != "https://gitbind.example.com/clusters/"+cluster+"/bindings/postgresqlinstances.anynines.com/team-a/orders" ||
		!strings.HasPrefix(got.Text, "**team&#45;a&#47;orders is applied.** [Look at it]("+got.URL+")\n") || change == "" || !strings.HasSuffix(got.Text, change) {
		t.Errorf("%+v", got)
	}
	if m.look(t, 3); m.checks.hasMerged(cluster) {
		t.Error("it is waited for more")
	}
}

// It merged green, as a claim that would wait: it does not turn red for that, and says when
// it is applied.
func TestAMergedChangeThatWaitsForRoomShowsWhenItIsApplied(t *testing.T) {
	m := newMerging(t, "orders")
	m.merge()
	m.answer(t, "orders", contract.Status{Result: contract.Denied, Reason: contract.OverQuota, Problem: &contract.Problem{File: "f", Reason: "2 of 2"}})
	if got := m.look(t, 2); !got.OK || got.Words != "team-a/orders waits for room: 2 of 2" || !m.checks.hasMerged(cluster) {
		t.Errorf("%+v, waited for %v", got, m.checks.hasMerged(cluster))
	}
	m.answer(t, "orders", contract.Status{Result: contract.Applied})
	if got := m.look(t, 3); got.Words != "team-a/orders is applied" || m.checks.hasMerged(cluster) {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsSaidOfAMergedChange(t *testing.T) {
	page := "https://gitbind.example.com/clusters/" + cluster
	applied := contract.Status{Result: contract.Applied}
	full := contract.Status{Result: contract.Denied, Reason: contract.OverQuota, Problem: &contract.Problem{File: "f", Reason: "2 of 2"}}
	for name, tc := range map[string]struct {
		answers []contract.Status
		want    string
		ok      bool
		url     string
	}{
		"all applied":   {[]contract.Status{applied, applied, applied}, "All 3 claims are as it says", true, page},
		"one goes":      {[]contract.Status{applied, {Result: contract.Deleting}, applied}, "All 3 claims become as it says", true, page},
		"one held":      {[]contract.Status{applied, {Result: contract.Held, Message: "too many"}, applied}, "1 of 3 claims are not as it says, such as team-a/c1 is held until somebody decides: too many", false, page + "/bindings/postgresqlinstances.anynines.com/team-a/c1"},
		"two refused":   {[]contract.Status{{Result: contract.Denied, Problem: &contract.Problem{File: "f", Reason: "no"}}, {Result: contract.Invalid}, applied}, "2 of 3 claims are not as it says, such as team-a/c0 is refused: no", false, page},
		"not there":     {[]contract.Status{{Result: contract.Lost}}, "team-a/c0 is missing on the control plane", false, page + "/bindings/postgresqlinstances.anynines.com/team-a/c0"},
		"deleted":       {[]contract.Status{{Result: contract.Gone}}, "team-a/c0 is deleted", true, page + "/bindings/postgresqlinstances.anynines.com/team-a/c0"},
		"waits":         {[]contract.Status{full}, "team-a/c0 waits for room: 2 of 2", true, page + "/bindings/postgresqlinstances.anynines.com/team-a/c0"},
		"one waits":     {[]contract.Status{applied, full, applied}, "All 3 claims become as it says, but team-a/c1 waits for room: 2 of 2", true, page},
		"very long why": {[]contract.Status{{Result: contract.Denied, Message: strings.Repeat("ü", 400)}}, "team-a/c0 is refused: " + strings.Repeat("ü", githost.MaxWords-1-22) + "…", false, page + "/bindings/postgresqlinstances.anynines.com/team-a/c0"},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for i := range tc.answers {
				names = append(names, fmt.Sprint("c", i))
			}
			m := newMerging(t, names...)
			m.merge()
			for i, a := range tc.answers {
				m.look(t, 1) // until all are answered
				m.answer(t, names[i], a)
			}
			if got := m.look(t, 2); got.Words != tc.want || got.OK != tc.ok || got.URL != tc.url || len([]rune(got.Words)) > githost.MaxWords {
				t.Errorf("it says %v, %q, %s", got.OK, got.Words, got.URL)
			}
		})
	}
}

func TestOnlyWhatWasMergedIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(m *merging)
		want bool
	}{
		"merged":                          {func(m *merging) { m.merge() }, true},
		"squashed":                        {func(m *merging) { m.merge(); m.outcome = githost.Outcome{Closed: true} }, true},
		"closed":                          {func(m *merging) { m.gone, m.outcome.Closed = true, true }, false},
		"closed, main has something else": {func(m *merging) { m.merge(); m.outcome = githost.Outcome{}; m.main[pathOf("orders")] = "else" }, false},
		"merged after it could not be seen": {func(m *merging) {
			m.unseen = githost.ErrNotFound
			_ = m.checks.check(t.Context(), cluster, aPass(true))
			m.merge()
		}, true},
		"merged, and nobody answers for long": {func(m *merging) {
			m.merge()
			_ = m.checks.check(t.Context(), cluster, aPass(true))
			m.now = m.now.Add(mergedKept + 1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMerging(t, "orders")
			tc.then(m)
			if m.look(t, 1); m.checks.hasMerged(cluster) != tc.want {
				t.Errorf("it is waited for: %v", !tc.want)
			}
		})
	}
}
