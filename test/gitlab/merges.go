package gitlab

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

type merge struct {
	ID            int       `json:"id"`
	IID           int       `json:"iid"`
	State         string    `json:"state"` // opened, closed or merged
	Title         string    `json:"title"`
	Description   string    `json:"description"`
	SourceBranch  string    `json:"source_branch"`
	TargetBranch  string    `json:"target_branch"`
	SourceProject int       `json:"source_project_id"`
	TargetProject int       `json:"target_project_id"`
	SHA           string    `json:"sha"`
	WebURL        string    `json:"web_url"`
	Updated       time.Time `json:"updated_at"`
	Author        *user     `json:"author"`

	notes []*note
}

type note struct {
	ID     int    `json:"id"`
	Body   string `json:"body"`
	Author *user  `json:"author"`
	System bool   `json:"system"`
}

type status struct {
	ID          int    `json:"id"`
	SHA         string `json:"sha"`
	Ref         string `json:"ref"`
	Status      string `json:"status"`
	Name        string `json:"name"`
	TargetURL   string `json:"target_url"`
	Description string `json:"description"`
}

// follow has the ref of a merge request, and what is known of it, be at its branch.
func (f *Fake) follow(p *project, m *merge) {
	m.SHA, m.Updated = f.head(p, m.SourceBranch), time.Now()
	f.run(p, nil, "update-ref", fmt.Sprintf("refs/merge-requests/%d/head", m.IID), m.SHA)
}

func (f *Fake) listMerges(c *call) (any, *refused) {
	ask := c.URL.Query()
	var some []*merge
	for _, m := range c.project.merges {
		if (ask.Get("state") == "" || ask.Get("state") == "all" || ask.Get("state") == m.State) && (ask.Get("target_branch") == "" || ask.Get("target_branch") == m.TargetBranch) {
			some = append(some, m)
		}
	}
	by := func(m *merge) time.Time { return time.Unix(int64(m.ID), 0) } // as created_at, the default
	if ask.Get("order_by") == "updated_at" {
		by = func(m *merge) time.Time { return m.Updated }
	}
	slices.SortStableFunc(some, func(a, b *merge) int { return by(b).Compare(by(a)) })
	return page(f, c, some), nil
}

func (f *Fake) createMerge(c *call) (any, *refused) {
	source, target := c.string("source_branch"), c.string("target_branch")
	if f.head(c.project, source) == "" || f.head(c.project, target) == "" || c.string("title") == "" {
		return nil, refuse(http.StatusUnprocessableEntity, []string{"You can't use same project/branch for source and target", "Source branch does not exist"})
	}
	if len([]rune(c.string("title"))) > 255 {
		return nil, refuse(http.StatusBadRequest, map[string]any{"title": []string{"is too long (maximum is 255 characters)"}})
	}
	for _, m := range c.project.merges {
		if m.State == "opened" && m.SourceBranch == source && m.TargetBranch == target {
			return nil, refuse(http.StatusConflict, []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%d", m.IID)})
		}
	}
	iid := len(c.project.merges) + 1
	m := &merge{
		ID: f.id(), IID: iid, State: "opened", Title: c.string("title"), Description: c.string("description"), SourceBranch: source, TargetBranch: target,
		SourceProject: c.project.ID, TargetProject: c.project.ID, Author: c.user,
		WebURL: fmt.Sprintf("%s/%s/%s/-/merge_requests/%d", f.Server.URL, f.Group, c.project.Path, iid),
	}
	c.project.merges = append(c.project.merges, m)
	f.follow(c.project, m)
	m.Description = c.quick(m, m.Description)
	f.tell(c.project, "Merge Request Hook", func(h *hook) bool { return h.Merges })
	return m, nil
}

// Fork opens a merge request to main from another project, with a commit that is there.
func (f *Fake) Fork(path, commit string) (number int) {
	f.change(path, func(p *project) {
		number = len(p.merges) + 1
		p.merges = append(p.merges, &merge{
			ID: f.id(), IID: number, State: "opened", Title: "From a fork", SourceBranch: "main", TargetBranch: "main", SourceProject: f.id(), TargetProject: p.ID,
			SHA: commit, Updated: time.Now(), Author: &user{},
		})
		f.run(p, nil, "update-ref", fmt.Sprintf("refs/merge-requests/%d/head", number), commit)
	})
	return number
}

func (c *call) merge() (*merge, *refused) {
	for _, m := range c.project.merges {
		if m.IID == c.number("iid") {
			return m, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "404 Not found")
}

func (f *Fake) getMerge(c *call) (any, *refused) {
	m, no := c.merge()
	return m, no
}

func (f *Fake) editMerge(c *call) (any, *refused) {
	m, no := c.merge()
	if no != nil {
		return nil, no
	}
	if title := c.string("title"); title != "" {
		m.Title = title
	}
	if _, ok := c.body["description"]; ok {
		m.Description = c.string("description")
	}
	if target := c.string("target_branch"); target != "" {
		m.TargetBranch = target
	}
	switch event := c.string("state_event"); {
	case event == "close" && m.State == "opened":
		m.State = "closed"
	case event == "reopen" && m.State == "closed":
		m.State = "opened"
		f.follow(c.project, m)
	}
	m.Updated = time.Now()
	f.tell(c.project, "Merge Request Hook", func(h *hook) bool { return h.Merges })
	return m, nil
}

// quick does what a text says by quick actions, and gives what is left of it.
func (c *call) quick(m *merge, text string) string {
	return quickAction.ReplaceAllStringFunc(text, func(action string) string {
		if strings.TrimSpace(action) == "/close" {
			m.State = "closed"
		}
		return ""
	})
}

var quickAction = regexp.MustCompile(`(?m)^[ \t]*/(close|approve|merge|assign|label)\b.*$`)

// acceptMerge merges by a merge commit.
func (f *Fake) acceptMerge(c *call) (any, *refused) {
	m, no := c.merge()
	if no != nil {
		return nil, no
	}
	rule, protected := c.project.rule(m.TargetBranch)
	switch {
	case m.State != "opened":
		return nil, refuse(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	case protected && (rule.Merge == 0 || c.role < rule.Merge):
		return nil, refuse(http.StatusUnauthorized, "401 Unauthorized")
	case f.premium && c.project.required > 0 && m.Author.ID == c.user.ID:
		return nil, refuse(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	}
	ours, theirs := f.head(c.project, m.TargetBranch), f.head(c.project, m.SourceBranch)
	tree, err := f.try(c.project, nil, "merge-tree", "--write-tree", ours, theirs)
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "Branch cannot be merged")
	}
	commit := f.run(c.project, nil, "commit-tree", tree, "-p", ours, "-p", theirs, "-m", "Merge branch '"+m.SourceBranch+"' into '"+m.TargetBranch+"'")
	f.run(c.project, nil, "update-ref", "refs/heads/"+m.TargetBranch, commit, ours)
	if c.project.settings["remove_source_branch_after_merge"] == true {
		f.run(c.project, nil, "update-ref", "-d", "refs/heads/"+m.SourceBranch)
	}
	m.State, m.Updated = "merged", time.Now()
	f.pushed(c.project)
	return m, nil
}

func (f *Fake) listNotes(c *call) (any, *refused) {
	m, no := c.merge()
	if no != nil {
		return nil, no
	}
	return page(f, c, m.notes), nil
}

func (f *Fake) createNote(c *call) (any, *refused) {
	m, no := c.merge()
	if no != nil {
		return nil, no
	}
	n := &note{ID: f.id(), Body: c.quick(m, c.string("body")), Author: c.user}
	m.notes = append(m.notes, n)
	return n, nil
}

func (f *Fake) editNote(c *call) (any, *refused) {
	m, no := c.merge()
	if no != nil {
		return nil, no
	}
	for _, n := range m.notes {
		switch {
		case n.ID != c.number("note"):
		case n.Author.ID != c.user.ID:
			return nil, refuse(http.StatusForbidden, "403 Forbidden")
		default:
			n.Body = c.string("body")
			return n, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "404 Not found")
}

func (f *Fake) createStatus(c *call) (any, *refused) {
	sha := c.PathValue("sha")
	if _, err := f.try(c.project, nil, "cat-file", "-e", sha+"^{commit}"); err != nil {
		return nil, refuse(http.StatusNotFound, "404 Commit Not Found")
	}
	states := []string{"pending", "running", "success", "failed", "canceled", "skipped"}
	switch {
	case !slices.Contains(states, c.string("state")):
		return nil, &refused{http.StatusBadRequest, map[string]any{"error": "state does not have a valid value"}}
	case len([]rune(c.string("description"))) > 255:
		return nil, refuse(http.StatusBadRequest, map[string]any{"description": []string{"is too long (maximum is 255 characters)"}})
	}
	ref, name, state := c.string("ref"), c.string("name"), c.string("state")
	for _, s := range slices.Backward(c.project.statuses) {
		if s.SHA != sha || s.Ref != ref || s.Name != name {
			continue
		}
		if s.Status == "pending" && state == "pending" {
			return nil, refuse(http.StatusBadRequest, `Cannot transition status via :enqueue from :pending (Reason(s): Status cannot transition via "enqueue")`)
		}
		break
	}
	s := &status{
		ID: f.id(), SHA: sha, Ref: ref, Status: state, Name: name, TargetURL: c.string("target_url"), Description: c.string("description"),
	}
	c.project.statuses = append(c.project.statuses, s)
	return s, nil
}

func (f *Fake) listStatuses(c *call) (any, *refused) {
	ask := c.URL.Query()
	is := func(key, value string) bool { return ask.Get(key) == "" || ask.Get(key) == value }
	var all []*status
	for _, s := range c.project.statuses {
		if s.SHA == c.PathValue("sha") && is("ref", s.Ref) && is("name", s.Name) {
			// The latest of each is listed.
			all = slices.DeleteFunc(all, func(o *status) bool { return o.Name == s.Name && o.Ref == s.Ref })
			all = append(all, s)
		}
	}
	return page(f, c, all), nil
}
