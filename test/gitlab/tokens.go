package gitlab

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"time"
)

type user struct {
	ID       int    `json:"id"`
	Username string `json:"username"`
	Name     string `json:"name"`
	Bot      bool   `json:"bot"`
}

// token is a personal, project or group access token, of a user or bot.
type token struct {
	ID      int      `json:"id"`
	Name    string   `json:"name"`
	Scopes  []string `json:"scopes"`
	Level   int      `json:"access_level,omitempty"`
	Expires string   `json:"expires_at"`
	Created string   `json:"created_at"`
	Revoked bool     `json:"revoked"`
	Active  bool     `json:"active"`
	UserID  int      `json:"user_id"`
	Token   string   `json:"token,omitempty"`

	project int // 0 for one that is not of a project
}

func (k *token) may(scope string) bool {
	return slices.Contains(k.Scopes, "api") || slices.Contains(k.Scopes, scope)
}

// valid says what is wrong with it, "" for nothing. It ends at the beginning of its last day.
func (k *token) valid() string {
	switch {
	case k.Revoked:
		return "Token was revoked. You have to re-authorize from the user."
	case k.Expires != "" && time.Now().UTC().Format(time.DateOnly) >= k.Expires:
		return "Token is expired. You can either do re-authorization or token refresh."
	}
	return ""
}

// Person makes a user with a role in the group, 0 for none, and a personal access token.
func (f *Fake) Person(name string, role int, scopes ...string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.user(name, false)
	if role > 0 {
		f.members[u.ID] = role
	}
	return f.token(&token{Name: name, Scopes: scopes, UserID: u.ID}).Token
}

func (f *Fake) user(name string, bot bool) *user {
	for _, u := range f.users {
		if u.Username == name {
			return u
		}
	}
	u := &user{ID: f.id(), Username: name, Name: name, Bot: bot}
	f.users[u.ID] = u
	return u
}

func (f *Fake) token(k *token) *token {
	k.ID, k.Active, k.Created, k.Token = f.id(), true, time.Now().UTC().Format(time.RFC3339), "glpat-"+rand.Text()
	f.tokens = append(f.tokens, k)
	return k
}

// Revoke ends a token.
func (f *Fake) Revoke(secret string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.tokens {
		if k.Token == secret {
			k.Revoked, k.Active = true, false
		}
	}
}

// SetExpiry sets the date at which a token ends.
func (f *Fake) SetExpiry(secret, date string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.tokens {
		if k.Token == secret {
			k.Expires = date
		}
	}
}

// Tokens are the names of a project's tokens that open it, sorted.
func (f *Fake) Tokens(path string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := []string{}
	for _, k := range f.tokens {
		if p := f.project(path); p != nil && k.project == p.ID && k.valid() == "" {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Expiry is the date at which the token ends that a person or program signs in with.
func (f *Fake) Expiry(secret string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.tokens {
		if k.Token == secret {
			return k.Expires
		}
	}
	return ""
}

func (f *Fake) listTokens(c *call) (any, *refused) {
	var all []*token
	for _, k := range f.tokens {
		if k.project != c.project.ID {
			continue
		}
		shown := *k
		shown.Token, shown.Active = "", k.valid() == ""
		if state := c.URL.Query().Get("state"); state == "" || (state == "active") == shown.Active {
			all = append(all, &shown)
		}
	}
	return page(f, c, all), nil
}

func (f *Fake) createToken(c *call) (any, *refused) {
	k, no := c.newToken(c.role)
	if no != nil {
		return nil, no
	}
	bot := f.user(fmt.Sprintf("project_%d_bot_%d", c.project.ID, f.last), true)
	bot.Name = k.Name
	c.project.members[bot.ID] = k.Level
	k.UserID, k.project = bot.ID, c.project.ID
	return *f.token(k), nil
}

func (f *Fake) createGroupToken(c *call) (any, *refused) {
	if _, no := f.getGroup(c); no != nil {
		return nil, no
	}
	if f.members[c.user.ID] < Owner {
		return nil, refuse(http.StatusForbidden, "403 Forbidden")
	}
	k, no := c.newToken(Owner)
	if no != nil {
		return nil, no
	}
	bot := f.user(fmt.Sprintf("group_%d_bot_%d", f.group, f.last), true)
	bot.Name = k.Name
	f.members[bot.ID] = k.Level
	k.UserID = bot.ID
	return *f.token(k), nil
}

// newToken is the one that is asked for, by who has a role.
func (c *call) newToken(role int) (*token, *refused) {
	bad := func(words string) (*token, *refused) {
		return nil, refuse(http.StatusBadRequest, "400 Bad request - "+words)
	}
	var scopes []string
	asked, _ := c.body["scopes"].([]any)
	for _, s := range asked {
		scopes = append(scopes, fmt.Sprint(s))
		if !slices.Contains([]string{"api", "read_api", "read_repository", "write_repository"}, scopes[len(scopes)-1]) {
			return bad("Scopes can only contain available scopes")
		}
	}
	now, level := time.Now().UTC(), c.int("access_level", Maintainer)
	expires, err := time.Parse(time.DateOnly, c.string("expires_at"))
	switch {
	case c.user.Bot:
		// It is of a project or group access token: they cannot create tokens.
		return bad("User does not have permission to create project access token")
	case c.string("name") == "", len(scopes) == 0, err != nil:
		return bad("name, scopes and expires_at are required")
	case expires.After(now.AddDate(0, 0, 365)):
		return bad("Expiration date must be before " + now.AddDate(0, 0, 366).Format(time.DateOnly))
	case !expires.After(now):
		return bad("Expires at must be in the future")
	case level > role:
		return bad("Access level of the token can't be greater the access level of the user who created the token")
	}
	return &token{Name: c.string("name"), Scopes: scopes, Level: level, Expires: c.string("expires_at")}, nil
}

func (f *Fake) revokeToken(c *call) (any, *refused) {
	for _, k := range f.tokens {
		if k.project == c.project.ID && k.ID == c.number("token") && !k.Revoked {
			k.Revoked, k.Active = true, false
			return nil, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "404 Access Token Not Found")
}
