package gitlab

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"gitbind.dev/test/githost"
)

func (f *Fake) getGroup(c *call) (any, *refused) {
	if c.PathValue("group") != f.Group && c.PathValue("group") != fmt.Sprint(f.group) || f.members[c.user.ID] == 0 {
		return nil, refuse(http.StatusNotFound, "404 Group Not Found")
	}
	return map[string]any{"id": f.group, "full_path": f.Group}, nil
}

func (f *Fake) shown(p *project) map[string]any {
	shown := maps.Clone(p.settings)
	maps.Copy(shown, map[string]any{
		"id": p.ID, "path": p.Path, "path_with_namespace": f.Group + "/" + p.Path, "created_at": p.Created.UTC().Format(time.RFC3339Nano),
		"archived": p.Archived, "http_url_to_repo": f.Server.URL + "/" + f.Group + "/" + p.Path + ".git",
		"web_url": f.Server.URL + "/" + f.Group + "/" + p.Path, "empty_repo": f.head(p, "main") == "",
	})
	if p.Deleted != "" {
		shown["marked_for_deletion_on"] = p.Deleted
	}
	return shown
}

func (f *Fake) createProject(c *call) (any, *refused) {
	path := c.string("path")
	switch {
	case c.int("namespace_id", 0) != f.group, f.members[c.user.ID] < Developer:
		return nil, refuse(http.StatusBadRequest, map[string]any{"namespace": []string{"is not valid"}})
	case f.project(path) != nil:
		return nil, refuse(http.StatusBadRequest, map[string]any{"name": []string{"has already been taken"}, "path": []string{"has already been taken"}})
	case slices.Contains([]string{"badges", "blob", "commits", "raw", "tree", "wikis"}, path):
		return nil, refuse(http.StatusBadRequest, map[string]any{"path": []string{path + " is a reserved name. Please choose a different path."}})
	}
	p := &project{ID: f.id(), Path: path, Created: time.Now(), dir: f.dir(path), settings: c.body, rules: map[string]Rule{}, members: map[int]int{}}
	delete(f.moved, path)
	f.init(p)
	f.projects = append(f.projects, p)
	if c.bool("initialize_with_readme") {
		text := "# " + path + "\n"
		f.run(p, fmt.Appendf(nil, "commit refs/heads/%s\ncommitter GitLab <gitlab@example.org> %d +0000\ndata 14\nInitial commit\nM 100644 inline README.md\ndata %d\n%s\n",
			cmp.Or(c.string("default_branch"), "main"), p.Created.Unix(), len(text), text), "fast-import", "--quiet")
		f.protectLater(p)
	}
	return f.shown(p), nil
}

func (f *Fake) editProject(c *call) (any, *refused) {
	if path := c.string("path"); path != "" && path != c.project.Path {
		f.rename(c.project, path)
	}
	return f.shown(c.project), nil
}

func (f *Fake) deleteProject(c *call) (any, *refused) {
	ask := c.URL.Query()
	switch {
	case ask.Get("permanently_remove") == "":
		c.project.Deleted = time.Now().UTC().Format(time.DateOnly)
	case c.project.Deleted == "" || ask.Get("full_path") != f.Group+"/"+c.project.Path:
		return nil, refuse(http.StatusBadRequest, "Project must be marked for deletion first, and full_path be its path")
	default:
		f.remove(c.project)
	}
	return nil, nil
}

func (f *Fake) remove(gone *project) {
	f.projects = slices.DeleteFunc(f.projects, func(p *project) bool { return p == gone })
	if err := os.RemoveAll(gone.dir); err != nil {
		f.t.Error(err)
	}
}

func (f *Fake) archive(c *call, archived bool) (any, *refused) {
	c.project.Archived = archived
	return f.shown(c.project), nil
}

// protectLater has the default protection of main come in the background, unless there is a
// rule by then.
func (f *Fake) protectLater(p *project) {
	p.begun = true
	f.work.Go(func() {
		time.Sleep(f.protectAfter)
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := p.rules["main"]; !ok {
			p.rules["main"] = Rule{Name: "main", Push: Maintainer, Merge: Maintainer}
			f.writeRules(p)
		}
	})
}

// rule is the one of a branch.
func (p *project) rule(branch string) (Rule, bool) {
	for pattern, rule := range p.rules {
		if regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$").MatchString(branch) {
			return rule, true
		}
	}
	return Rule{}, false
}

func (r Rule) shown() map[string]any {
	of := func(level int) []map[string]any { return []map[string]any{{"access_level": level}} }
	return map[string]any{"name": r.Name, "allow_force_push": r.Force, "push_access_levels": of(r.Push), "merge_access_levels": of(r.Merge)}
}

func (f *Fake) listRules(c *call) (any, *refused) {
	var all []map[string]any
	for _, name := range slices.Sorted(maps.Keys(c.project.rules)) {
		all = append(all, c.project.rules[name].shown())
	}
	return page(f, c, all), nil
}

func (f *Fake) getRule(c *call) (any, *refused) {
	rule, ok := c.project.rules[c.PathValue("name")]
	if !ok {
		return nil, refuse(http.StatusNotFound, "404 Not found")
	}
	return rule.shown(), nil
}

func (f *Fake) createRule(c *call) (any, *refused) {
	name := c.string("name")
	if _, ok := c.project.rules[name]; ok {
		return nil, refuse(http.StatusConflict, "Protected branch '"+name+"' already exists")
	}
	rule := Rule{Name: name, Push: c.int("push_access_level", Maintainer), Merge: c.int("merge_access_level", Maintainer), Force: c.bool("allow_force_push")}
	c.project.rules[name] = rule
	f.writeRules(c.project)
	return rule.shown(), nil
}

func (f *Fake) deleteRule(c *call) (any, *refused) {
	if _, ok := c.project.rules[c.PathValue("name")]; !ok {
		return nil, refuse(http.StatusNotFound, "404 Not found")
	}
	delete(c.project.rules, c.PathValue("name"))
	f.writeRules(c.project)
	return nil, nil
}

func (f *Fake) createHook(c *call) (any, *refused) {
	if f.noHooks {
		return nil, refuse(http.StatusUnprocessableEntity, "Invalid url given")
	}
	h := &hook{ID: f.id(), Status: "executable"}
	h.set(c)
	c.project.hooks = append(c.project.hooks, h)
	return h, nil
}

func (f *Fake) editHook(c *call) (any, *refused) {
	for _, h := range c.project.hooks {
		if h.ID == c.number("hook") {
			h.set(c)
			return h, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "404 Not found")
}

func (f *Fake) deleteHook(c *call) (any, *refused) {
	c.project.hooks = slices.DeleteFunc(c.project.hooks, func(h *hook) bool { return h.ID == c.number("hook") })
	return nil, nil
}

func (h *hook) set(c *call) {
	h.URL, h.token = c.string("url"), c.string("token")
	h.Push, h.Merges, h.Verify = c.bool("push_events"), c.bool("merge_requests_events"), c.bool("enable_ssl_verification")
}

func (f *Fake) listApprovals(c *call) (any, *refused) {
	if !f.premium {
		return nil, refuse(http.StatusNotFound, "404 Not Found")
	}
	all := []map[string]any{}
	if c.project.required > 0 {
		all = append(all, map[string]any{"id": 1, "approvals_required": c.project.required, "rule_type": "any_approver"})
	}
	return page(f, c, all), nil
}

func (f *Fake) createApprovals(c *call) (any, *refused) {
	if !f.premium {
		return nil, refuse(http.StatusNotFound, "404 Not Found")
	}
	c.project.required = c.int("approvals_required", 0)
	return map[string]any{"id": 1, "approvals_required": c.project.required}, nil
}

func (f *Fake) configureApprovals(c *call) (any, *refused) {
	if !f.premium {
		return nil, refuse(http.StatusNotFound, "404 Not Found")
	}
	c.project.approval = c.body
	return c.body, nil
}

// init makes the bare repository of a project.
func (f *Fake) init(p *project) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		f.t.Error(err)
	}
	f.run(p, nil, "init", "--quiet", "--bare", "--initial-branch=main")
	for key, value := range map[string]string{"http.receivepack": "true", "receive.autogc": "false", "uploadpack.allowFilter": "true", "uploadpack.allowAnySHA1InWant": "true"} {
		f.run(p, nil, "config", key, value)
	}
	if err := os.WriteFile(p.dir+"/hooks/pre-receive", []byte(preReceive), 0o700); err != nil {
		f.t.Error(err)
	}
	f.writeRules(p)
}

// run runs git in a project's repository, with what it reads.
func (f *Fake) run(p *project, stdin []byte, args ...string) string {
	out, err := f.try(p, stdin, args...)
	if err != nil {
		f.t.Errorf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

func (f *Fake) try(p *project, stdin []byte, args ...string) (string, error) {
	cmd := githost.Command(p.dir, args...)
	cmd.Stdin = strings.NewReader(string(stdin))
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
