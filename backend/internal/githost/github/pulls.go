package github

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/google/go-github/v93/github"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
)

// checkName is what reviewers see, and what the ruleset of main can require.
const checkName = "gitbind"

// Check implements githost.Checks: as a check run, and as a comment on the pull request.
func (h *Host) Check(ctx context.Context, id string, c githost.Check) error {
	r, err := h.pulls(ctx, id)
	if err != nil {
		return err
	}
	if err := r.checkRun(ctx, c); err != nil {
		return r.app.trouble("set the check of "+c.Commit, err)
	}
	return pulls.Say(ctx, r, c)
}

// checkRun has a commit show a check in the place of the one before.
func (r *repository) checkRun(ctx context.Context, c githost.Check) error {
	state, conclusion := new("completed"), new("failure")
	switch {
	case c.OK:
		conclusion = new("success")
	case c.Pending:
		state, conclusion = new("in_progress"), nil
	}
	there, _, err := r.api.Checks.ListCheckRunsForRef(ctx, r.owner, r.id, c.Commit, &sdk.ListCheckRunsOptions{
		CheckName: new(checkName), AppID: &r.app.ID, Filter: new("latest"),
	})
	if err != nil {
		return err
	}
	output := &sdk.CheckRunOutput{Title: &c.Words, Summary: &c.Text}
	// One that is completed does not become another one: the newest counts.
	if len(there.CheckRuns) > 0 && (!c.Pending || there.CheckRuns[0].GetStatus() == *state) {
		run := there.CheckRuns[0]
		if run.GetStatus() == *state && (conclusion == nil || run.GetConclusion() == *conclusion) && run.GetDetailsURL() == c.URL && run.GetOutput().GetTitle() == c.Words && run.GetOutput().GetSummary() == c.Text {
			return nil
		}
		_, _, err := r.api.Checks.UpdateCheckRun(ctx, r.owner, r.id, run.GetID(), sdk.UpdateCheckRunOptions{
			Name: checkName, DetailsURL: &c.URL, Status: state, Conclusion: conclusion, Output: output,
		})
		return err
	}
	_, _, err = r.api.Checks.CreateCheckRun(ctx, r.owner, r.id, sdk.CreateCheckRunOptions{
		Name: checkName, HeadSHA: c.Commit, DetailsURL: &c.URL, Status: state, Conclusion: conclusion, Output: output,
	})
	return err
}

// repository implements pulls.Repository, for one task.
type repository struct {
	app       *app
	api       *sdk.Client
	owner, id string
}

func (h *Host) pulls(ctx context.Context, id string) (*repository, error) {
	api, err := h.backend.asAdmin(ctx)
	return &repository{app: h.backend, api: api, owner: h.cfg.Organization, id: id}, err
}

func options(p pulls.Page) sdk.ListOptions { return sdk.ListOptions{Page: p.Number, PerPage: p.Size} }

func (r *repository) Pulls(ctx context.Context, openOnly bool, page pulls.Page) ([]pulls.Pull, bool, error) {
	state := "all"
	if openOnly {
		state = "open"
	}
	return r.list(ctx, sdk.PullRequestListOptions{State: state, Sort: "updated", Direction: "desc", ListOptions: options(page)})
}

// more tells whether others follow n of a list. The host may keep a page short, and an answer that
// is the same as before may lead to no other one, as there was none then.
func more(answer *sdk.Response, n, size int) bool { return answer.NextPage != 0 || n >= size }

// maxOf is how many pull requests of one branch are asked for: the first one counts, if it is
// of no fork.
const maxOf = 10

// Of gives those of a branch, the newest first.
func (r *repository) Of(ctx context.Context, branch string) ([]pulls.Pull, error) {
	all, _, err := r.list(ctx, sdk.PullRequestListOptions{State: "all", Head: r.owner + ":" + branch, Sort: "created", Direction: "desc", ListOptions: options(pulls.Page{Number: 1, Size: maxOf})})
	return all, err
}

func (r *repository) list(ctx context.Context, o sdk.PullRequestListOptions) ([]pulls.Pull, bool, error) {
	o.Base = "main"
	some, answer, err := r.api.PullRequests.List(ctx, r.owner, r.id, &o)
	if err != nil {
		return nil, false, r.app.trouble("list the pull requests of "+r.id, err)
	}
	var all []pulls.Pull
	for _, p := range some {
		all = append(all, pulls.Pull{
			Number: int64(p.GetNumber()), Branch: p.GetHead().GetRef(), Fork: p.GetHead().GetRepo().GetID() != p.GetBase().GetRepo().GetID(),
			Page: p.GetHTMLURL(), Body: p.GetBody(), Open: p.GetState() == "open", Merged: p.MergedAt != nil,
		})
	}
	return all, more(answer, len(some), o.PerPage), nil
}

func (r *repository) Create(ctx context.Context, branch, title, body string) error {
	_, answer, err := r.api.PullRequests.Create(ctx, r.owner, r.id, sdk.CreatePullRequest{Head: branch, Base: "main", Title: &title, Body: &body})
	if status(answer) == http.StatusUnprocessableEntity && strings.Contains(err.Error(), "already exists") {
		return nil // somebody has opened one
	}
	return r.app.trouble("open a pull request of "+branch, err)
}

func (r *repository) Edit(ctx context.Context, number int64, body string) error {
	_, _, err := r.api.PullRequests.Edit(ctx, r.owner, r.id, int(number), &sdk.PullRequest{Body: &body})
	return r.app.trouble(fmt.Sprintf("change pull request %d of %s", number, r.id), err)
}

func (r *repository) Comments(ctx context.Context, number int64, page pulls.Page) ([]pulls.Comment, bool, error) {
	_, slug, err := r.app.known(ctx)
	if err != nil {
		return nil, false, err
	}
	some, answer, err := r.api.Issues.ListComments(ctx, r.owner, r.id, int(number), &sdk.IssueListCommentsOptions{ListOptions: options(page)})
	if err != nil {
		return nil, false, r.app.trouble(fmt.Sprintf("list the comments on pull request %d of %s", number, r.id), err)
	}
	var all []pulls.Comment
	for _, c := range some {
		// People cannot have a name with brackets.
		all = append(all, pulls.Comment{ID: c.GetID(), Body: c.GetBody(), Ours: c.GetUser().GetLogin() == slug+"[bot]"})
	}
	return all, more(answer, len(some), page.Size), nil
}

func (r *repository) AddComment(ctx context.Context, number int64, body string) error {
	_, _, err := r.api.Issues.CreateComment(ctx, r.owner, r.id, int(number), sdk.IssueCommentRequest{Body: body})
	return r.app.trouble(fmt.Sprintf("comment on pull request %d of %s", number, r.id), err)
}

func (r *repository) EditComment(ctx context.Context, number, id int64, body string) error {
	_, _, err := r.api.Issues.UpdateComment(ctx, r.owner, r.id, id, sdk.IssueCommentRequest{Body: body})
	return r.app.trouble(fmt.Sprintf("change the comment on pull request %d of %s", number, r.id), err)
}
