package pulls

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
)

// memory is a repository with pull requests and no comments.
type memory struct {
	Repository
	pulls []Pull
}

func (m *memory) Pulls(context.Context, bool, Page) ([]Pull, bool, error) { return m.pulls, false, nil }

func (m *memory) Create(_ context.Context, branch, _, body string) error {
	m.pulls = append(m.pulls, Pull{Number: int64(len(m.pulls) + 1), Branch: branch, Body: body, Open: true})
	return nil
}

func (m *memory) Edit(_ context.Context, number int64, body string) error {
	m.pulls[number-1].Body = body
	return nil
}

// TestWhatIsTooLargeAtOnceIsReadInParts has a host whose answers have so many bytes at most, and
// elements of different sizes.
func TestWhatIsTooLargeAtOnceIsReadInParts(t *testing.T) {
	t.Parallel()
	const most = 100
	for name, sizes := range map[string][]int{
		"small ones":                       {1, 2, 3},
		"none":                             nil,
		"large ones":                       {60, 50, 60, 50, 60, 50, 60},
		"one that is too large by itself":  {1, 2, 101, 3, 4},
		"as many as a page has":            slices.Repeat([]int{30}, PageSize),
		"more than a page has":             slices.Repeat([]int{30}, 2*PageSize+1),
		"the last of a page are too large": append(slices.Repeat([]int{1}, PageSize-1), 101, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			list := func(p Page) (some []int, more bool, err error) {
				asked++
				from := min((p.Number-1)*p.Size, len(sizes))
				to := min(from+p.Size, len(sizes))
				sum := 0
				for _, size := range sizes[from:to] {
					sum += size
				}
				if sum > most {
					return nil, false, fmt.Errorf("list: %w", githost.ErrAnswer)
				}
				return sizes[from:to], to < len(sizes), nil
			}
			var got []int
			for n, more := 1, true; more; n++ {
				var err error
				if more, err = read(Page{n, PageSize}, list, func(some []int) { got = append(got, some...) }); err != nil {
					t.Fatal(err)
				}
			}
			want := slices.DeleteFunc(slices.Clone(sizes), func(size int) bool { return size > most })
			if !slices.Equal(got, want) || asked > 2*len(sizes)+3 {
				t.Errorf("with %d questions it read %v, want %v", asked, got, want)
			}
		})
	}
}

const proposed = "changes/a.b/c/d"

// requests are those of one repository.
func requests(m *memory) Requests {
	return Requests{Of: func(context.Context, string) (Repository, error) { return m, nil }}
}

func open(t *testing.T, m *memory, head, text string) {
	t.Helper()
	if err := requests(m).Open(t.Context(), "", githost.Pull{Head: head, Branch: proposed, Title: "claim: create c/d", Text: text}); err != nil {
		t.Fatal(err)
	}
}

// Hosts' forms send lines that end as in HTTP.
var edits = map[string]func(string) string{
	"below":            func(body string) string { return body + "\n\nRelates to #7" },
	"above and below":  func(body string) string { return "Relates to #7\n\n" + body + "\n" },
	"in a host's form": func(body string) string { return strings.ReplaceAll(body+"\n\nRelates to #7", "\n", "\r\n") },
}

func TestARejectionCountsAfterTheDescriptionWasEdited(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a", 40), strings.Repeat("b", 40)
	for where, edit := range edits {
		t.Run(where, func(t *testing.T) {
			m := &memory{}
			open(t, m, first, "One thing.")
			open(t, m, second, "Another thing.")
			m.pulls[0].Body, m.pulls[0].Open = edit(m.pulls[0].Body), false
			opened, err := requests(m).Opened(t.Context(), "")
			if err != nil || opened[proposed].Closed != second {
				t.Errorf("it was closed at %q (%v), want %s", opened[proposed].Closed, err, second)
			}
			open(t, m, second, "Another thing.")
			if len(m.pulls) != 1 {
				t.Errorf("what people closed is opened again: %+v", m.pulls)
			}
		})
	}
}

func TestWhatAPersonWroteStaysInADescription(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a", 40), strings.Repeat("b", 40)
	is := func(t *testing.T, m *memory, stays, shows, head string) {
		t.Helper()
		p := m.pulls[len(m.pulls)-1]
		if !strings.Contains(p.Body, stays) || strings.Count(p.Body, "thing.") != 1 || !strings.Contains(p.Body, shows) || p.head() != head {
			t.Errorf("it shows\n%s", p.Body)
		}
	}
	t.Run("in a pull request of theirs", func(t *testing.T) {
		m := &memory{pulls: []Pull{{Number: 1, Branch: proposed, Open: true, Body: "Why we need it."}}}
		open(t, m, first, "One thing.")
		is(t, m, "Why we need it.", "One thing.", first)
		open(t, m, second, "Another thing.")
		is(t, m, "Why we need it.", "Another thing.", second)
	})
	t.Run("in an empty one", func(t *testing.T) {
		m := &memory{pulls: []Pull{{Number: 1, Branch: proposed, Open: true}}}
		open(t, m, first, "One thing.")
		is(t, m, "<!-- gitbind -->", "One thing.", first)
	})
	for where, edit := range edits {
		t.Run(where, func(t *testing.T) {
			m := &memory{}
			open(t, m, first, "One thing.")
			m.pulls[0].Body = edit(m.pulls[0].Body)
			open(t, m, second, "Another thing.")
			is(t, m, "Relates to #7", "Another thing.", second)
		})
	}
	t.Run("beside what a backend wrote that began with no mark", func(t *testing.T) {
		m := &memory{pulls: []Pull{{Number: 1, Branch: proposed, Open: true, Body: "One thing.\n\n<!-- gitbind head " + first + " -->\n\nRelates to #7"}}}
		open(t, m, second, "Another thing.")
		is(t, m, "Relates to #7", "Another thing.", second)
	})
}

// short is a repository whose host gives one pull request a page, those that changed last first.
type short struct {
	memory
	asked int
}

func (s *short) Pulls(_ context.Context, _ bool, page Page) ([]Pull, bool, error) {
	s.asked++
	return s.pulls[page.Number-1 : page.Number], page.Number < len(s.pulls), nil
}

func TestShortPagesEndNoList(t *testing.T) {
	t.Parallel()
	s := &short{}
	for n := range int64(5) {
		s.pulls = append(s.pulls, Pull{Number: 5 - n, Branch: fmt.Sprint("changes/a.b/c/", 5-n), Open: true})
	}
	q := Requests{Of: func(context.Context, string) (Repository, error) { return s, nil }, Ref: "refs/pull/%d/head"}
	if changes, err := q.Changes(t.Context(), ""); err != nil || len(changes) != 5 {
		t.Errorf("it has %v, %v", changes, err)
	}
	if opened, err := q.Opened(t.Context(), ""); err != nil || len(opened) != 5 {
		t.Errorf("opened are %v, %v", opened, err)
	}
	// There is at most one open one of a branch.
	s.asked = 0
	if err := q.Open(t.Context(), "", githost.Pull{Branch: "changes/a.b/c/4", Head: strings.Repeat("a", 40), Text: "x"}); err != nil || s.asked != 2 {
		t.Errorf("it read %d pages, %v", s.asked, err)
	}
	for len(s.pulls) < 3*PageSize {
		s.pulls = append(s.pulls, Pull{Number: int64(len(s.pulls) + 1), Branch: "changes/a.b/c/d", Open: true})
	}
	s.asked = 0
	if changes, err := q.Changes(t.Context(), ""); err != nil || len(changes) != maxPages || s.asked != maxPages {
		t.Errorf("of many it has %d after %d pages, %v", len(changes), s.asked, err)
	}
}

// Hosts take the account that opens it for its author.
func TestWhatPeopleMadeAPartOfIsKeptUpToDateAndNotOpened(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("a", 40), strings.Repeat("b", 40)
	m := &memory{}
	shared := func(head string) {
		t.Helper()
		if err := requests(m).Open(t.Context(), "", githost.Pull{Branch: proposed, Head: head, Text: "Shared.", Shared: true}); err != nil {
			t.Fatal(err)
		}
	}
	if shared(first); len(m.pulls) != 0 {
		t.Errorf("opened %+v", m.pulls)
	}
	open(t, m, first, "One thing.")
	if shared(second); len(m.pulls) != 1 || m.pulls[0].head() != second {
		t.Errorf("it is %+v", m.pulls)
	}
}
