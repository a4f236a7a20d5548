package platform

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"gitbind.dev/test/env"
)

// Organization has the repositories on a Gitea.
const Organization = "gitbind"

// Company is the Gitea of one, with the people who propose and merge changes of one
// repository there.
type Company struct {
	*env.Gitea
	// Repository is "/organization/cluster".
	Repository string
}

// PeoplePassword is that of all who were hired.
const PeoplePassword = "a-password-of-a-test"

// As asks Gitea as somebody.
func (g *Company) As(ctx context.Context, user, method, path string, body, out any) error {
	secret := PeoplePassword
	if user == g.User {
		secret = g.Password
	}
	return g.API(ctx, user, secret, method, path, body, out)
}

// Hire makes accounts, and a team that may write to all repositories.
func (g *Company) Hire(ctx context.Context, people ...string) error {
	var team struct {
		ID int64 `json:"id"`
	}
	err := g.As(ctx, g.User, http.MethodPost, "/orgs/"+Organization+"/teams", map[string]any{
		"name": "developers", "permission": "write", "includes_all_repositories": true, "units": []string{"repo.code", "repo.pulls"},
	}, &team)
	for _, name := range people {
		if err == nil {
			err = g.As(ctx, g.User, http.MethodPost, "/admin/users", map[string]any{
				"username": name, "password": PeoplePassword, "email": name + "@example.org", "must_change_password": false,
			}, nil)
		}
		if err == nil {
			err = g.As(ctx, g.User, http.MethodPut, fmt.Sprintf("/teams/%d/members/%s", team.ID, name), nil, nil)
		}
	}
	return err
}

// CloneURL is that of the repository with a credential.
func (g *Company) CloneURL(user, password string) string {
	return strings.Replace(g.URL, "http://", "http://"+user+":"+password+"@", 1) + g.Repository + ".git"
}

// Open opens a pull request, and gives its path in the API.
func (g *Company) Open(ctx context.Context, user, branch, title string) (path string, err error) {
	var opened struct {
		Number int64 `json:"number"`
	}
	err = g.As(ctx, user, http.MethodPost, "/repos"+g.Repository+"/pulls", map[string]any{"title": title, "head": branch, "base": "main"}, &opened)
	return fmt.Sprintf("/repos%s/pulls/%d", g.Repository, opened.Number), err
}

// Says gives what the control plane says of a commit, "" where it says nothing.
func (g *Company) Says(ctx context.Context, user, commit string) (state, words string, err error) {
	var status struct {
		Statuses []struct{ Status, Context, Description string }
	}
	err = g.As(ctx, user, http.MethodGet, "/repos"+g.Repository+"/commits/"+commit+"/status", nil, &status)
	for _, s := range status.Statuses {
		if s.Context == "gitbind" {
			return s.Status, s.Description, err
		}
	}
	return "", "", err
}

// Approve approves a pull request.
func (g *Company) Approve(ctx context.Context, user, path string) error {
	return g.As(ctx, user, http.MethodPost, path+"/reviews", map[string]any{"event": "APPROVED", "body": "Good."}, nil)
}

// Merge merges a pull request as soon as Gitea has found out that it can be, and tells when it
// asked for that.
func (g *Company) Merge(ctx context.Context, user, path string) (asked time.Time, err error) {
	err = env.Await(time.Minute, func() error {
		asked = time.Now()
		return g.As(ctx, user, http.MethodPost, path+"/merge", map[string]any{"Do": "merge"}, nil)
	})
	return asked, err
}
