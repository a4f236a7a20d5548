package gitlab

import (
	"context"
	"errors"
	"net/http"
	"slices"
)

// role is one of a project's members.
type role int

// The roles that rules and tokens name. Each tier knows rules by role; those that name single
// users are not for every tier. So agents are Maintainers, and people Developers.
const (
	nobody     role = 0
	developer  role = 30
	maintainer role = 40
)

// rule is a protected branch: the lowest roles that push to it and merge into it.
type rule struct {
	Name  string `json:"name"`
	Push  role   `json:"push_access_level"`
	Merge role   `json:"merge_access_level"`
	Force bool   `json:"allow_force_push"`
}

// shownRule is a rule as the host shows it.
type shownRule struct {
	Push  []level `json:"push_access_levels"`
	Merge []level `json:"merge_access_levels"`
	Force bool    `json:"allow_force_push"`
}

// level is a role that may do something, or one user, group or deploy key.
type level struct {
	Role      role `json:"access_level"`
	User      int  `json:"user_id"`
	Group     int  `json:"group_id"`
	DeployKey int  `json:"deploy_key_id"`
}

func (r *rule) is(shown *shownRule) bool {
	only := func(levels []level, want role) bool { return len(levels) == 1 && levels[0] == level{Role: want} }
	return only(shown.Push, r.Push) && only(shown.Merge, r.Merge) && shown.Force == r.Force
}

// rules are those of the two branches of the contract. Agents push, and people's changes of main
// are merge requests. The bridge cuts the history of status.
var rules = []rule{
	{Name: "main", Push: maintainer, Merge: developer},
	{Name: "status", Push: maintainer, Merge: nobody, Force: true},
}

// defaults are the rules that the host makes for main by itself: "fully protected", and what
// "partially protected" is and once was.
var defaults = []rule{
	{Push: maintainer, Merge: maintainer},
	{Push: developer, Merge: maintainer},
	{Push: developer, Merge: developer},
}

// protect makes the rules that are missing. The host has one of its own for main, which comes
// in the background after the project, and is replaced.
func (h *Host) protect(ctx context.Context, id string, p *project) error {
	for _, want := range rules {
		if err := h.protectBranch(ctx, id, p, want); err != nil {
			return err
		}
	}
	return nil
}

// replaces tells whether a rule gives way to ours: in a new project, and the host's own where
// the last rule and the webhook, which comes last, are missing, as in a set-up that ended early.
func (h *Host) replaces(ctx context.Context, id string, p *project, shown *shownRule) (bool, error) {
	if p.isNew() {
		return true, nil
	}
	if !slices.ContainsFunc(defaults, func(r rule) bool { return r.is(shown) }) {
		return false, nil
	}
	last, err := h.rule(ctx, id, rules[len(rules)-1].Name)
	if err != nil || last != nil {
		return false, err
	}
	there, err := h.ownHooks(ctx, id)
	return len(there) == 0, err
}

// maxRuleTries is how often a rule is looked at that somebody else makes at the same time.
const maxRuleTries = 3

// protectBranch makes a rule, in the place of one that gives way.
func (h *Host) protectBranch(ctx context.Context, id string, p *project, want rule) error {
	all := h.project(id) + "/protected_branches"
	for range maxRuleTries {
		shown, err := h.rule(ctx, id, want.Name)
		if err != nil {
			return err
		}
		if shown != nil {
			if want.is(shown) {
				return nil
			}
			if replace, err := h.replaces(ctx, id, p, shown); err != nil || !replace {
				return err
			}
			// To change the roles of a rule is not for every tier.
			if err := h.send(ctx, http.MethodDelete, all+"/"+want.Name, nil, nil); err != nil && !isNotFound(err) {
				return err
			}
		}
		if err = h.send(ctx, http.MethodPost, all, want, nil); status(err) != http.StatusConflict {
			return err
		}
	}
	return errors.New("somebody else makes a rule for " + want.Name + " at the same time")
}

// rule is the one of a branch, nil if there is none.
func (h *Host) rule(ctx context.Context, id, branch string) (*shownRule, error) {
	var shown shownRule
	err := h.get(ctx, h.project(id)+"/protected_branches/"+branch, &shown)
	if isNotFound(err) {
		return nil, nil
	}
	return &shown, err
}

// approvals has merge requests be approved by others, where the host's tier knows that and
// the project has no rule about it.
func (h *Host) approvals(ctx context.Context, id string, _ *project) error {
	if h.cfg.Approvals == 0 {
		return nil
	}
	err := h.requireApprovals(ctx, id)
	if code := status(err); code == http.StatusNotFound || code == http.StatusForbidden {
		// It may be about this project alone, and only now: it is asked again each time.
		if _, said := h.noApprovals.LoadOrStore(id, true); !said {
			h.cfg.Log.WarnContext(ctx, "Approvals of merge requests are not required: this GitLab, or its tier, has none", "project", h.path(id))
		}
		return nil
	}
	return err
}

func (h *Host) requireApprovals(ctx context.Context, id string) error {
	all := h.project(id) + "/approval_rules"
	var there []struct{}
	if err := h.get(ctx, all, &there); err != nil || len(there) > 0 {
		return err
	}
	if err := h.send(ctx, http.MethodPost, h.project(id)+"/approvals", map[string]any{
		"reset_approvals_on_push": true, "merge_requests_author_approval": false, "merge_requests_disable_committers_approval": true,
	}, nil); err != nil {
		return err
	}
	return h.send(ctx, http.MethodPost, all, map[string]any{
		"name": "gitbind", "rule_type": "any_approver", "approvals_required": h.cfg.Approvals,
	}, nil)
}
