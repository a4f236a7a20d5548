package gitea

import (
	"context"
	"net/http"
	"regexp"

	sdk "code.gitea.io/sdk/gitea"

	"gitbind.dev/backend/internal/githost"
)

// headMark is at the end of what is written in a pull request of ours: the head of its branch
// when it was looked at last. Of a closed one the host does not tell: its branch may have
// moved since.
var headMark = regexp.MustCompile(`<!-- gitbind head ([0-9a-f]{40}) -->$`)

func withHead(text, head string) string { return text + "\n\n<!-- gitbind head " + head + " -->" }

func headOf(p *sdk.PullRequest) string {
	if m := headMark.FindStringSubmatch(p.Body); m != nil {
		return m[1]
	}
	return ""
}

// Open implements githost.Checks.
func (h *Host) Open(ctx context.Context, id string, p githost.Pull) error {
	api, err := h.admin(ctx)
	if err != nil {
		return err
	}
	newest, answer, err := h.newest(api, id)
	before := newest[p.Branch]
	switch {
	case err != nil:
		return trouble("list the pull requests of "+id, answer, err)
	case before != nil && headOf(before) == p.Head:
		return nil
	case before != nil && before.State == sdk.StateOpen:
		body := withHead(p.Text, p.Head)
		_, answer, err = api.EditPullRequest(h.cfg.Organization, id, before.Index, sdk.EditPullRequestOption{Body: &body})
		return trouble("change the pull request of "+p.Branch, answer, err)
	}
	_, answer, err = api.CreatePullRequest(h.cfg.Organization, id, sdk.CreatePullRequestOption{
		Head: p.Branch, Base: "main", Title: p.Title, Body: withHead(p.Text, p.Head),
	})
	if answer != nil && answer.StatusCode == http.StatusConflict {
		return nil // somebody has opened one
	}
	return trouble("open a pull request of "+p.Branch, answer, err)
}

// Opened implements githost.Checks.
func (h *Host) Opened(ctx context.Context, id string) (map[string]githost.Opened, error) {
	api, err := h.admin(ctx)
	if err != nil {
		return nil, err
	}
	newest, answer, err := h.newest(api, id)
	if err != nil {
		return nil, trouble("list the pull requests of "+id, answer, err)
	}
	opened := map[string]githost.Opened{}
	for branch, p := range newest {
		o := githost.Opened{Page: p.HTMLURL}
		if p.State == sdk.StateClosed && !p.HasMerged {
			o.Closed = headOf(p)
		}
		opened[branch] = o
	}
	return opened, nil
}

// newest are the pull requests to main, by branch: the one that was opened last of each.
func (h *Host) newest(api *sdk.Client, id string) (map[string]*sdk.PullRequest, *sdk.Response, error) {
	newest := map[string]*sdk.PullRequest{}
	for page := 1; page <= maxPages; page++ {
		pulls, answer, err := api.ListRepoPullRequests(h.cfg.Organization, id, sdk.ListPullRequestsOptions{
			ListOptions: sdk.ListOptions{Page: page, PageSize: maxPulls}, State: sdk.StateAll, Sort: "recentupdate",
		})
		if err != nil {
			return nil, answer, err
		}
		for _, p := range pulls {
			if p.Base == nil || p.Head == nil || p.Base.Ref != "main" || p.Head.RepoID != p.Base.RepoID {
				continue
			}
			if before := newest[p.Head.Ref]; before == nil || p.Index > before.Index {
				newest[p.Head.Ref] = p
			}
		}
		if len(pulls) < maxPulls {
			break
		}
	}
	return newest, nil, nil
}

// maxPages is how many times maxPulls of them are looked through.
const maxPages = 20
