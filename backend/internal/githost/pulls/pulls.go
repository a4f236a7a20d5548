// Package pulls is what is alike in the pull requests of Git hosts: which of them count, how
// one is opened and kept up to date, and where the one comment of ours is. It asks no host
// itself.
package pulls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/gitbridge/brief"
)

// Pull is a pull request to main, or whatever the host calls it.
type Pull struct {
	Number int64
	// Branch is where its commits are, in this repository, or in another one if Fork.
	Branch string
	Fork   bool
	// Page is where people look at it, and Body what is written in it.
	Page, Body string
	// Open and Merged are both false of one that was closed.
	Open, Merged bool
}

// Comment is a comment of a pull request.
type Comment struct {
	ID   int64
	Body string
	// Ours says that the backend wrote it.
	Ours bool
}

// Page is a page of a list, the first one with the number 1.
type Page struct{ Number, Size int }

// Repository is asked about the pull requests of one repository. More says that others follow
// those of a page. The error is a githost.ErrAnswer of a page that is too large to be read.
type Repository interface {
	// Pulls gives a page of those to main, or of all of them: those that changed last first.
	// All that are to another branch count for the page and are left out of it.
	Pulls(ctx context.Context, openOnly bool, page Page) (pulls []Pull, more bool, err error)
	Create(ctx context.Context, branch, title, body string) error
	Edit(ctx context.Context, number int64, body string) error
	Comments(ctx context.Context, number int64, page Page) (comments []Comment, more bool, err error)
	AddComment(ctx context.Context, number int64, body string) error
	EditComment(ctx context.Context, number, id int64, body string) error
}

// byBranch is a Repository that can be asked for the pull requests of one branch to main, those
// that were opened last first. It gives no more than PageSize.
type byBranch interface {
	Of(ctx context.Context, branch string) ([]Pull, error)
}

// Requests are what a Host does by pull requests: Changes for its copies, and the part of
// githost.Checks that opens them.
type Requests struct {
	// Of is the repository of a cluster, for one task.
	Of func(ctx context.Context, cluster string) (Repository, error)
	// Ref is the format of the ref that the head of one has, by its number.
	Ref string
}

const (
	// PageSize is how many pull requests or comments a page has.
	PageSize = 50
	// maxPages is how many pages of pull requests are looked through, and maxCommentPages of
	// comments.
	maxPages        = 20
	maxCommentPages = 10
	// maxTitle is how long each host lets the title of a pull request be, in characters.
	maxTitle = 255
)

// marker begins the one comment of ours, and our part of what is written in a pull request. A
// person's comment that begins with it stays theirs.
const marker = "<!-- gitbind -->"

// headMark ends our part of what is written in a pull request: the head of its branch when it was
// looked at last. Of a closed one hosts do not tell: its branch may have moved since. People may
// write above and below.
var headMark = regexp.MustCompile(`<!-- gitbind head ([0-9a-f]{40}) -->`)

func withHead(text, head string) string {
	return marker + "\n" + text + "\n\n<!-- gitbind head " + head + " -->"
}

func (p *Pull) head() string {
	if all := headMark.FindAllStringSubmatch(p.Body, -1); all != nil {
		return all[len(all)-1][1]
	}
	return ""
}

// with is what is written in it with another part of ours, and what people wrote.
func (p *Pull) with(part string) string {
	marks := headMark.FindAllStringIndex(p.Body, -1)
	switch {
	case marks != nil:
		end := marks[len(marks)-1][1]
		// What older backends wrote began with no marker, and with the whole.
		begin := max(strings.LastIndex(p.Body[:end], marker), 0)
		return p.Body[:begin] + part + p.Body[end:]
	case p.Body == "":
		return part
	}
	return p.Body + "\n\n" + part
}

// Open implements githost.Checks.
func (q Requests) Open(ctx context.Context, cluster string, p githost.Pull) error {
	r, err := q.Of(ctx, cluster)
	if err != nil {
		return err
	}
	newest, err := newestOf(ctx, r, p.Branch)
	if err != nil {
		return err
	}
	switch before, ok := newest[p.Branch]; {
	case ok && before.head() == p.Head:
		return nil
	case ok && before.Open:
		return r.Edit(ctx, before.Number, before.with(withHead(p.Text, p.Head)))
	case p.Shared:
		return nil
	}
	title := brief.Cut(cmp.Or(strings.TrimSpace(p.Title), p.Branch), maxTitle)
	return r.Create(ctx, p.Branch, title, withHead(p.Text, p.Head))
}

// Opened implements githost.Checks.
func (q Requests) Opened(ctx context.Context, cluster string) (map[string]githost.Opened, error) {
	r, err := q.Of(ctx, cluster)
	if err != nil {
		return nil, err
	}
	newest, err := newest(ctx, r, "")
	if err != nil {
		return nil, err
	}
	opened := map[string]githost.Opened{}
	for branch, p := range newest {
		o := githost.Opened{Page: p.Page}
		if !p.Open && !p.Merged {
			o.Closed = p.head()
		}
		opened[branch] = o
	}
	return opened, nil
}

// newestOf has at least that of one branch, with what is written in it.
func newestOf(ctx context.Context, r Repository, branch string) (map[string]Pull, error) {
	some, ok := r.(byBranch)
	if !ok {
		return newest(ctx, r, branch)
	}
	pulls, err := some.Of(ctx, branch)
	newest := map[string]Pull{}
	keepNewest(newest, pulls, branch)
	return newest, err
}

func keepNewest(newest map[string]Pull, pulls []Pull, branch string) {
	for _, p := range pulls {
		if before, ok := newest[p.Branch]; p.Fork || ok && p.Number <= before.Number {
			continue
		}
		if p.Branch != branch {
			p.Body = withHead("", p.head()) // the whole may be long
		}
		newest[p.Branch] = p
	}
}

// newest are those of this repository's branches, by branch: the one that was opened last of
// each. That of one branch has all that is written in it, and any other its head. Those behind it
// may be left out once it is known, if it is open: hosts let a branch have one such.
func newest(ctx context.Context, r Repository, branch string) (map[string]Pull, error) {
	newest := map[string]Pull{}
	list := func(p Page) ([]Pull, bool, error) { return r.Pulls(ctx, false, p) }
	for n := 1; n <= maxPages; n++ {
		more, err := read(Page{n, PageSize}, list, func(some []Pull) { keepNewest(newest, some, branch) })
		if err != nil {
			return nil, err
		}
		if !more || branch != "" && newest[branch].Open {
			break
		}
	}
	return newest, nil
}

// read has use see a page of a list. What is too large to be read at once is read in parts, and
// left out if it is so by itself.
func read[T any](page Page, list func(Page) ([]T, bool, error), use func([]T)) (more bool, err error) {
	some, more, err := list(page)
	switch {
	case err == nil:
		use(some)
		return more, nil
	case !errors.Is(err, githost.ErrAnswer):
		return false, err
	case page.Size == 1:
		return true, nil
	}
	size := max(page.Size/10, 1)
	parts := page.Size / size
	for n := (page.Number-1)*parts + 1; n <= page.Number*parts; n++ {
		if more, err = read(Page{n, size}, list, use); err != nil || !more {
			return false, err
		}
	}
	return more, nil
}

// Changes gives the branch that the copy of each open pull request to main has, by its ref. Of
// more than PageSize, those that changed last are looked at; a host may keep its pages shorter.
func (q Requests) Changes(ctx context.Context, cluster string) (map[string]string, error) {
	r, err := q.Of(ctx, cluster)
	if err != nil {
		return nil, err
	}
	branches := map[string]string{}
	list := func(p Page) ([]Pull, bool, error) { return r.Pulls(ctx, true, p) }
	for n, more := 1, true; more && len(branches) < PageSize && n <= maxPages; n++ {
		more, err = read(Page{n, PageSize}, list, func(open []Pull) {
			for _, p := range open {
				branches[fmt.Sprintf(q.Ref, p.Number)] = fmt.Sprintf("%s%d", githost.PullPrefix, p.Number)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return branches, nil
}

// Say has the pull request that a check is about show its text, in the place of what it
// showed before. A branch that somebody pushed has none yet.
func Say(ctx context.Context, r Repository, c githost.Check) error {
	number, ok := githost.PullNumber(c.Branch)
	if !ok {
		return nil
	}
	text := marker + "\n" + c.Text
	var ours *Comment
	list := func(p Page) ([]Comment, bool, error) { return r.Comments(ctx, number, p) }
	for n, more := 1, true; more && ours == nil && n <= maxCommentPages; n++ {
		var err error
		more, err = read(Page{n, PageSize}, list, func(some []Comment) {
			for _, said := range some {
				if ours == nil && said.Ours && strings.HasPrefix(said.Body, marker) {
					ours = &said
				}
			}
		})
		if err != nil {
			return err
		}
	}
	switch {
	case ours == nil:
		return r.AddComment(ctx, number, text)
	case ours.Body == text:
		return nil
	}
	return r.EditComment(ctx, number, ours.ID, text)
}
