package github

import (
	"context"
	"slices"

	sdk "github.com/google/go-github/v93/github"
)

// rules are those of the two branches of the contract. Nobody rewrites main; pushes to it are
// the konnectors', and everybody else's changes are pull requests. Status is the bridges'
// alone, which cut its history.
func (h *Host) rules() []sdk.RepositoryRuleset {
	ruleset := func(name, branch string, rules sdk.RepositoryRulesetRules, bypass ...*app) sdk.RepositoryRuleset {
		actors := []*sdk.BypassActor{}
		for _, a := range bypass {
			actors = append(actors, &sdk.BypassActor{ActorID: &a.ID, ActorType: new(sdk.BypassActorTypeIntegration), BypassMode: new(sdk.BypassModeAlways)})
		}
		return sdk.RepositoryRuleset{
			Name: name, Target: new(sdk.RulesetTargetBranch), Enforcement: sdk.RulesetEnforcementActive, BypassActors: actors, Rules: &rules,
			Conditions: &sdk.RepositoryRulesetConditions{
				RefName: &sdk.RepositoryRulesetRefConditionParameters{Include: []string{"refs/heads/" + branch}, Exclude: []string{}},
			},
		}
	}
	set := &sdk.EmptyRuleParameters{}
	return []sdk.RepositoryRuleset{
		// Without a bypass: an actor that bypasses a ruleset bypasses all of its rules.
		ruleset("gitbind main history", "main", sdk.RepositoryRulesetRules{NonFastForward: set, Deletion: set}),
		ruleset("gitbind main", "main", sdk.RepositoryRulesetRules{PullRequest: &sdk.PullRequestRuleParameters{
			RequiredApprovingReviewCount: h.cfg.Approvals, DismissStaleReviewsOnPush: true,
			RequireLastPushApproval: h.cfg.Approvals > 0,
		}}, h.konnector),
		ruleset("gitbind status", "status", sdk.RepositoryRulesetRules{Creation: set, Update: &sdk.UpdateRuleParameters{}, Deletion: set}, h.backend),
	}
}

func (h *Host) rulesets(ctx context.Context, api *sdk.Client, id string) error {
	there, _, err := api.Repositories.GetAllRulesets(ctx, h.cfg.Organization, id, &sdk.RepositoryListRulesetsOptions{
		IncludesParents: new(false), ListOptions: sdk.ListOptions{PerPage: maxPage},
	})
	if err != nil {
		return h.backend.trouble("list the rulesets of "+id, err)
	}
	for _, want := range h.rules() {
		if slices.ContainsFunc(there, func(r *sdk.RepositoryRuleset) bool { return r.Name == want.Name }) {
			continue
		}
		if _, _, err := api.Repositories.CreateRuleset(ctx, h.cfg.Organization, id, want); err != nil {
			return h.backend.trouble("make the ruleset "+want.Name+" of "+id, err)
		}
	}
	return nil
}
