package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"gitbind.dev/backend/internal/githost"
	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

func newRecorder(t *testing.T, h http.Handler, r *http.Request) string {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		t.Errorf("%s: status %d", r.URL, answer.Code)
	}
	return answer.Body.String()
}

// TestAnotherTenantsClusterIsNotThere compares what a stranger sees with what
// there is to see of a cluster that never was.
func TestAnotherTenantsClusterIsNotThere(t *testing.T) {
	w := lived()
	for _, rest := range []string{"", "/bindings/" + api, "/bindings/" + api + "/team-a/orders", "/bindings/" + api + "/team-a/orders/file"} {
		theirs := w.get(t, "mallory", "/clusters/"+prod+rest)
		missing := w.get(t, "mallory", "/clusters/zz7d2abqwe"+rest)
		if theirs.Code != http.StatusNotFound || theirs.Body.String() != strings.ReplaceAll(missing.Body.String(), "zz7d2abqwe", prod) {
			t.Errorf("%s: status %d\n%s\nwant, as for what is not there:\n%s", rest, theirs.Code, theirs.Body, missing.Body)
		}
		if w.get(t, alice, "/clusters/"+prod+rest).Code != http.StatusOK {
			t.Errorf("%s is not there for its owner", rest)
		}
	}
	for _, path := range []string{"/clusters", "/connect", "/catalog"} {
		if page := w.get(t, "mallory", path).Body.String(); strings.Contains(page, "prod<") || strings.Contains(page, prod) {
			t.Errorf("%s shows another's cluster:\n%s", path, page)
		}
	}
	if answer := post(t, w, "mallory", "same-origin", url.Values{"cluster": {prod}, "offer": {"database"}}); answer.Code != http.StatusNotFound || len(w.bound) > 0 {
		t.Errorf("a stranger's bind: %d, %q", answer.Code, w.bound)
	}
}

func TestNothingIsShownToWhoIsNotSignedIn(t *testing.T) {
	w := lived()
	for _, path := range []string{"/catalog", "/connect", "/clusters", clusterURL, bindingURL, ordersURL, ordersURL + "/file"} {
		answer := w.get(t, "", path)
		if answer.Code != http.StatusUnauthorized || strings.Contains(answer.Body.String(), "PostgreSQL") || strings.Contains(answer.Body.String(), "plan") {
			t.Errorf("%s: %d\n%s", path, answer.Code, answer.Body)
		}
		if want := "/signin?then=" + url.QueryEscape(path); !strings.Contains(strings.ToLower(answer.Body.String()), strings.ToLower(want)) {
			t.Errorf("%s does not lead back to where one was: want %s in\n%s", path, want, answer.Body)
		}
	}
	if answer := post(t, w, "", "same-origin", url.Values{"cluster": {prod}, "offer": {"database"}}); answer.Code != http.StatusUnauthorized || len(w.bound) > 0 {
		t.Errorf("a bind: %d, %q", answer.Code, w.bound)
	}
}

func post(t *testing.T, w *world, who, site string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	return postTo(t, w, "/bindings", who, site, form)
}

func postTo(t *testing.T, w *world, path, who, site string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "https://gitbind.example.com"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	return w.ask(t, r, who)
}

func TestAFormOfAnotherSiteChangesNothing(t *testing.T) {
	w := lived()
	form := url.Values{"cluster": {prod}, "offer": {"queue"}}
	for _, site := range []string{"cross-site", "same-site"} {
		if answer := post(t, w, alice, site, form); answer.Code != http.StatusForbidden || len(w.bound) > 0 {
			t.Errorf("%s: %d, bound %q", site, answer.Code, w.bound)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "https://gitbind.example.com/bindings", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://evil.example.com")
	if answer := w.ask(t, r, alice); answer.Code != http.StatusForbidden || len(w.bound) > 0 {
		t.Errorf("another origin: %d, bound %q", answer.Code, w.bound)
	}
	answer := post(t, w, alice, "same-origin", form)
	if answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != bindingURL+"?granted=queue" || len(w.bound) != 1 {
		t.Errorf("our own form: %d to %q, bound %q", answer.Code, answer.Header().Get("Location"), w.bound)
	}
}

func TestAFormThatMakesNoSenseIsRefused(t *testing.T) {
	w := lived()
	for _, form := range []url.Values{{}, {"cluster": {prod}}, {"offer": {"queue"}}, {"cluster": {prod}, "offer": {"../x"}}, {"cluster": {prod}, "offer": {strings.Repeat("x", 10_000)}}} {
		if answer := post(t, w, alice, "same-origin", form); answer.Code != http.StatusBadRequest {
			t.Errorf("%v: %d", form, answer.Code)
		}
	}
	if answer := w.get(t, alice, "/bindings?cluster="+prod+"&offer=queue"); answer.Code != http.StatusNotFound || len(w.bound) > 0 {
		t.Errorf("a bind by GET: %d, %q", answer.Code, w.bound)
	}
}

// TestEveryAnswerTellsTheBrowserToBeStrict looks at headers of pages, files and
// errors.
func TestEveryAnswerTellsTheBrowserToBeStrict(t *testing.T) {
	w := lived()
	css, err := asset("style.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/catalog", ordersURL, ordersURL + "/file", "/nowhere", css, "/static/../../etc/passwd", "/static/nothing.js"} {
		answer := w.get(t, alice, path)
		csp := answer.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: Content-Security-Policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || strings.Contains(csp, "*") || strings.Contains(csp, "data:") {
			t.Errorf("%s: Content-Security-Policy %q lets too much in", path, csp)
		}
		if answer.Header().Get("X-Content-Type-Options") != "nosniff" || len(answer.Result().Cookies()) > 0 {
			t.Errorf("%s: headers %v", path, answer.Header())
		}
		if cache := answer.Header().Get("Cache-Control"); (cache == "no-store") == (path == css) {
			t.Errorf("%s: Cache-Control %q", path, cache)
		}
	}
}

// nasty is text that would run, hide, or turn things around.
const nasty = "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe\u2066\u200b\x1b[31m\x00&amp;\"'` javascript:alert(1)"

func TestHostileTextStaysText(t *testing.T) {
	w := lived()
	path := contract.Key{Binding: api, Namespace: "team-a", Name: "orders"}.Path()
	w.files[prod+":main"][path] = "# " + nasty + "\n"
	w.addClaim(prod, "denied", func(s *contract.Status) {
		s.Result, s.Message = contract.Denied, nasty
		s.Reason = contract.Reason(nasty)
		s.Effective = map[string]any{"x": nasty, nasty: "y"}
		s.Status = map[string]any{"z": nasty, "conditions": []any{
			map[string]any{"type": nasty, "status": nasty, "reason": nasty, "message": nasty, "lastTransitionTime": nasty}, "x", nil, map[string]any{"type": 7},
		}}
	})
	w.clusters[0].Spec.DisplayName = nasty
	w.offers[0].Description, w.offers[0].DisplayName, w.offers[0].Bound = nasty, nasty, []string{nasty}
	bad, _ := contract.EncodeStatus(&contract.Status{Result: contract.Invalid, Answers: contract.Answers{Commit: "c"}, Problem: &contract.Problem{File: nasty, Reason: nasty}})
	w.files[prod+":status"]["refused/"+nasty] = string(bad)
	w.log[prod+":"+path] = []githost.Commit{commit(1, nasty, nasty+"@example.com", nasty, "@@ "+nasty, "+"+nasty, "-"+nasty, " "+nasty)}
	w.log[prod+":"+path][0].With = []string{nasty, "\"" + strings.ReplaceAll(nasty, `"`, "") + "\" <x@example.com>"}
	for _, path := range []string{"/catalog", "/catalog?q=" + url.QueryEscape(nasty), "/connect", "/clusters", clusterURL, bindingURL, bindingURL + "?q=" + url.QueryEscape(nasty), ordersURL, bindingURL + "/team-a/denied", "/nowhere?x=" + url.QueryEscape(nasty)} {
		page := w.get(t, alice, path).Body.String()
		for _, never := range []string{"<script>alert", "<img", "onerror=alert(1)>", "\u202e", "\u2066", "\u200b", "\x1b", "\x00", `"javascript:`} {
			if strings.Contains(page, never) {
				t.Errorf("%s has %q:\n%s", path, never, around(page, never))
			}
		}
		for _, fault := range faults(t, page) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	if page := w.get(t, alice, ordersURL).Body.String(); !strings.Contains(page, "&lt;script&gt;alert(1)") || !strings.Contains(page, "⟨U&#43;202E⟩") {
		t.Errorf("what is there is not shown:\n%s", page)
	}
}

func around(page, what string) string {
	at := strings.Index(page, what)
	return page[max(0, at-100):min(len(page), at+100)]
}

// TestPathTricks hands over what no cluster, binding, namespace or claim is
// called.
func TestPathTricks(t *testing.T) {
	w := lived()
	for _, path := range []string{
		"/clusters/" + prod + "/bindings/%2e%2e/team-a/orders", "/clusters/" + prod + "/bindings/" + api + "/..%2fteam-a/orders",
		bindingURL + "/team-a/%2e%2e%2forders", bindingURL + "/team-a/orders%00", bindingURL + "/TEAM-A/orders", bindingURL + "/team-a/Orders",
		bindingURL + "/team-a/orders%0abindings", "/clusters/..%2f" + prod, "/clusters/" + strings.ToUpper(prod), bindingURL + "%2f..%2fx",
		bindingURL + "/team-a/" + strings.Repeat("x", 300), bindingURL + "/team-a/nothing", "/clusters/" + prod + "/bindings/others.example.com",
		"/clusters/" + prod + "/bindings/--all.example", "/static/%2e%2e/handler.go", "/static/..%2ftemplates%2fbase.html",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://gitbind.example.com"+path, nil)
		if answer := w.ask(t, r, alice); answer.Code != http.StatusNotFound {
			t.Errorf("%s: status %d\n%s", path, answer.Code, fmt.Sprintf("%.300s", answer.Body.String()))
		}
	}
}

func TestOnlyTheOwnerShares(t *testing.T) {
	w := with(lived, share)()
	form := url.Values{"cluster": {prod}, "who": {"carol@example.com"}, "kind": {"group"}, "role": {"write"}, "namespace": {"team-a"}}
	taking := url.Values{"cluster": {prod}, "share": {"one"}}
	for who, want := range map[string]int{"": http.StatusUnauthorized, "bob": http.StatusNotFound, "mallory": http.StatusNotFound} {
		if answer := postTo(t, w, "/shares", who, "same-origin", form); answer.Code != want || len(w.shares) != 2 {
			t.Errorf("%q shares: %d, %v", who, answer.Code, w.shares)
		}
		if answer := postTo(t, w, "/shares/remove", who, "same-origin", taking); answer.Code != want || len(w.shares) != 2 {
			t.Errorf("%q takes back: %d, %v", who, answer.Code, w.shares)
		}
	}
	if answer := postTo(t, w, "/shares", alice, "cross-site", form); answer.Code != http.StatusForbidden || len(w.shares) != 2 {
		t.Errorf("another site: %d, %v", answer.Code, w.shares)
	}
	if answer := postTo(t, w, "/shares", alice, "same-origin", form); answer.Code != http.StatusSeeOther || answer.Header().Get("Location") != "/clusters/"+prod+"#shared" {
		t.Errorf("Alice shares: %d %s", answer.Code, answer.Body)
	}
	if want := (restapi.Share{Role: restapi.RepositoryWrite, Group: "carol@example.com", Namespace: "team-a"}); len(w.shares) != 3 || w.shares[2] != want {
		t.Errorf("shared: %+v, want %+v", w.shares, want)
	}
	if answer := postTo(t, w, "/shares/remove", alice, "same-origin", taking); answer.Code != http.StatusSeeOther || len(w.shares) != 2 {
		t.Errorf("Alice takes back: %d, %v", answer.Code, w.shares)
	}
}

// A change may be more than is looked at, from its first file on.
func TestAChangeThatIsNotShownIsNotSaidToDoNothing(t *testing.T) {
	t.Parallel()
	for effect, words := range map[string]string{"": "That is not shown here", "e1": "Nothing: main has all of it already"} {
		w := with(lived, func(w *world) { share(w); proposals(w) })()
		w.changes[0].Files, w.changes[0].Effect = nil, effect
		if page := w.get(t, alice, changeURL).Body.String(); !strings.Contains(page, words) {
			t.Errorf("effect %q: the page does not say %q", effect, words)
		}
	}
}

func TestWhoGetsAtAClusterReviewsItsChanges(t *testing.T) {
	w := with(lived, func(w *world) { share(w); proposals(w) })()
	branch := w.changes[0].Branch
	form := func(verdict string) url.Values {
		return url.Values{"cluster": {prod}, "branch": {branch}, "head": {w.changes[0].Head}, "effect": {w.changes[0].Effect}, "verdict": {verdict}, "message": {"One\r\ntwo"}}
	}
	for who, want := range map[string]int{"": http.StatusUnauthorized, "mallory": http.StatusNotFound} {
		if answer := postTo(t, w, "/reviews", who, "same-origin", form("approve")); answer.Code != want || len(w.reviews) > 0 {
			t.Errorf("%q approves: %d, %v", who, answer.Code, w.reviews)
		}
		if answer := w.get(t, who, changeURL); answer.Code != want {
			t.Errorf("%q looks: %d", who, answer.Code)
		}
	}
	if answer := postTo(t, w, "/reviews", alice, "cross-site", form("approve")); answer.Code != http.StatusForbidden || len(w.reviews) > 0 {
		t.Errorf("another site: %d, %v", answer.Code, w.reviews)
	}
	if answer := postTo(t, w, "/reviews", alice, "same-origin", form("approve")); answer.Header().Get("Location") != clusterURL {
		t.Errorf("Alice approves: %d %s", answer.Code, answer.Header().Get("Location"))
	}
	if answer := postTo(t, w, "/reviews", "bob", "same-origin", form("comment")); answer.Header().Get("Location") != changeURL {
		t.Errorf("Bob comments: %d %s", answer.Code, answer.Header().Get("Location"))
	}
	want := []restapi.Review{
		{Branch: branch, Head: w.changes[0].Head, Effect: w.changes[0].Effect, Verdict: restapi.VerdictApprove, Message: "One\ntwo"},
		{Branch: branch, Head: w.changes[0].Head, Verdict: restapi.VerdictComment, Message: "One\ntwo"},
	}
	if !slices.Equal(w.reviews, want) {
		t.Errorf("reviews %+v, want %+v", w.reviews, want)
	}
}

func TestAVerdictThatIsRefusedIsNotLost(t *testing.T) {
	t.Parallel()
	const (
		written = "No:\r\n</code></pre><script>alert(1)</script>\u202e"
		shown   = "No:\n&lt;/code&gt;&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;⟨U&#43;202E⟩"
		back    = `href="` + changeURL + `">Back to the change`
		signIn  = `href="/signin?then=`
	)
	signInAgain := strings.ToLower(signIn + url.QueryEscape(changeURL) + `"`)
	for _, c := range []struct {
		what, who, cluster, branch, link string
		refuses                          error
		status                           int
	}{
		{"the session has ended", "", prod, "", signInAgain, nil, http.StatusUnauthorized},
		{"somebody pushed", alice, prod, "", back, refusal.New(refusal.Conflict, "look again"), http.StatusConflict},
		{"too many ask", alice, prod, "", back, refusal.New(refusal.TooMany, "try again"), http.StatusTooManyRequests},
		{"the message is no good", alice, prod, "", back, refusal.New(refusal.Invalid, "message: no"), http.StatusBadRequest},
		{"a cluster that is none, signed out", "", "/evil.example.com", "", signIn + `%2f"`, nil, http.StatusUnauthorized},
		{"a cluster that is none", alice, "../../evil.example.com", "", `class="button" href="/"`, nil, http.StatusNotFound},
		{"a branch that is none", alice, prod, "//evil.example.com", `href="` + clusterURL + `">Back to the cluster`, nil, http.StatusNotFound},
	} {
		w := with(lived, proposals)()
		w.refuses = c.refuses
		form := url.Values{
			"cluster": {c.cluster}, "branch": {cmp.Or(c.branch, w.changes[0].Branch)}, "head": {w.changes[0].Head},
			"verdict": {"reject"}, "message": {written},
		}
		answer := postTo(t, w, "/reviews", c.who, "same-origin", form)
		page := answer.Body.String()
		if answer.Code != c.status || !strings.Contains(page, shown) || !strings.Contains(page, c.link) {
			t.Errorf("%s: %d, want what was written, and %s:\n%s", c.what, answer.Code, c.link, page)
		}
		if strings.Contains(page, "evil") || strings.Contains(page, "<script>alert") {
			t.Errorf("%s: the page leads elsewhere, or runs what was written:\n%s", c.what, page)
		}
		for _, fault := range faults(t, page) {
			t.Errorf("%s: %s", c.what, fault)
		}
		// Another site has nothing of its own shown.
		if page := postTo(t, w, "/reviews", c.who, "cross-site", form).Body.String(); strings.Contains(page, "No:") {
			t.Errorf("%s: another site's words are shown:\n%s", c.what, page)
		}
		if len(w.reviews) > 0 {
			t.Errorf("%s: %v was taken", c.what, w.reviews)
		}
	}
}
