package gitea

import (
	"context"
	"fmt"

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
			branches[fmt.Sprintf("refs/pull/%d/head", p.Index)] = fmt.Sprintf("changes/pull-%d", p.Index)
		}
	}
	return branches, nil
}

// Check implements githost.Checks: as a commit status.
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
	return trouble("set the status of "+c.Commit, answer, err)
}
