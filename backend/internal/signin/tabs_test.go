package signin

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

// tabs is a browser whose issuer takes the code "good".
type tabs struct {
	*browser
	issuer *goodCodes
}

func newTabs(t *testing.T) *tabs {
	t.Helper()
	mux, publicURL := listen(t)
	issuer := newGoodCodes(t)
	s := &service{now: time.Now(), SignIn: &SignIn{Issuer: issuer, ClientID: "web", PublicURL: publicURL}}
	s.serve(t, mux)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &tabs{&browser{service: s, jar: jar}, issuer}
}

// begin is a tab that goes to the issuer, and gives where that sends it back to.
func (b *tabs) begin(t *testing.T, then string) (callback string) {
	t.Helper()
	r, _ := b.send(t, "GET", signInPath+"?then="+url.QueryEscape(then))
	to, err := url.Parse(r.location)
	if err != nil || r.status != http.StatusSeeOther {
		t.Fatal(r.status, err)
	}
	return callbackPath + "?code=good&state=" + to.Query().Get("state")
}

// leads checks where a tab comes to from the issuer.
func (b *tabs) leads(t *testing.T, callback, then string) {
	t.Helper()
	if r, body := b.send(t, "GET", callback); r.status != http.StatusSeeOther || r.location != then {
		t.Errorf("got %d to %q, want %s\n%s", r.status, r.location, then, body)
	}
}

func TestTabsSignInAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("each comes to its page, in any order", func(t *testing.T) {
		t.Parallel()
		for _, first := range []int{0, 1} {
			b := newTabs(t)
			pages := []string{"/a", "/b"}
			callbacks := []string{b.begin(t, pages[0]), b.begin(t, pages[1])}
			b.leads(t, callbacks[first], pages[first])
			b.leads(t, callbacks[1-first], pages[1-first])
			if b.cookie(t, flowCookie) != nil {
				t.Error("the cookie of the flows is still there")
			}
		}
	})
	t.Run("a state that is of none ends none", func(t *testing.T) {
		t.Parallel()
		b := newTabs(t)
		callback := b.begin(t, "/a")
		for _, state := range []string{"", "guess"} {
			b.refused(t, callbackPath+"?code=good&state="+state, http.StatusBadRequest, "was not begun in this browser")
		}
		b.leads(t, callback, "/a")
	})
	t.Run("each counts once, and who is signed in stays so", func(t *testing.T) {
		t.Parallel()
		b := newTabs(t)
		one := b.begin(t, "/a")
		b.begin(t, "/b")
		b.leads(t, one, "/a")
		asked := b.issuer.asked.Load()
		b.leads(t, one, "/")
		if _, body := b.send(t, "GET", "/page"); body != "/page for alice" || b.issuer.asked.Load() != asked {
			t.Errorf("it is %q after %d codes, want %d", body, b.issuer.asked.Load(), asked)
		}
		b.send(t, "POST", "/signout")
		b.refused(t, one, http.StatusBadRequest, "was not begun in this browser")
	})
	t.Run("each ends after ten minutes", func(t *testing.T) {
		t.Parallel()
		b := newTabs(t)
		began := b.now
		one := b.begin(t, "/a")
		b.now = began.Add(flowLifetime - time.Second)
		other := b.begin(t, "/b")
		b.now = began.Add(flowLifetime + time.Second)
		b.refused(t, one, http.StatusBadRequest, "more than 10 minutes ago")
		b.leads(t, other, "/b")
	})
	t.Run("the oldest of very many go", func(t *testing.T) {
		t.Parallel()
		b := newTabs(t)
		long := "/" + strings.Repeat("x", longestPath-1)
		first := b.begin(t, long)
		var last string
		for range 20 {
			last = b.begin(t, long)
			if size := len(b.cookie(t, flowCookie).Value); size > longestCookie {
				t.Fatalf("the cookie has %d bytes", size)
			}
		}
		b.refused(t, first, http.StatusBadRequest, "was not begun in this browser")
		b.leads(t, last, long)
	})
}
