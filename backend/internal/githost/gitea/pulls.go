package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	sdk "code.gitea.io/sdk/gitea"
	"k8s.io/utils/lru"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/githost/pulls"
)

// Check implements githost.Checks: as a commit status, and as a comment on the pull request.
func (h *Host) Check(ctx context.Context, id string, c githost.Check) error {
	r, err := h.pulls(ctx, id)
	if err != nil {
		return err
	}
	state := sdk.StatusFailure
	switch {
	case c.OK:
		state = sdk.StatusSuccess
	case c.Pending:
		state = sdk.StatusPending
	}
	_, answer, err := r.api.CreateStatus(r.owner, id, c.Commit, sdk.CreateStatusOption{
		State: state, Context: "gitbind", Description: c.Words, TargetURL: c.URL,
	})
	if err != nil {
		return trouble("set the status of "+c.Commit, answer, err)
	}
	return pulls.Say(ctx, r, c)
}

// repository implements pulls.Repository, for one task.
type repository struct {
	api       *sdk.Client
	owner, id string
	// me is the backend's account, once it is known.
	me int64
	// said is that of the Host.
	said *lru.Cache
}

// commented is a pull request of a cluster.
type commented struct {
	id     string
	number int64
}

// keep notes what our comment on a pull request is: of its text a copy of the line by which
// it is found, as the whole may be long.
func (r *repository) keep(number, comment int64, body string) {
	first, _, _ := strings.Cut(body, "\n")
	r.said.Add(commented{r.id, number}, pulls.Comment{ID: comment, Body: strings.Clone(first), Ours: true})
}

func (h *Host) pulls(ctx context.Context, id string) (*repository, error) {
	api, err := h.admin(ctx)
	return &repository{api: api, owner: h.cfg.Organization, id: id, said: h.said}, err
}

func options(p pulls.Page) sdk.ListOptions {
	return sdk.ListOptions{Page: p.Number, PageSize: p.Size}
}

func (r *repository) Pulls(_ context.Context, openOnly bool, page pulls.Page) ([]pulls.Pull, bool, error) {
	state := sdk.StateAll
	if openOnly {
		state = sdk.StateOpen
	}
	some, answer, err := r.api.ListRepoPullRequests(r.owner, r.id, sdk.ListPullRequestsOptions{ListOptions: options(page), State: state, Sort: "recentupdate"})
	if err != nil {
		return nil, false, trouble("list the pull requests of "+r.id, answer, err)
	}
	var all []pulls.Pull
	for _, p := range some {
		if p.Base == nil || p.Base.Ref != "main" {
			continue
		}
		pull := pulls.Pull{Number: p.Index, Fork: true, Page: p.HTMLURL, Body: p.Body, Open: p.State == sdk.StateOpen, Merged: p.HasMerged}
		if p.Head != nil {
			pull.Branch, pull.Fork = p.Head.Ref, p.Head.RepoID != p.Base.RepoID
		}
		all = append(all, pull)
	}
	// The host may keep pages shorter than it was asked for.
	return all, answer.NextPage != 0, nil
}

func (r *repository) Create(_ context.Context, branch, title, body string) error {
	_, answer, err := r.api.CreatePullRequest(r.owner, r.id, sdk.CreatePullRequestOption{Head: branch, Base: "main", Title: title, Body: body})
	if status(answer) == http.StatusConflict {
		return nil // somebody has opened one
	}
	return trouble("open a pull request of "+branch, answer, err)
}

func (r *repository) Edit(_ context.Context, number int64, body string) error {
	_, answer, err := r.api.EditPullRequest(r.owner, r.id, number, sdk.EditPullRequestOption{Body: &body})
	return trouble(fmt.Sprintf("change pull request %d of %s", number, r.id), answer, err)
}

func (r *repository) Comments(_ context.Context, number int64, page pulls.Page) ([]pulls.Comment, bool, error) {
	if page.Number > 1 {
		return nil, false, nil // The first page is all of them, as the host has no pages of these.
	}
	if r.me == 0 {
		me, answer, err := r.api.GetMyUserInfo()
		if err != nil {
			return nil, false, trouble("sign in", answer, err)
		}
		r.me = me.ID
	}
	some, answer, err := r.api.ListIssueComments(r.owner, r.id, number, sdk.ListIssueCommentOptions{ListOptions: options(page)})
	if ours, ok := r.said.Get(commented{r.id, number}); ok && errors.Is(err, githost.ErrAnswer) {
		return []pulls.Comment{ours.(pulls.Comment)}, false, nil
	}
	if err != nil {
		return nil, false, trouble(fmt.Sprintf("list the comments on pull request %d of %s", number, r.id), answer, err)
	}
	var all []pulls.Comment
	for _, c := range some {
		all = append(all, pulls.Comment{ID: c.ID, Body: c.Body, Ours: c.Poster != nil && c.Poster.ID == r.me})
	}
	return all, false, nil
}

func (r *repository) AddComment(_ context.Context, number int64, body string) error {
	added, answer, err := r.api.CreateIssueComment(r.owner, r.id, number, sdk.CreateIssueCommentOption{Body: body})
	if err == nil {
		r.keep(number, added.ID, body)
	}
	return trouble(fmt.Sprintf("comment on pull request %d of %s", number, r.id), answer, err)
}

func (r *repository) EditComment(_ context.Context, number, id int64, body string) error {
	_, answer, err := r.api.EditIssueComment(r.owner, r.id, id, sdk.EditIssueCommentOption{Body: body})
	switch {
	case err == nil:
		r.keep(number, id, body)
	case isNotFound(answer):
		r.said.Remove(commented{r.id, number})
	}
	return trouble(fmt.Sprintf("change the comment on pull request %d of %s", number, r.id), answer, err)
}
