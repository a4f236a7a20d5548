package github

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// repository is one of the organization.
type repository struct {
	id       int64
	name     string
	archived bool
	first    string // the default branch
	rulesets []*Ruleset
	hooks    []*hook
	pulls    []*pull
	runs     []*run
}

// Ruleset is one of a repository.
type Ruleset struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Target      string `json:"target"`
	Enforcement string `json:"enforcement"`
	Bypass      []struct {
		ActorID    int64  `json:"actor_id"`
		ActorType  string `json:"actor_type"`
		BypassMode string `json:"bypass_mode"`
	} `json:"bypass_actors"`
	Conditions struct {
		RefName struct{ Include, Exclude []string } `json:"ref_name"`
	} `json:"conditions"`
	Rules []Rule `json:"rules"`
}

// Rule is one of a ruleset.
type Rule struct {
	Type       string         `json:"type"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// hook is a webhook of a repository.
type hook struct {
	ID     int64             `json:"id"`
	Active bool              `json:"active"`
	Events []string          `json:"events"`
	Config map[string]string `json:"config"`
}

func (g *GitHub) api() http.Handler {
	mux := http.NewServeMux()
	const base = "/api/v3"
	repo := base + "/repos/{org}/{repo}"
	for pattern, h := range map[string]http.HandlerFunc{
		"GET " + base + "/orgs/{org}/installation":               g.asApp(g.installation),
		"POST " + base + "/app/installations/{id}/access_tokens": g.asApp(g.newToken),
		"DELETE " + base + "/installation/token":                 g.endToken,
		"GET " + base + "/rate_limit":                            g.rateLimit,
		"POST " + base + "/orgs/{org}/repos":                     g.of("administration", "write", createRepository),
		"GET " + repo:                                            g.of("metadata", "read", func(c call) (int, any) { return http.StatusOK, c.repo.json(c.g) }),
		"PATCH " + repo:                                          g.of("administration", "write", changeRepository),
		"DELETE " + repo:                                         g.of("administration", "write", deleteRepository),
		"POST " + repo + "/branches/{branch}/rename":             g.of("administration", "write", renameBranch),
		"GET " + repo + "/git/ref/{ref...}":                      g.of("contents", "read", getRef),
		"GET " + repo + "/rulesets":                              g.of("metadata", "read", func(c call) (int, any) { return http.StatusOK, paged(c.Request, c.repo.rulesets) }),
		"POST " + repo + "/rulesets":                             g.of("administration", "write", createRuleset),
		"DELETE " + repo + "/rulesets/{id}":                      g.of("administration", "write", deleteRuleset),
		"GET " + repo + "/hooks":                                 g.of("repository_hooks", "read", listHooks),
		"POST " + repo + "/hooks":                                g.of("repository_hooks", "write", createHook),
		"PATCH " + repo + "/hooks/{id}":                          g.of("repository_hooks", "write", changeHook),
		"DELETE " + repo + "/hooks/{id}":                         g.of("repository_hooks", "write", deleteHook),
		"GET " + repo + "/pulls":                                 g.of("pull_requests", "read", listPulls),
		"POST " + repo + "/pulls":                                g.of("pull_requests", "write", createPull),
		"GET " + repo + "/pulls/{number}":                        g.of("pull_requests", "read", getPull),
		"PATCH " + repo + "/pulls/{number}":                      g.of("pull_requests", "write", changePull),
		"GET " + repo + "/issues/{number}/comments":              g.of("pull_requests", "read", listComments),
		"POST " + repo + "/issues/{number}/comments":             g.of("pull_requests", "write", addComment),
		"PATCH " + repo + "/issues/comments/{id}":                g.of("pull_requests", "write", changeComment),
		"GET " + repo + "/commits/{commit}/check-runs":           g.of("metadata", "read", listRuns),
		"POST " + repo + "/check-runs":                           g.of("checks", "write", createRun),
		"PATCH " + repo + "/check-runs/{id}":                     g.of("checks", "write", changeRun),
	} {
		mux.HandleFunc(pattern, h)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		g.t.Errorf("this fake has no %s %s", r.Method, r.URL.Path)
		refuse(w, http.StatusNotFound, "Not Found")
	})
	return mux
}

// rateLimit answers GET /rate_limit, which counts against no limit and is answered within one.
func (g *GitHub) rateLimit(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests--
	if g.tokenOf(bearer(r)) == nil {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	answer(w, http.StatusOK, map[string]any{"resources": map[string]any{"core": map[string]any{"limit": 5000}}})
}

func (g *GitHub) endToken(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokenOf(bearer(r)) == nil {
		refuse(w, http.StatusUnauthorized, "Bad credentials")
		return
	}
	delete(g.tokens, bearer(r))
	w.WriteHeader(http.StatusNoContent)
}

func (r *repository) json(g *GitHub) map[string]any {
	return map[string]any{
		"id": r.id, "name": r.name, "full_name": g.Organization + "/" + r.name, "private": true, "archived": r.archived, "default_branch": r.first,
		"html_url": g.URL + "/" + g.Organization + "/" + r.name,
	}
}

func (g *GitHub) dir(repository string) string {
	return filepath.Join(g.root, g.Organization, repository+".git")
}

func createRepository(c call) (int, any) {
	var in struct {
		Name     string
		AutoInit bool `json:"auto_init"`
		Private  bool
	}
	if !c.read(&in) || in.Name == "" || !in.Private {
		return http.StatusUnprocessableEntity, "Repository creation failed."
	}
	if c.g.repositories[in.Name] != nil {
		return http.StatusUnprocessableEntity, "Repository creation failed: name already exists on this account"
	}
	r := &repository{id: c.g.next(), name: in.Name, first: c.g.firstBranch}
	c.g.makeGit(r, in.AutoInit)
	c.g.repositories[in.Name] = r
	delete(c.g.renamed, in.Name)
	return http.StatusCreated, r.json(c.g)
}

func changeRepository(c call) (int, any) {
	var in struct {
		Name     *string
		Archived *bool
	}
	if !c.read(&in) {
		return http.StatusBadRequest, "Problems parsing JSON"
	}
	if in.Archived != nil {
		c.repo.archived = *in.Archived
	}
	if in.Name != nil {
		c.g.renamed[c.repo.name] = c.repo.id
		delete(c.g.repositories, c.repo.name)
		c.g.moveGit(c.repo.name, *in.Name)
		c.repo.name = *in.Name
		c.g.repositories[c.repo.name] = c.repo
		delete(c.g.renamed, c.repo.name)
	}
	return http.StatusOK, c.repo.json(c.g)
}

func deleteRepository(c call) (int, any) {
	delete(c.g.repositories, c.repo.name)
	c.g.moveGit(c.repo.name, "deleted-"+strconv.FormatInt(c.repo.id, 10))
	return http.StatusNoContent, nil
}

func renameBranch(c call) (int, any) {
	var in struct {
		NewName string `json:"new_name"`
	}
	from := c.PathValue("branch")
	if !c.read(&in) || c.g.run(c.repo.name, "branch", "-m", from, in.NewName) != nil {
		return http.StatusUnprocessableEntity, "Branch not found"
	}
	if c.repo.first == from {
		c.repo.first = in.NewName
	}
	return http.StatusCreated, map[string]any{"name": in.NewName}
}

func getRef(c call) (int, any) {
	ref := "refs/" + c.PathValue("ref")
	head := c.g.output(c.repo.name, "rev-parse", "-q", "--verify", ref)
	if head == "" {
		return http.StatusNotFound, "Not Found"
	}
	return http.StatusOK, map[string]any{"ref": ref, "object": map[string]any{"type": "commit", "sha": head}}
}

func createRuleset(c call) (int, any) {
	in := &Ruleset{}
	if !c.read(in) || in.Target != "branch" || in.Enforcement == "" || len(in.Conditions.RefName.Include) == 0 {
		return http.StatusUnprocessableEntity, "Validation Failed"
	}
	for _, there := range c.repo.rulesets {
		if there.Name == in.Name {
			return http.StatusUnprocessableEntity, "Validation Failed: Name must be unique"
		}
	}
	for _, actor := range in.Bypass {
		if c.g.apps[actor.ActorID] == nil {
			return http.StatusUnprocessableEntity, "Validation Failed: Actor is not a member of the organization"
		}
	}
	in.ID = c.g.next()
	c.repo.rulesets = append(c.repo.rulesets, in)
	return http.StatusCreated, in
}

func deleteRuleset(c call) (int, any) {
	c.repo.rulesets = slices.DeleteFunc(c.repo.rulesets, func(r *Ruleset) bool { return c.PathValue("id") == strconv.FormatInt(r.ID, 10) })
	return http.StatusNoContent, nil
}

// AddRule has a person add a rule to a ruleset of a repository. One that is not there is made, of the
// default branch, and without a bypass.
func (g *GitHub) AddRule(repository, ruleset, rule string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	repo := g.repositories[repository]
	i := slices.IndexFunc(repo.rulesets, func(r *Ruleset) bool { return r.Name == ruleset })
	if i < 0 {
		i = len(repo.rulesets)
		added := &Ruleset{ID: g.next(), Name: ruleset, Target: "branch", Enforcement: "active"}
		added.Conditions.RefName.Include = []string{"~DEFAULT_BRANCH"}
		repo.rulesets = append(repo.rulesets, added)
	}
	repo.rulesets[i].Rules = append(repo.rulesets[i].Rules, Rule{Type: rule})
}

// Rules are the types of the rules of a ruleset of a repository.
func (g *GitHub) Rules(repository, ruleset string) (types []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, set := range g.repositories[repository].rulesets {
		if set.Name == ruleset {
			for _, rule := range set.Rules {
				types = append(types, rule.Type)
			}
		}
	}
	return types
}

// shown is a hook as the API has it: without its secret.
func (h *hook) shown() *hook {
	out := *h
	out.Config = map[string]string{}
	for key, value := range h.Config {
		if key == "secret" {
			value = "********"
		}
		out.Config[key] = value
	}
	return &out
}

func listHooks(c call) (int, any) {
	all := []*hook{}
	for _, h := range c.repo.hooks {
		all = append(all, h.shown())
	}
	return http.StatusOK, paged(c.Request, all)
}

func createHook(c call) (int, any) {
	in := &hook{}
	if !c.read(in) || in.Config["url"] == "" {
		return http.StatusUnprocessableEntity, "Validation Failed"
	}
	in.ID = c.g.next()
	c.g.hooksWritten++
	c.repo.hooks = append(c.repo.hooks, in)
	return http.StatusCreated, in.shown()
}

func changeHook(c call) (int, any) {
	for _, h := range c.repo.hooks {
		if c.PathValue("id") == strconv.FormatInt(h.ID, 10) {
			if !c.read(h) {
				return http.StatusBadRequest, "Problems parsing JSON"
			}
			c.g.hooksWritten++
			return http.StatusOK, h.shown()
		}
	}
	return http.StatusNotFound, "Not Found"
}

func deleteHook(c call) (int, any) {
	c.repo.hooks = slices.DeleteFunc(c.repo.hooks, func(h *hook) bool { return c.PathValue("id") == strconv.FormatInt(h.ID, 10) })
	return http.StatusNoContent, nil
}

// rulesOf are the types of the rules that a ref is under for an App; 0 for a person.
func (r *repository) rulesOf(ref string, app int64) []string {
	var types []string
	for _, set := range r.rulesets {
		name := set.Conditions.RefName
		matches := slices.Contains(name.Include, ref) || slices.Contains(name.Include, "~ALL") ||
			slices.Contains(name.Include, "~DEFAULT_BRANCH") && ref == "refs/heads/"+r.first
		if set.Enforcement != "active" || !matches || slices.Contains(name.Exclude, ref) {
			continue
		}
		bypassed := false
		for _, actor := range set.Bypass {
			bypassed = bypassed || actor.ActorType == "Integration" && actor.BypassMode == "always" && actor.ActorID == app
		}
		if bypassed {
			continue
		}
		for _, rule := range set.Rules {
			types = append(types, rule.Type)
		}
	}
	return types
}

// forbids tells whether a push is refused by rules, and whether it must be a fast forward.
func forbids(rules []string, from, to string) (refused, forward bool) {
	zero := strings.Repeat("0", 40)
	for _, rule := range rules {
		switch {
		case rule == "creation" && from == zero, rule == "deletion" && to == zero, rule == "update" && from != zero && to != zero,
			rule == "pull_request" && to != zero, rule == "required_status_checks" && to != zero:
			refused = true // of a commit that was just made no check is there
		case rule == "non_fast_forward":
			forward = true
		}
	}
	return refused, forward
}

// Mergeable tells whether the rulesets let a pull request to main be merged: one that author
// opened, to whose branch pushed pushed last, and that was approved by approved afterwards; ""
// for nobody.
func (g *GitHub) Mergeable(repository, author, pushed, approved string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, set := range g.repositories[repository].rulesets {
		for _, rule := range set.Rules {
			if rule.Type != "pull_request" {
				continue
			}
			needed, _ := rule.Parameters["required_approving_review_count"].(float64)
			last, _ := rule.Parameters["require_last_push_approval"].(bool)
			counts := approved != "" && approved != author
			if (needed > 0 || last) && !counts || needed > 1 || last && approved == pushed {
				return false
			}
		}
	}
	return true
}
