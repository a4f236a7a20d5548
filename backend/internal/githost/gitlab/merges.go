package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
)

// Check implements githost.Checks: as a commit status, and as a comment on the merge request.
// The commit of a merge request from another project, or of a merged one, gets no status: that
// is of a branch.
func (h *Host) Check(ctx context.Context, id string, c githost.Check) error {
	r := h.merges(id)
	branch, err := r.branch(ctx, c.Branch)
	if err != nil {
		return err
	}
	if branch != "" {
		if err := h.setStatus(ctx, id, branch, c); err != nil {
			return trouble("set the status of "+c.Commit, err)
		}
	}
	// It is compared with what is shown, so it must be what is written.
	c.Text = plain(c.Text)
	return pulls.Say(ctx, r, c)
}

// commitStatus is what a commit shows by a name, on a branch.
type commitStatus struct {
	ID          int    `json:"id"`
	State       string `json:"status"`
	Description string `json:"description"`
	URL         string `json:"target_url"`
}

// setStatus has a commit show a check. The host keeps each one that is set, also the same again.
func (h *Host) setStatus(ctx context.Context, id, branch string, c githost.Check) error {
	const name = "gitbind"
	state := "failed"
	switch {
	case c.OK:
		state = "success"
	case c.Pending:
		state = "pending"
	}
	there, err := list[commitStatus](ctx, h, h.project(id)+"/repository/commits/"+c.Commit+"/statuses", "&name="+name+"&ref="+url.QueryEscape(branch))
	if err != nil {
		return err
	}
	if len(there) > 0 {
		last := slices.MaxFunc(there, func(a, b commitStatus) int { return a.ID - b.ID })
		if last.State == state && (last.Description == c.Words && last.URL == c.URL || state == "pending") {
			return nil // One that is pending cannot be made pending again, in other words.
		}
	}
	return h.send(ctx, http.MethodPost, h.project(id)+"/statuses/"+c.Commit, map[string]any{
		"state": state, "name": name, "ref": branch, "description": c.Words, "target_url": c.URL,
	}, nil)
}

// merge is a merge request.
type merge struct {
	Number        int64  `json:"iid"`
	State         string `json:"state"`
	Branch        string `json:"source_branch"`
	SourceProject int    `json:"source_project_id"`
	TargetProject int    `json:"target_project_id"`
	Page          string `json:"web_url"`
	Description   string `json:"description"`
}

func (m *merge) isFork() bool { return m.SourceProject != m.TargetProject }

// repository implements pulls.Repository, for one task.
type repository struct {
	*Host
	id string
	// me is the backend's account, once it is known.
	me int
}

func (h *Host) merges(id string) *repository { return &repository{Host: h, id: id} }

// one is the path of a merge request in the API.
func (r *repository) one(number int64) string {
	return fmt.Sprintf("%s/merge_requests/%d", r.project(r.id), number)
}

// branch is the branch of the project that a change is on, "" for one of another project, and
// after it was merged, when there may be none any more.
func (r *repository) branch(ctx context.Context, name string) (string, error) {
	number, ok := githost.PullNumber(name)
	if !ok {
		return name, nil
	}
	var m merge
	if err := r.get(ctx, r.one(number), &m); err != nil {
		return "", trouble(fmt.Sprintf("look at merge request %d of %s", number, r.id), err)
	}
	if m.isFork() || m.State == "merged" {
		return "", nil
	}
	return m.Branch, nil
}

func (r *repository) Pulls(ctx context.Context, openOnly bool, page pulls.Page) ([]pulls.Pull, bool, error) {
	state := "all"
	if openOnly {
		state = "opened"
	}
	var some []merge
	next, err := r.call(ctx, http.MethodGet, fmt.Sprintf("%s/merge_requests?state=%s&target_branch=main&order_by=updated_at&sort=desc&per_page=%d&page=%d",
		r.project(r.id), state, page.Size, page.Number), nil, &some)
	if err != nil {
		return nil, false, trouble("list the merge requests of "+r.id, err)
	}
	var all []pulls.Pull
	for _, m := range some {
		all = append(all, pulls.Pull{
			Number: m.Number, Branch: m.Branch, Fork: m.isFork(), Page: m.Page, Body: m.Description,
			// It is locked while it is merged.
			Open: m.State == "opened" || m.State == "locked", Merged: m.State == "merged",
		})
	}
	return all, next != 0, nil
}

func (r *repository) Create(ctx context.Context, branch, title, body string) error {
	err := r.send(ctx, http.MethodPost, r.project(r.id)+"/merge_requests", map[string]any{
		"source_branch": branch, "target_branch": "main", "title": title, "description": plain(body),
	}, nil)
	if status(err) == http.StatusConflict {
		return nil // somebody has opened one
	}
	return trouble("open a merge request of "+branch, err)
}

func (r *repository) Edit(ctx context.Context, number int64, body string) error {
	err := r.send(ctx, http.MethodPut, r.one(number), map[string]any{"description": plain(body)}, nil)
	return trouble(fmt.Sprintf("change merge request %d of %s", number, r.id), err)
}

func (r *repository) Comments(ctx context.Context, number int64, page pulls.Page) ([]pulls.Comment, bool, error) {
	type user struct {
		ID int `json:"id"`
	}
	if r.me == 0 {
		var me user
		if err := r.get(ctx, "/user", &me); err != nil {
			return nil, false, trouble("sign in", err)
		}
		r.me = me.ID
	}
	var some []struct {
		ID     int64  `json:"id"`
		Body   string `json:"body"`
		Author user   `json:"author"`
	}
	next, err := r.call(ctx, http.MethodGet, fmt.Sprintf("%s/notes?sort=asc&per_page=%d&page=%d", r.one(number), page.Size, page.Number), nil, &some)
	if err != nil {
		return nil, false, trouble(fmt.Sprintf("list the comments on merge request %d of %s", number, r.id), err)
	}
	var all []pulls.Comment
	for _, c := range some {
		all = append(all, pulls.Comment{ID: c.ID, Body: c.Body, Ours: c.Author.ID == r.me})
	}
	return all, next != 0, nil
}

func (r *repository) AddComment(ctx context.Context, number int64, body string) error {
	err := r.send(ctx, http.MethodPost, r.one(number)+"/notes", map[string]any{"body": plain(body)}, nil)
	return trouble(fmt.Sprintf("comment on merge request %d of %s", number, r.id), err)
}

func (r *repository) EditComment(ctx context.Context, number, id int64, body string) error {
	err := r.send(ctx, http.MethodPut, fmt.Sprintf("%s/notes/%d", r.one(number), id), map[string]any{"body": plain(body)}, nil)
	return trouble(fmt.Sprintf("change the comment on merge request %d of %s", number, r.id), err)
}

// quickAction is the beginning of a line that the host would do rather than show, like /merge.
var quickAction = regexp.MustCompile(`(?m)^([ \t]*)/`)

// plain has the host show a text as it is.
func plain(text string) string { return quickAction.ReplaceAllString(text, `$1\/`) }
