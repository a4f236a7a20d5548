package gitea

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	sdk "code.gitea.io/sdk/gitea"

	"gitbind.dev/backend/internal/githost"
)

// TestTheTokenGoesNowhereElse has the host send the client away.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	var stolen string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	t.Cleanup(thief.Close)
	liar := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(liar.Close)
	host := New(Config{URL: liar.URL, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	if err := host.Create(t.Context(), "k3x9d2abqw"); err == nil || stolen != "" {
		t.Errorf("%v, and another one got %q", err, stolen)
	}
}

func TestWhatTheOperatorIsToMendIsSaid(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"token does not have at least one of required scope(s): [write:admin]"}`))
	}))
	t.Cleanup(refuses.Close)
	host := New(Config{URL: refuses.URL, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	err := host.Create(t.Context(), "k3x9d2abqw")
	if !errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), "required scope(s)") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	if _, err := host.makeAccounts(t.Context(), nil, strings.Repeat("a", 30)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a long id: %v", err)
	}
}

// TestAHostThatMovedIsNoRenamedRepository has a company give it another name, and the old one lead there.
func TestAHostThatMovedIsNoRenamedRepository(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://git.example.com"+r.URL.Path, http.StatusMovedPermanently)
	})
	host := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	if _, err := host.Exists(t.Context(), "k3x9d2abqw"); err == nil || errors.Is(err, githost.ErrRenamed) || !strings.Contains(err.Error(), "https://git.example.com") {
		t.Errorf("it says %v", err)
	}
}

// TestAPageThatTheHostKeepsShortIsNotTheLast has a host whose administrator lets a page have one.
func TestAPageThatTheHostKeepsShortIsNotTheLast(t *testing.T) {
	t.Parallel()
	heads := []string{"changes/a/b/c", "changes/a/b/d", "changes/a/b/e"}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		w.Header().Set("Content-Type", "application/json")
		if n < len(heads) {
			w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?limit=1&page=%d>; rel="next",<http://%[1]s%[2]s?limit=1&page=%d>; rel="last"`, r.Host, r.URL.Path, n+1, len(heads)))
		}
		_, _ = fmt.Fprintf(w, `[{"number": %d, "state": "open", "base": {"ref": "main", "repo_id": 1}, "head": {"ref": %q, "repo_id": 1}}]`, n, heads[n-1])
	})
	host := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	opened, err := host.Opened(t.Context(), "k3x9d2abqw")
	if got := slices.Sorted(maps.Keys(opened)); err != nil || !slices.Equal(got, heads) {
		t.Errorf("it says %v, want %v; %v", got, heads, err)
	}
}

// TestCommentsThatAreTooLargeAreAskedForAFewTimes has a host that gives all of them, whatever page is
// asked for. What cannot be found among them is said again once, and then changed.
func TestCommentsThatAreTooLargeAreAskedForAFewTimes(t *testing.T) {
	t.Parallel()
	asked, said, changed, gone := 0, 0, 0, false
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost:
			if strings.HasSuffix(r.URL.Path, "/comments") {
				said++
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"id": %d}`, 40+said)
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, fmt.Sprintf("/comments/%d", 40+said)):
			if changed++; gone {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.Write([]byte(`{}`))
		case strings.HasSuffix(r.URL.Path, "/comments"):
			asked++
			_, _ = w.Write([]byte(`[{"body": "` + strings.Repeat("x", 9<<20) + `"}]`))
		default:
			_, _ = w.Write([]byte(`{"id": 1}`))
		}
	})
	host := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	is := githost.Check{Commit: strings.Repeat("a", 40), Branch: "changes/pull-1", OK: true, Words: "Good"}
	for i, want := range []struct{ asked, said, changed int }{{3, 1, 0}, {4, 1, 1}, {5, 1, 2}} {
		is.Text = fmt.Sprint("It is well ", i)
		if err := host.Check(t.Context(), "k3x9d2abqw", is); err != nil || asked > want.asked || said != want.said || changed != want.changed {
			t.Errorf("it asked %d times, commented %d times and changed that %d times: %v", asked, said, changed, err)
		}
	}
	// Somebody deletes it.
	gone = true
	if err := host.Check(t.Context(), "k3x9d2abqw", is); err == nil {
		t.Error("a comment that is gone is changed")
	}
	if err := host.Check(t.Context(), "k3x9d2abqw", is); err != nil || said != 2 {
		t.Errorf("it commented %d times: %v", said, err)
	}
}

// TestOnlySomeCommentsAreKeptInMemory has more pull requests than that. One that is forgotten is looked
// up among those that the host gives.
func TestOnlySomeCommentsAreKeptInMemory(t *testing.T) {
	t.Parallel()
	var comment sdk.Comment
	added := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		comments := strings.HasSuffix(r.URL.Path, "/issues/1/comments")
		switch {
		case r.Method == http.MethodPost && comments:
			added++
			comment.ID, comment.Poster = 41, &sdk.User{ID: 1}
			_ = json.NewDecoder(r.Body).Decode(&comment)
			_ = json.NewEncoder(w).Encode(comment)
		case r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/issues/comments/41"):
			_ = json.NewDecoder(r.Body).Decode(&comment)
			_ = json.NewEncoder(w).Encode(comment)
		case comments && added > 0:
			_ = json.NewEncoder(w).Encode([]sdk.Comment{comment})
		case comments:
			_, _ = w.Write([]byte(`[]`))
		default:
			_, _ = w.Write([]byte(`{"id": 1}`))
		}
	})
	host := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	r, err := host.pulls(t.Context(), "k3x9d2abqw")
	if err != nil {
		t.Fatal(err)
	}
	is := githost.Check{Commit: strings.Repeat("a", 40), Branch: "changes/pull-1", OK: true, Words: "Good"}
	for _, is.Text = range []string{"It is well.", "It is better."} {
		if err := host.Check(t.Context(), r.id, is); err != nil {
			t.Fatal(err)
		}
		for n := range int64(maxSaid) {
			r.keep(2+n, 42+n, comment.Body)
		}
		if kept := host.said.Len(); kept != maxSaid {
			t.Errorf("%d comments are kept, want %d", kept, maxSaid)
		}
		if _, ok := host.said.Get(commented{r.id, 1}); ok {
			t.Error("the first is kept")
		}
	}
	if added != 1 || !strings.HasSuffix(comment.Body, is.Text) {
		t.Errorf("there are %d comments, the last of them %q", added, comment.Body)
	}
}

// TestAWebhookBehindAShortPageIsNotMadeAgain has a host that gives one a page.
func TestAWebhookBehindAShortPageIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	var writes []string
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		hooks := []string{`{"id": 7, "config": {"url": "https://other.example.com"}}`, `{"id": 8, "config": {"url": "https://gitbind.example.com/hooks/k3x9d2abqw"}}`}
		switch n, _ := strconv.Atoi(r.URL.Query().Get("page")); {
		case r.Method != http.MethodGet:
			writes = append(writes, r.Method+" "+r.URL.Path)
			_, _ = w.Write([]byte(`{}`))
		case n > len(hooks):
			_, _ = w.Write([]byte(`[]`))
		default:
			_, _ = fmt.Fprintf(w, `[%s]`, hooks[max(n, 1)-1])
		}
	})
	host := New(Config{URL: base, Organization: "gitbind", Hooks: "https://gitbind.example.com/hooks/", Token: func() (string, error) { return "secret", nil }})
	api, err := host.admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.hook(t.Context(), api, "k3x9d2abqw"); err != nil || !slices.Equal(writes, []string{"PATCH /api/v1/repos/gitbind/k3x9d2abqw/hooks/8"}) {
		t.Errorf("it wrote %q: %v", writes, err)
	}
}

// TestReadyIsWhereNothingIsHidden has accounts that the token is of, and what the host says of the organization.
func TestReadyIsWhereNothingIsHidden(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		admin        bool
		organization int
		words        string
	}{
		"an administrator":                        {true, http.StatusOK, ""},
		"before the organization was made":        {true, http.StatusNotFound, ""},
		"no administrator":                        {false, http.StatusOK, "(the token's account, operator, is no site administrator)"},
		"no administrator, and outside":           {false, http.StatusNotFound, "(the token's account, operator, is no site administrator)"},
		"a token that may not read organizations": {true, http.StatusForbidden, "look for the organization gitbind"},
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if strings.HasPrefix(r.URL.Path, "/api/v1/orgs/") {
				w.WriteHeader(c.organization)
			}
			_, _ = fmt.Fprintf(w, `{"login": "operator", "is_admin": %t}`, c.admin)
		})
		err := New(Config{URL: url, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }}).Ready(t.Context())
		if c.words == "" && err != nil || c.words != "" && (!errors.Is(err, githost.ErrCredential) || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAdministratorsAreUnderTheRules has a host without rules. Gitea and Forgejo have words of their own
// for that, and leave the other's alone.
func TestAdministratorsAreUnderTheRules(t *testing.T) {
	t.Parallel()
	rules := map[string]map[string]any{}
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var rule map[string]any
		_ = json.NewDecoder(r.Body).Decode(&rule)
		rules[fmt.Sprint(rule["rule_name"])] = rule
		w.WriteHeader(http.StatusCreated)
	})
	host := New(Config{URL: base, Organization: "gitbind", Token: func() (string, error) { return "secret", nil }})
	api, err := host.admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.protections(t.Context(), api, "k3x9d2abqw"); err != nil {
		t.Fatal(err)
	}
	for _, branch := range []string{"main", "status"} {
		for _, word := range []string{"block_admin_merge_override", "apply_to_admins"} {
			if rules[branch][word] != true {
				t.Errorf("%s of the rule for %s is %v", word, branch, rules[branch][word])
			}
		}
	}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
