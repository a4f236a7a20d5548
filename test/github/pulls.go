package github

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// pull is a pull request.
type pull struct {
	Number   int
	Title    string
	Body     string
	State    string
	Base     string
	branch   string
	updated  int64
	comments []*comment
}

type comment struct {
	id   int64
	body string
	user string
}

// run is a check run.
type run struct {
	id, app    int64
	Name       string         `json:"name"`
	HeadSHA    string         `json:"head_sha"`
	DetailsURL string         `json:"details_url"`
	Status     string         `json:"status"`
	Conclusion string         `json:"conclusion"`
	Output     map[string]any `json:"output"`
}

func (p *pull) json(c call) map[string]any {
	head := c.g.output(c.repo.name, "rev-parse", "-q", "--verify", fmt.Sprintf("refs/pull/%d/head", p.Number))
	of := c.repo.json(c.g)
	return map[string]any{
		"number": p.Number, "title": p.Title, "body": p.Body, "state": p.State, "merged_at": nil,
		"html_url": fmt.Sprintf("%s/pull/%d", of["html_url"], p.Number),
		"head":     map[string]any{"ref": p.branch, "sha": head, "repo": of},
		"base":     map[string]any{"ref": p.Base, "repo": of},
	}
}

// by is who asks, as GitHub shows them.
func (c call) by() string {
	if c.token.app == nil {
		return c.g.Person
	}
	return c.token.app.slug + "[bot]"
}

func (g *GitHub) setPullHead(repo *repository, p *pull) {
	p.updated = g.next()
	if err := g.run(repo.name, "update-ref", fmt.Sprintf("refs/pull/%d/head", p.Number), "refs/heads/"+p.branch); err != nil {
		g.t.Error(err)
	}
}

func listPulls(c call) (int, any) {
	q := c.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	var some []*pull
	for _, p := range c.repo.pulls {
		if (state == "all" || p.State == state) && (q.Get("base") == "" || q.Get("base") == p.Base) &&
			(q.Get("head") == "" || q.Get("head") == c.g.Organization+":"+p.branch) {
			some = append(some, p)
		}
	}
	slices.SortStableFunc(some, func(a, b *pull) int {
		order := cmp.Compare(a.Number, b.Number)
		if q.Get("sort") == "updated" {
			order = cmp.Compare(a.updated, b.updated)
		}
		if q.Get("direction") == "desc" {
			order = -order
		}
		return order
	})
	out := []map[string]any{}
	for _, p := range paged(c.Request, some) {
		out = append(out, p.json(c))
	}
	return http.StatusOK, out
}

func createPull(c call) (int, any) {
	var in struct{ Title, Head, Base, Body string }
	if !c.read(&in) || in.Title == "" || utf8.RuneCountInString(in.Title) > 256 {
		return http.StatusUnprocessableEntity, "Validation Failed"
	}
	for _, p := range c.repo.pulls {
		if p.State == "open" && p.branch == in.Head && p.Base == in.Base {
			return http.StatusUnprocessableEntity, "Validation Failed: A pull request already exists for " + c.g.Organization + ":" + in.Head + "."
		}
	}
	if c.g.output(c.repo.name, "rev-list", "--count", in.Base+".."+in.Head) == "0" {
		return http.StatusUnprocessableEntity, "Validation Failed: No commits between " + in.Base + " and " + in.Head
	}
	p := &pull{Number: len(c.repo.pulls) + 1, Title: in.Title, Body: in.Body, State: "open", Base: in.Base, branch: in.Head}
	c.repo.pulls = append(c.repo.pulls, p)
	c.g.setPullHead(c.repo, p)
	out := p.json(c)
	c.g.deliver(c.repo, "pull_request", map[string]any{"action": "opened", "number": p.Number})
	return http.StatusCreated, out
}

// AddPull has a person have opened a pull request of a branch to main.
func (g *GitHub) AddPull(repository, branch string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	repo := g.repositories[repository]
	repo.pulls = append(repo.pulls, &pull{Number: len(repo.pulls) + 1, Title: branch, State: "open", Base: "main", branch: branch, updated: g.next()})
}

func (c call) pull() *pull {
	n, _ := strconv.Atoi(c.PathValue("number"))
	if n < 1 || n > len(c.repo.pulls) {
		return nil
	}
	return c.repo.pulls[n-1]
}

func getPull(c call) (int, any) {
	p := c.pull()
	if p == nil {
		return http.StatusNotFound, "Not Found"
	}
	return http.StatusOK, p.json(c)
}

func changePull(c call) (int, any) {
	var in struct{ Title, Body, State *string }
	p := c.pull()
	if p == nil || !c.read(&in) {
		return http.StatusNotFound, "Not Found"
	}
	for _, field := range []struct{ from, to *string }{{in.Title, &p.Title}, {in.Body, &p.Body}, {in.State, &p.State}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	p.updated = c.g.next()
	c.g.deliver(c.repo, "pull_request", map[string]any{"action": "edited", "number": p.Number})
	return http.StatusOK, p.json(c)
}

func (m *comment) json() map[string]any {
	return map[string]any{"id": m.id, "body": m.body, "user": map[string]any{"login": m.user}}
}

func listComments(c call) (int, any) {
	p := c.pull()
	if p == nil {
		return http.StatusNotFound, "Not Found"
	}
	out := []map[string]any{}
	for _, m := range paged(c.Request, p.comments) {
		out = append(out, m.json())
	}
	return http.StatusOK, out
}

func addComment(c call) (int, any) {
	var in struct{ Body string }
	p := c.pull()
	if p == nil || !c.read(&in) {
		return http.StatusNotFound, "Not Found"
	}
	if tooLong(in.Body) {
		return http.StatusUnprocessableEntity, "Validation Failed: body is too long (maximum is 65536 characters)"
	}
	m := &comment{c.g.next(), in.Body, c.by()}
	p.comments = append(p.comments, m)
	return http.StatusCreated, m.json()
}

func changeComment(c call) (int, any) {
	var in struct{ Body string }
	if !c.read(&in) || tooLong(in.Body) {
		return http.StatusUnprocessableEntity, "Validation Failed: body is too long (maximum is 65536 characters)"
	}
	for _, p := range c.repo.pulls {
		for _, m := range p.comments {
			if strconv.FormatInt(m.id, 10) == c.PathValue("id") {
				m.body = in.Body
				return http.StatusOK, m.json()
			}
		}
	}
	return http.StatusNotFound, "Not Found"
}

// tooLong is of a body or a summary.
func tooLong(text string) bool { return utf8.RuneCountInString(text) > 65535 }

func (r *run) valid() bool {
	title, _ := r.Output["title"].(string)
	summary, _ := r.Output["summary"].(string)
	return r.Name != "" && summary != "" && !tooLong(summary) && utf8.RuneCountInString(title) <= 255 && (r.Status != "completed" || r.Conclusion != "")
}

func (r *run) json() map[string]any {
	return map[string]any{
		"id": r.id, "name": r.Name, "head_sha": r.HeadSHA, "details_url": r.DetailsURL, "status": r.Status, "conclusion": r.Conclusion,
		"output": r.Output, "app": map[string]any{"id": r.app}, "completed_at": time.Now().UTC().Format(time.RFC3339),
	}
}

func listRuns(c call) (int, any) {
	q := c.URL.Query()
	some := []map[string]any{}
	for _, r := range c.repo.runs {
		if r.HeadSHA == c.PathValue("commit") && (q.Get("check_name") == "" || q.Get("check_name") == r.Name) &&
			(q.Get("app_id") == "" || q.Get("app_id") == strconv.FormatInt(r.app, 10)) {
			// The latest of each name is listed.
			some = slices.DeleteFunc(some, func(o map[string]any) bool { return o["name"] == r.Name })
			some = append(some, r.json())
		}
	}
	return http.StatusOK, map[string]any{"total_count": len(some), "check_runs": paged(c.Request, some)}
}

func createRun(c call) (int, any) {
	r := &run{id: c.g.next()}
	if !c.read(r) || !r.valid() {
		return http.StatusUnprocessableEntity, "Validation Failed"
	}
	if c.g.run(c.repo.name, "cat-file", "-e", r.HeadSHA+"^{commit}") != nil {
		return http.StatusUnprocessableEntity, "No commit found for SHA: " + r.HeadSHA
	}
	r.app = c.token.app.id
	c.repo.runs = append(c.repo.runs, r)
	return http.StatusCreated, r.json()
}

func changeRun(c call) (int, any) {
	for _, r := range c.repo.runs {
		if strconv.FormatInt(r.id, 10) == c.PathValue("id") {
			if r.app != c.token.app.id || !c.read(r) {
				return http.StatusForbidden, "Invalid app_id `" + strconv.FormatInt(r.app, 10) + "` - check run can only be modified by the GitHub App that created it."
			}
			if !r.valid() {
				return http.StatusUnprocessableEntity, "Validation Failed"
			}
			return http.StatusOK, r.json()
		}
	}
	return http.StatusNotFound, "Not Found"
}
