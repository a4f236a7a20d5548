// Package gitlab is a fake GitLab for tests: what its documentation of the REST API v4, of
// access tokens and of protected branches says, over bare repositories that git's own
// http-backend serves. It was never held against the real one.
//
// It has what gitbind asks for, and refuses what the real one refuses: tokens that expired,
// lack a scope or are of the wrong kind, roles that are too low, pushes to protected branches.
package gitlab

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/test/githost"
)

// The roles of members.
const (
	Guest      = 10
	Reporter   = 20
	Developer  = 30
	Maintainer = 40
	Owner      = 50
)

// Fake is a GitLab with one group.
type Fake struct {
	t      testing.TB
	root   string
	Server *httptest.Server
	// Group is the full path of the group.
	Group string
	group int
	api   *http.ServeMux

	work sync.WaitGroup // in the background

	mu       sync.Mutex
	last     int // ID that was given out
	users    map[int]*user
	tokens   []*token
	members  map[int]int // of the group: role by user
	projects []*project
	moved    map[string]int // project by a path that it had

	// protectAfter is how long the default protection of a new branch main takes.
	protectAfter time.Duration
	premium      bool
	noHooks      bool
	limited      time.Duration // what Retry-After says, 0 for no limit
	requests     int
	perPage      int                 // at most so many of a page
	before       func(*http.Request) // nil for none
}

// Rule is a protected branch.
type Rule struct {
	Name  string `json:"name"`
	Push  int    `json:"-"`
	Merge int    `json:"-"`
	Force bool   `json:"allow_force_push"`
}

type hook struct {
	ID     int    `json:"id"`
	URL    string `json:"url"`
	Push   bool   `json:"push_events"`
	Merges bool   `json:"merge_requests_events"`
	Verify bool   `json:"enable_ssl_verification"`
	Status string `json:"alert_status"`
	token  string // it is not shown
	failed int    // deliveries, one after the other
}

type project struct {
	ID       int
	Path     string // in the group
	Created  time.Time
	Archived bool
	Deleted  string // date, "" for one that stays
	dir      string
	begun    bool           // main was there
	settings map[string]any // as it was made with
	rules    map[string]Rule
	hooks    []*hook
	members  map[int]int
	merges   []*merge
	statuses []*status
	approval map[string]any
	required int // approvals
}

// New serves until the test ends. Default protection comes when Settle or after is over.
func New(t testing.TB, after time.Duration) *Fake {
	t.Helper()
	f := &Fake{
		t: t, root: t.TempDir(), Group: "company/services", users: map[int]*user{}, members: map[int]int{}, moved: map[string]int{},
		protectAfter: after, perPage: 100, api: http.NewServeMux(),
	}
	f.group = f.id()
	for _, route := range f.routes() {
		f.api.HandleFunc(route.pattern, f.handler(route))
	}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.Server.CloseClientConnections()
		f.Server.Close()
		f.work.Wait()
	})
	return f
}

// Settle waits for what is done in the background.
func (f *Fake) Settle() { f.work.Wait() }

func (f *Fake) id() int {
	f.last++
	return f.last
}

// SetPremium has the group be of the tier that knows approvals.
func (f *Fake) SetPremium() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.premium = true
}

// RefuseHooks has webhooks be to addresses that the host does not send to.
func (f *Fake) RefuseHooks() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noHooks = true
}

// Limit has every request to the API refused with 429, 0 ends that.
func (f *Fake) Limit(retryAfter time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited = retryAfter
}

// SetPage has a page hold so many at most.
func (f *Fake) SetPage(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.perPage = size
}

// SetBefore lets something happen before each request to the API; nil ends that.
func (f *Fake) SetBefore(before func(*http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

// Requests is how many the API was asked.
func (f *Fake) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

// SetArchived has a project be read only, or not.
func (f *Fake) SetArchived(path string, archived bool) {
	f.change(path, func(p *project) { p.Archived = archived })
}

// Descriptions are those of the statuses of a project's commits, as they were set.
func (f *Fake) Descriptions(path string) (descriptions []string) {
	f.change(path, func(p *project) {
		for _, s := range p.statuses {
			descriptions = append(descriptions, s.Description)
		}
	})
	return descriptions
}

// Delete marks a project for deletion.
func (f *Fake) Delete(path string) {
	f.change(path, func(p *project) { p.Deleted = time.Now().UTC().Format(time.DateOnly) })
}

// Rename gives a project another path. The one before leads to it.
func (f *Fake) Rename(path, to string) {
	f.change(path, func(p *project) { f.rename(p, to) })
}

func (f *Fake) rename(p *project, to string) {
	f.moved[p.Path] = p.ID
	delete(f.moved, to)
	if err := os.Rename(p.dir, f.dir(to)); err != nil {
		f.t.Error(err)
	}
	p.Path, p.dir = to, f.dir(to)
}

// Age has a project be older than it is.
func (f *Fake) Age(path string, by time.Duration) {
	f.change(path, func(p *project) { p.Created = p.Created.Add(-by) })
}

// Protect changes or adds a rule, as a person does on the page.
func (f *Fake) Protect(path string, r Rule) {
	f.change(path, func(p *project) {
		p.rules[r.Name] = r
		f.writeRules(p)
	})
}

// Unprotect removes a rule.
func (f *Fake) Unprotect(path, name string) {
	f.change(path, func(p *project) {
		delete(p.rules, name)
		f.writeRules(p)
	})
}

// Ask asks the API as who has a token, and gives the status of the answer.
func (f *Fake) Ask(secret, method, path string, body, out any) int {
	f.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequest(method, f.Server.URL+"/api/v4"+path, bytes.NewReader(data))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Private-Token", secret)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer answer.Body.Close()
	if out != nil && answer.StatusCode/100 == 2 {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			f.t.Fatal(err)
		}
	}
	return answer.StatusCode
}

// Rules are the protected branches of a project, by name.
func (f *Fake) Rules(path string) []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.project(path)
	if p == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(p.rules), func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
}

// SetApprovals changes how many a merge request needs, as a person does.
func (f *Fake) SetApprovals(path string, n int) { f.change(path, func(p *project) { p.required = n }) }

// Approvals are how many a merge request needs.
func (f *Fake) Approvals(path string) (n int) {
	f.change(path, func(p *project) { n = p.required })
	return n
}

// Dir is the bare repository of a project.
func (f *Fake) Dir(path string) (dir string) {
	f.change(path, func(p *project) { dir = p.dir })
	return dir
}

// Git runs git in a project's repository, past all rules.
func (f *Fake) Git(path string, args ...string) string {
	f.t.Helper()
	out, err := githost.Command(f.Dir(path), args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *Fake) change(path string, fn func(*project)) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.project(path)
	if p == nil {
		f.t.Fatalf("the fake GitLab has no project %q", path)
	}
	fn(p)
}

// project finds one by its path in the group.
func (f *Fake) project(path string) *project {
	for _, p := range f.projects {
		if p.Path == path {
			return p
		}
	}
	return nil
}

// find finds one by its ID or full path.
func (f *Fake) find(id string) *project {
	if path, ok := strings.CutPrefix(id, f.Group+"/"); ok {
		return f.project(path)
	}
	n, _ := strconv.Atoi(id)
	for _, p := range f.projects {
		if p.ID == n {
			return p
		}
	}
	return nil
}

// role is a user's in a project, 0 for none.
func (f *Fake) role(u *user, p *project) int { return max(f.members[u.ID], p.members[u.ID]) }

func (f *Fake) dir(path string) string { return filepath.Join(f.root, f.Group, path+".git") }
