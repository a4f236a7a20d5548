package gitea

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sdk "code.gitea.io/sdk/gitea"

	"gitbind.dev/backend/internal/githost"
)

// maxPulls is how many pull requests are looked at: those that changed last.
const maxPulls = 50

// Changes gives the branch that the copy of each open pull request to main has, by its ref.
func (h *Host) Changes(ctx context.Context, id string) (map[string]string, error) {
	api, err := h.admin(ctx)
	if err != nil {
		return nil, err
	}
	pulls, answer, err := api.ListRepoPullRequests(h.cfg.Organization, id, sdk.ListPullRequestsOptions{
		ListOptions: sdk.ListOptions{Page: 1, PageSize: maxPulls}, State: sdk.StateOpen, Sort: "recentupdate",
	})
	if err != nil {
		return nil, trouble("list the pull requests of "+id, answer, err)
	}
	branches := map[string]string{}
	for _, p := range pulls {
		if p.Base != nil && p.Base.Ref == "main" {
			branches[fmt.Sprintf("refs/pull/%d/head", p.Index)] = fmt.Sprintf("%s%d", githost.PullPrefix, p.Index)
		}
	}
	return branches, nil
}

// Check implements githost.Checks: as a commit status, and as a comment on the pull request.
func (h *Host) Check(ctx context.Context, id string, c githost.Check) error {
	api, err := h.admin(ctx)
	if err != nil {
		return err
	}
	state := sdk.StatusSuccess
	if !c.OK {
		state = sdk.StatusFailure
	}
	_, answer, err := api.CreateStatus(h.cfg.Organization, id, c.Commit, sdk.CreateStatusOption{
		State: state, Context: "gitbind", Description: c.Words, TargetURL: c.URL,
	})
	if err != nil {
		return trouble("set the status of "+c.Commit, answer, err)
	}
	number, ok := strings.CutPrefix(c.Branch, githost.PullPrefix)
	if !ok {
		return nil // somebody pushed it, and has not opened a pull request yet
	}
	index, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no copy of a pull request: %w", c.Branch, err)
	}
	answer, err = h.comment(api, id, index, marker+c.Text)
	return trouble("comment on pull request "+number+" of "+id, answer, err)
}

const (
	// marker begins the one comment of ours. A person's that begins with it stays theirs.
	marker = "<!-- gitbind -->\n"
	// maxComments is how many comments are looked through for it.
	maxComments = 500
)

// comment has a pull request show a text, in the place of what it showed before.
func (h *Host) comment(api *sdk.Client, id string, index int64, text string) (*sdk.Response, error) {
	me, answer, err := api.GetMyUserInfo()
	if err != nil {
		return answer, err
	}
	const size = 50
	for page := 1; page <= maxComments/size; page++ {
		comments, answer, err := api.ListIssueComments(h.cfg.Organization, id, index, sdk.ListIssueCommentOptions{ListOptions: sdk.ListOptions{Page: page, PageSize: size}})
		if err != nil {
			return answer, err
		}
		for _, c := range comments {
			if c.Poster == nil || c.Poster.ID != me.ID || !strings.HasPrefix(c.Body, marker) {
				continue
			}
			if c.Body == text {
				return nil, nil
			}
			_, answer, err := api.EditIssueComment(h.cfg.Organization, id, c.ID, sdk.EditIssueCommentOption{Body: text})
			return answer, err
		}
		if len(comments) < size {
			break
		}
	}
	_, answer, err = api.CreateIssueComment(h.cfg.Organization, id, index, sdk.CreateIssueCommentOption{Body: text})
	return answer, err
}
