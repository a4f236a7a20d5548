package gitlab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// call is one request to the API.
type call struct {
	*http.Request
	token *token
	user  *user
	// project is that of the path, nil for none, and role the user's there.
	project *project
	role    int
	body    map[string]any
	header  http.Header
}

// refused is an answer that is no success.
type refused struct {
	status int
	body   any
}

func refuse(status int, message any) *refused {
	return &refused{status, map[string]any{"message": message}}
}

func (f *Fake) serve(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/v4/") {
		f.serveGit(w, r)
		return
	}
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before != nil {
		before(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	if f.limited > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.limited/time.Second)))
		http.Error(w, "Retry later", http.StatusTooManyRequests)
		return
	}
	f.api.ServeHTTP(w, r)
}

// handle answers as a route does.
func (f *Fake) handler(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		c, no := f.authorize(w, r, route.role)
		if no == nil {
			answer, no = route.do(c)
		}
		status := http.StatusOK
		switch {
		case no != nil:
			status, answer = no.status, no.body
		case r.Method == http.MethodPost:
			status = http.StatusCreated
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// authorize finds who asks, and for what.
func (f *Fake) authorize(w http.ResponseWriter, r *http.Request, role int) (*call, *refused) {
	c := &call{Request: r, header: w.Header()}
	var no *refused
	if c.token, no = f.signIn(r.Header.Get("PRIVATE-TOKEN")); no != nil {
		return nil, no
	}
	c.user = f.users[c.token.UserID]
	if !c.token.may("api") && (r.Method != http.MethodGet || !c.token.may("read_api")) {
		return nil, &refused{http.StatusForbidden, map[string]any{
			"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api",
		}}
	}
	if id := r.PathValue("id"); id != "" {
		if path, ok := strings.CutPrefix(id, f.Group+"/"); ok && f.project(path) == nil && f.moved[path] != 0 && r.Method == http.MethodGet {
			to := fmt.Sprintf("%s/api/v4/projects/%d", f.Server.URL, f.moved[path])
			w.Header().Set("Location", to)
			return nil, refuse(http.StatusMovedPermanently, "This resource has been moved permanently to "+to)
		}
		c.project = f.find(id)
		if c.project != nil {
			c.role = f.role(c.user, c.project)
		}
		switch {
		case c.project == nil, c.role == 0:
			return nil, refuse(http.StatusNotFound, "404 Project Not Found")
		case c.role < role:
			return nil, refuse(http.StatusForbidden, "403 Forbidden")
		case c.project.Archived && r.Method != http.MethodGet && r.Method != http.MethodDelete && !strings.HasSuffix(r.URL.Path, "/unarchive"):
			return nil, refuse(http.StatusForbidden, "403 Forbidden")
		}
	}
	if r.Body != nil && r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil && r.ContentLength > 0 {
			return nil, refuse(http.StatusBadRequest, "400 Bad request - "+err.Error())
		}
	}
	return c, nil
}

func (f *Fake) signIn(secret string) (*token, *refused) {
	for _, k := range f.tokens {
		if k.Token == secret {
			if wrong := k.valid(); wrong != "" {
				return nil, &refused{http.StatusUnauthorized, map[string]any{"error": "invalid_token", "error_description": wrong}}
			}
			return k, nil
		}
	}
	return nil, refuse(http.StatusUnauthorized, "401 Unauthorized")
}

func (c *call) string(key string) string {
	s, _ := c.body[key].(string)
	return s
}

func (c *call) int(key string, or int) int {
	if n, ok := c.body[key].(float64); ok {
		return int(n)
	}
	return or
}

func (c *call) bool(key string) bool {
	b, _ := c.body[key].(bool)
	return b
}

// number is the number in a path.
func (c *call) number(key string) int {
	n, _ := strconv.Atoi(c.PathValue(key))
	return n
}

// page is the part of a list that was asked for, with the headers that lead on.
func page[T any](f *Fake, c *call, all []T) []T {
	ask := func(key string, or int) int {
		if n, err := strconv.Atoi(c.URL.Query().Get(key)); err == nil && n > 0 {
			return n
		}
		return or
	}
	number, size := ask("page", 1), min(ask("per_page", 20), f.perPage)
	from, to := min((number-1)*size, len(all)), min(number*size, len(all))
	next := ""
	if to < len(all) {
		next = strconv.Itoa(number + 1)
	}
	c.header.Set("X-Page", strconv.Itoa(number))
	c.header.Set("X-Per-Page", strconv.Itoa(size))
	c.header.Set("X-Next-Page", next)
	if all == nil {
		return []T{}
	}
	return all[from:to]
}

// route is one of the API's: a pattern, the lowest role in the project, and what it does.
type route struct {
	pattern string
	role    int
	do      func(*call) (any, *refused)
}

func (f *Fake) routes() []route {
	const of = "/api/v4/projects/{id}"
	return []route{
		{"GET /api/v4/user", 0, func(c *call) (any, *refused) { return c.user, nil }},
		{"GET /api/v4/personal_access_tokens/self", 0, func(c *call) (any, *refused) { shown := *c.token; shown.Token = ""; return shown, nil }},
		{"GET /api/v4/groups/{group}", 0, f.getGroup},
		{"POST /api/v4/projects", 0, f.createProject},
		{"GET " + of, Guest, func(c *call) (any, *refused) { return f.shown(c.project), nil }},
		{"PUT " + of, Maintainer, f.editProject},
		{"DELETE " + of, Owner, f.deleteProject},
		{"POST " + of + "/archive", Owner, func(c *call) (any, *refused) { return f.archive(c, true) }},
		{"POST " + of + "/unarchive", Owner, func(c *call) (any, *refused) { return f.archive(c, false) }},
		{"POST /api/v4/groups/{group}/access_tokens", 0, f.createGroupToken},
		{"GET " + of + "/protected_branches", Maintainer, f.listRules},
		{"GET " + of + "/protected_branches/{name}", Maintainer, f.getRule},
		{"POST " + of + "/protected_branches", Maintainer, f.createRule},
		{"DELETE " + of + "/protected_branches/{name}", Maintainer, f.deleteRule},
		{"GET " + of + "/hooks", Maintainer, func(c *call) (any, *refused) { return page(f, c, c.project.hooks), nil }},
		{"POST " + of + "/hooks", Maintainer, f.createHook},
		{"PUT " + of + "/hooks/{hook}", Maintainer, f.editHook},
		{"DELETE " + of + "/hooks/{hook}", Maintainer, f.deleteHook},
		{"GET " + of + "/access_tokens", Maintainer, f.listTokens},
		{"POST " + of + "/access_tokens", Maintainer, f.createToken},
		{"DELETE " + of + "/access_tokens/{token}", Maintainer, f.revokeToken},
		{"GET " + of + "/merge_requests", Reporter, f.listMerges},
		{"POST " + of + "/merge_requests", Developer, f.createMerge},
		{"GET " + of + "/merge_requests/{iid}", Reporter, f.getMerge},
		{"PUT " + of + "/merge_requests/{iid}", Developer, f.editMerge},
		{"PUT " + of + "/merge_requests/{iid}/merge", Developer, f.acceptMerge},
		{"GET " + of + "/merge_requests/{iid}/notes", Reporter, f.listNotes},
		{"POST " + of + "/merge_requests/{iid}/notes", Reporter, f.createNote},
		{"PUT " + of + "/merge_requests/{iid}/notes/{note}", Reporter, f.editNote},
		{"POST " + of + "/statuses/{sha}", Developer, f.createStatus},
		{"GET " + of + "/repository/commits/{sha}/statuses", Reporter, f.listStatuses},
		{"GET " + of + "/approval_rules", Reporter, f.listApprovals},
		{"POST " + of + "/approval_rules", Maintainer, f.createApprovals},
		{"POST " + of + "/approvals", Maintainer, f.configureApprovals},
	}
}
