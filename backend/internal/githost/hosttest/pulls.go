package hosttest

import (
	"fmt"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
)

func proposals(t *testing.T, w World) {
	h, id := w.made(t)
	c := w.clone(t, h, id)
	const branch = "changes/a/b/c"
	title := "claim: create " + strings.Repeat("ü", 300)
	open := func(head, text string) {
		t.Helper()
		if err := h.Open(t.Context(), id, githost.Pull{Head: head, Branch: branch, Title: title, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(n int, text string, isOpen bool, closed string) pulls.Pull {
		t.Helper()
		all := w.Pulls(t, id)
		opened, err := h.Opened(t.Context(), id)
		if err != nil || len(all) != n {
			t.Fatalf("there are %d pull requests, want %d; %v", len(all), n, err)
		}
		var last pulls.Pull
		for _, p := range all {
			if p.Number > last.Number {
				last = p
			}
		}
		if last.Open != isOpen || !strings.Contains(last.Body, text) {
			t.Errorf("the last one is %+v", last)
		}
		if o := opened[branch]; len(opened) != 1 || o.Closed != closed || o.Page != last.Page || o.Page == "" {
			t.Errorf("it says %+v, want closed %q", opened, closed)
		}
		return last
	}
	first := c.branch(w.person(), branch, "first")
	open(first, "One thing.")
	open(first, "Not looked at.")
	is(1, "One thing.", true, "")
	second := c.branch(w.person(), branch, "second")
	open(second, "Another thing.")
	p := is(1, "Another thing.", true, "")
	w.Close(t, id, p.Number)
	is(1, "Another thing.", false, second)
	open(second, "Another thing.")
	is(1, "Another thing.", false, second)
	third := c.branch(w.person(), branch, "third")
	is(1, "Another thing.", false, second)
	title = "" // a commit's message may be empty
	open(third, "A third thing.")
	is(2, "A third thing.", true, "")
}

func checks(t *testing.T, w World) {
	h, id := w.made(t)
	c := w.clone(t, h, id)
	commit := c.branch(w.person(), "larger", "first")
	number := w.Propose(t, id, "larger", "More connections")
	changes, err := h.Changes(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	copied := fmt.Sprint(githost.PullPrefix, number)
	ref := ""
	for r, branch := range changes {
		if branch == copied {
			ref = r
		}
	}
	if len(changes) != 1 || ref == "" {
		t.Fatalf("the changes are %v, want one of %s", changes, copied)
	}
	c.git("fetch", "-q", as(c.url, w.person()), ref)
	if head := c.git("rev-parse", "FETCH_HEAD"); head != commit {
		t.Errorf("%s is at %s, want %s", ref, head, commit)
	}
	w.Comment(t, id, number, "<!-- gitbind -->\nI can write this, too.")
	for _, check := range []githost.Check{
		{Commit: commit, Branch: copied, Pending: true, Words: "It orders 1 service, being tried", URL: "https://gitbind.example.com/1", Text: "It is being *tried*."},
		{Commit: commit, Branch: copied, OK: false, Words: "spec.plan: Unsupported value", URL: "https://gitbind.example.com/1", Text: "It would be *refused*."},
		{Commit: commit, Branch: copied, OK: true, Words: "It orders 1 service", URL: "https://gitbind.example.com/2", Text: "It orders *one* service."},
		{Commit: commit, Branch: copied, OK: true, Words: "It orders 1 service", URL: "https://gitbind.example.com/2", Text: "It orders *one* service."},
		{Commit: commit, Branch: copied, Pending: true, Words: "It orders 1 service, being tried", URL: "https://gitbind.example.com/2", Text: "It is being *tried*."},
		{Commit: commit, Branch: copied, OK: true, Words: "It orders 1 service", URL: "https://gitbind.example.com/2", Text: "It orders *one* service."},
		// Somebody pushed it, and has not opened a pull request.
		{Commit: commit, Branch: "changes/a/b/c", OK: true, Words: "It orders 1 service", URL: "https://gitbind.example.com/2", Text: "It orders *one* service."},
	} {
		if err := h.Check(t.Context(), id, check); err != nil {
			t.Fatal(err)
		}
		shown := w.Shown(t, id, commit)
		if len(shown) != 1 || shown[0].OK != check.OK || shown[0].Pending != check.Pending || shown[0].Words != check.Words || shown[0].URL != check.URL {
			t.Errorf("it shows %+v, want %+v", shown, check)
		}
		said := w.Comments(t, id, number)
		if len(said) != 2 || !strings.Contains(said[0], "I can write this") || !strings.HasSuffix(said[1], check.Text) {
			t.Errorf("people read %q", said)
		}
	}
	// What is as long as it may be is not refused.
	long := githost.Check{Commit: commit, Branch: copied, OK: true, Words: strings.Repeat("ü", githost.MaxWords), URL: "https://gitbind.example.com/2", Text: strings.Repeat("ü ", githost.MaxText/3)}
	if err := h.Check(t.Context(), id, long); err != nil {
		t.Error(err)
	}
	w.Close(t, id, number)
	if changes, err = h.Changes(t.Context(), id); err != nil || len(changes) != 0 {
		t.Errorf("after it was closed: %v, %v", changes, err)
	}
	last := githost.Check{Commit: commit, Branch: copied, OK: true, Words: "b/c is applied", URL: "https://gitbind.example.com/3", Text: "It *is* applied."}
	if err := h.Check(t.Context(), id, last); err != nil {
		t.Fatal(err)
	}
	if said := w.Comments(t, id, number); len(said) != 2 || !strings.HasSuffix(said[1], last.Text) {
		t.Errorf("after it was closed people read %q", said)
	}
}

func pages(t *testing.T, w World) {
	if w.Few {
		t.Skip("it makes many pull requests and comments")
	}
	h, id := w.made(t)
	c := w.clone(t, h, id)
	first := c.commit("first")
	const branch = "changes/a/b/c"
	const many = pulls.PageSize + 1
	refspecs := []string{"push", "-q", as(c.url, w.person()), "HEAD:refs/heads/" + branch}
	for i := range many {
		refspecs = append(refspecs, fmt.Sprint("HEAD:refs/heads/other-", i))
	}
	c.git(refspecs...)
	pull := githost.Pull{Head: first, Branch: branch, Title: "claim: create b/c", Text: "Text."}
	if err := h.Open(t.Context(), id, pull); err != nil {
		t.Fatal(err)
	}
	number := w.Pulls(t, id)[0].Number
	for i := range many {
		w.Propose(t, id, fmt.Sprint("other-", i), fmt.Sprint("Other ", i))
		w.Comment(t, id, number, fmt.Sprint("Comment ", i))
	}
	if err := h.Open(t.Context(), id, pull); err != nil {
		t.Fatal(err)
	}
	if all := w.Pulls(t, id); len(all) != many+1 {
		t.Errorf("there are %d pull requests, want %d: it looked at the first page only", len(all), many+1)
	}
	check := githost.Check{Commit: first, Branch: fmt.Sprint(githost.PullPrefix, number), OK: true, Words: "Good", URL: "https://gitbind.example.com", Text: "First."}
	for _, check.Text = range []string{"First.", "Second."} {
		if err := h.Check(t.Context(), id, check); err != nil {
			t.Fatal(err)
		}
	}
	if said := w.Comments(t, id, number); len(said) != many+1 || !strings.HasSuffix(said[many], "Second.") {
		t.Errorf("there are %d comments, want %d, the last of them %q", len(said), many+1, said[len(said)-1])
	}
}
