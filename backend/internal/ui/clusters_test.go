package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"gitbind.dev/backend/internal/refusal"
	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// sharedWithAlice is a world in which others share clusters with her, whose names come before
// and after that of hers.
func sharedWithAlice() *world {
	w := newWorld()
	w.shares = []restapi.Share{{Role: restapi.RepositoryView, User: "oidc:" + alice + "@example.com"}}
	w.addCluster("mallory000", "!", "mallory")
	w.addCluster("bob0000000", "bob's", "bob")
	w.addCluster(prod, "prod", alice)
	return w
}

// Nobody is asked whether something may be shared with them.
func TestH4_WhatIsSharedHidesNothingOfOnesOwn(t *testing.T) {
	w := sharedWithAlice()
	denied := func(s *contract.Status) { s.Result = contract.Denied }
	for i := range maxRows {
		w.addClaim("mallory000", fmt.Sprintf("x-%02d", i), denied)
	}
	w.addClaim(prod, "orders", denied)
	page := w.get(t, alice, "/clusters").Body.String()
	at := -1
	for _, next := range []string{
		`href="/clusters/` + prod + `"`, `href="/clusters/mallory000"`, `href="/clusters/bob0000000"`,
		`href="` + ordersURL + `"`, "/team-a/x-00", "/team-a/x-48", "And 1 more",
	} {
		i := strings.Index(page, next)
		if i <= at {
			t.Errorf("%s is at %d, want it after %d", next, i, at)
		}
		at = max(at, i)
	}
}

func TestH4_ASlowClusterCostsItsOwnRowOnly(t *testing.T) {
	for _, slow := range []string{"mallory000", prod} {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sharedWithAlice()
				w.hangs = slow
				begin := time.Now()
				page := w.get(t, alice, "/clusters").Body.String()
				if took := time.Since(begin); took != lookTime {
					t.Errorf("the list took %s", took)
				}
				_, row, _ := strings.Cut(page, `href="/clusters/`+slow+`"`)
				row, _, _ = strings.Cut(row, "</tr>")
				const away = "Git cannot be read"
				if !strings.Contains(row, away) || strings.Count(page, away) != 1 {
					t.Errorf("%d clusters cannot be read, want %s alone", strings.Count(page, away), slow)
				}
			})
		})
	}
}

// An open page asks for its live parts every few seconds.
func TestWhatKeepsAClustersPageUpToDateAsksForNoOffersAndShares(t *testing.T) {
	w := with(lived, share)()
	// As live.js takes it from an answer.
	live := func(page string) string {
		doc, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for n := range doc.Descendants() {
			if attr(n, "id") == "live-cluster" {
				err = html.Render(&b, n)
			}
		}
		if err != nil || b.Len() == 0 {
			t.Fatalf("there is no live part: %v", err)
		}
		return b.String()
	}
	whole := w.get(t, alice, clusterURL).Body.String()
	w.pages = 0
	r := httptest.NewRequest(http.MethodGet, clusterURL, nil)
	r.Header.Set(liveHeader, "1")
	fresh := w.ask(t, r, alice).Body.String()
	// The cluster, for the page and for its changes.
	if w.pages != 2 {
		t.Errorf("the control plane was asked %d times", w.pages)
	}
	if live(fresh) != live(whole) {
		t.Errorf("the live part is\n%s\nwant\n%s", live(fresh), live(whole))
	}
}

func TestAClustersPageSaysThatProposedChangesCannotBeShown(t *testing.T) {
	t.Parallel()
	const title = "Proposed changes cannot be shown"
	for _, c := range []struct {
		name  string
		err   error
		words string
	}{
		{"what passes", refusal.New(refusal.Unavailable, "the Git host takes too long: try again"), "The Git host takes too long: try again."},
		{"what the backend alone knows", errors.New("git in /srv/git: exit status 128"), "Internal error: the backend&#39;s log says more."},
		{"a repository without main", refusal.New(refusal.NotFound, "there is no such proposed change"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := lived()
			var log strings.Builder
			w.unlisted, w.logs = c.err, &log
			answer := w.get(t, alice, clusterURL)
			page := answer.Body.String()
			if said := strings.Contains(page, title); answer.Code != http.StatusOK || said != (c.words != "") || !strings.Contains(page, c.words) || strings.Contains(page, "/srv/git") {
				t.Errorf("%d, want %q:\n%s", answer.Code, c.words, page)
			}
			if logged := strings.Contains(log.String(), "List proposed changes for the web page"); logged != (c.words != "") {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

func TestAClustersPageSaysThatThereAreMoreProposedChanges(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		w := with(lived, proposals)()
		w.moreChanges = more
		if page := w.get(t, alice, clusterURL).Body.String(); strings.Contains(page, "And more, with older commits") != more {
			t.Errorf("there are more: %t\n%s", more, page)
		}
	}
}

// Of a host elsewhere each branch that git allows is copied.
func TestALinkToAChangeLeadsToIt(t *testing.T) {
	t.Parallel()
	w := lived()
	branches := []string{"changes/a.b/c/orders%2Elock", "changes/fix-#12", "changes/50%-off", "changes/a/b&c=d;e", "changes/größer+1"}
	for _, b := range branches {
		w.changes = append(w.changes, restapi.Change{Branch: b, Subject: "Subject of " + b})
	}
	doc, err := html.Parse(w.get(t, alice, clusterURL).Body)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for n := range doc.Descendants() {
		subject := spoken(n)
		if n.Data != "a" || !strings.HasPrefix(subject, "Subject of ") {
			continue
		}
		found++
		// As browsers do, without what is the page's alone.
		path, _, _ := strings.Cut(attr(n, "href"), "#")
		if answer := w.get(t, alice, path); answer.Code != http.StatusOK || !strings.Contains(html.UnescapeString(answer.Body.String()), subject) {
			t.Errorf("%s leads to %s: %d", subject, path, answer.Code)
		}
	}
	if found != len(branches) {
		t.Errorf("%d changes are listed, want %d", found, len(branches))
	}
}
