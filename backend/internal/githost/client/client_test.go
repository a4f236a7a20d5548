package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost"
)

func get(t *testing.T, c *http.Client, url string) (status int, text string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "token secret")
	answer, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

func TestTheCredentialGoesToOneHostOnly(t *testing.T) {
	t.Parallel()
	var stolen string
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen = r.Header.Get("Authorization") }))
	t.Cleanup(thief.Close)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = w.Write(make([]byte, githost.MaxAnswer))
			return
		case "/larger":
			_, _ = w.Write(make([]byte, githost.MaxAnswer+1))
			return
		}
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(host.Close)
	c := New(host.URL+"/api", "backend", nil)
	if status, _, err := get(t, c, host.URL); err != nil || status != http.StatusTemporaryRedirect {
		t.Errorf("a redirect: %d, %v", status, err)
	}
	// As a library does that follows links to the next page.
	if _, _, err := get(t, c, thief.URL); err == nil || !strings.Contains(err.Error(), "gets no credential") {
		t.Errorf("elsewhere: %v", err)
	}
	if stolen != "" {
		t.Errorf("another one got %q", stolen)
	}
	if _, text, err := get(t, c, host.URL+"/large"); err != nil || len(text) != githost.MaxAnswer {
		t.Errorf("of a large answer %d bytes, %v", len(text), err)
	}
	if _, _, err := get(t, c, host.URL+"/larger"); !errors.Is(err, githost.ErrAnswer) {
		t.Errorf("of a larger one: %v", err)
	}
}

func TestAHostThatWantsToBeLeftAloneIs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	unix := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	for name, c := range map[string]struct {
		status int
		header map[string]string
		words  string
		// wait is how long; 0 for no rate limit.
		wait time.Duration
	}{
		"GitHub's primary limit":            {403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(20 * time.Minute)}, "API rate limit exceeded", 20 * time.Minute},
		"GitHub's secondary limit":          {403, map[string]string{"Retry-After": "90"}, "You have exceeded a secondary rate limit", 90 * time.Second},
		"GitHub's secondary limit in words": {403, map[string]string{"X-RateLimit-Remaining": "9"}, "You have exceeded a secondary rate limit", time.Minute},
		"GitHub's limit as 429":             {429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Minute)}, "", time.Minute},
		"GitLab's limit":                    {429, map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": unix(time.Minute), "Retry-After": "30"}, "Retry later", 30 * time.Second},
		"a date":                            {429, map[string]string{"Retry-After": now.Add(time.Minute).Format(http.TimeFormat)}, "", time.Minute},
		"nothing said":                      {429, nil, "", time.Minute},
		"until yesterday":                   {429, map[string]string{"Retry-After": now.Add(-24 * time.Hour).Format(http.TimeFormat)}, "", time.Second},
		"for ever":                          {429, map[string]string{"Retry-After": "2000000000"}, "", maxLimit},
		"no right":                          {403, map[string]string{"X-RateLimit-Remaining": "9"}, "Resource not accessible by integration", 0},
		"the last request that was free":    {200, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": unix(time.Minute)}, "yes", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				for key, value := range c.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.words)
			}))
			t.Cleanup(host.Close)
			client := New(host.URL, "backend", nil)
			clock := now
			client.Transport.(*limited).now = func() time.Time { return clock }
			limit := func() time.Duration {
				t.Helper()
				status, text, err := get(t, client, host.URL)
				var limit *githost.RateLimitError
				switch {
				case errors.As(err, &limit):
					return limit.Until.Sub(now)
				case err != nil || status != c.status || text != c.words:
					t.Fatalf("%d %q, %v", status, text, err)
				}
				return 0
			}
			if got := limit(); got != c.wait {
				t.Fatalf("it waits %s, want %s", got, c.wait)
			}
			if c.wait == 0 {
				return
			}
			if clock = now.Add(c.wait - time.Second/2); limit() != c.wait || asked != 1 {
				t.Errorf("asked %d times within the limit", asked)
			}
			if clock = now.Add(c.wait); limit() == 0 || asked != 2 {
				t.Errorf("asked %d times after the limit", asked)
			}
		})
	}
}

// TestALimitWhoseEndIsNotSaidIsWaitedForLongerEachTime has a host like GitHub, which refuses what is written
// after too much of that, and answers what is read.
func TestALimitWhoseEndIsNotSaidIsWaitedForLongerEachTime(t *testing.T) {
	t.Parallel()
	limits, header := map[string]bool{}, ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limits[r.Method] {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "You have exceeded a secondary rate limit")
		}
	}))
	t.Cleanup(host.Close)
	c, clock := New(host.URL, "backend", nil), time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	c.Transport.(*limited).now = func() time.Time { return clock }
	const read, written = http.MethodGet, http.MethodPost
	both := map[string]bool{read: true, written: true}
	for i, step := range []struct {
		limits map[string]bool
		method string
		header string
		wait   time.Duration
	}{
		{map[string]bool{written: true}, written, "", time.Minute},
		{map[string]bool{written: true}, read, "", 0},
		{map[string]bool{written: true}, written, "", 2 * time.Minute},
		{map[string]bool{written: true}, written, "90", 90 * time.Second},
		{map[string]bool{written: true}, written, "", 4 * time.Minute},
		{map[string]bool{written: true}, written, "", 8 * time.Minute},
		{map[string]bool{written: true}, written, "", 16 * time.Minute},
		{map[string]bool{written: true}, written, "", 32 * time.Minute},
		{map[string]bool{written: true}, written, "", maxLimit},
		{map[string]bool{written: true}, written, "", maxLimit},
		{nil, written, "", 0},
		{both, read, "", time.Minute},
		{both, read, "", 2 * time.Minute},
		{nil, read, "", 0},
		{both, read, "", time.Minute},
	} {
		limits, header = step.limits, step.header
		r, err := http.NewRequestWithContext(t.Context(), step.method, host.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		var limit *githost.RateLimitError
		wait := time.Duration(0)
		if errors.As(err, &limit) {
			wait = limit.Until.Sub(clock)
		}
		if wait != step.wait {
			t.Errorf("%d: it waits %s, want %s: %v", i, wait, step.wait, err)
		}
		clock = clock.Add(wait)
	}
}

// TestRequestsThatAreRefusedAtOnceAreOneLimit has a host refuse several that are under way.
func TestRequestsThatAreRefusedAtOnceAreOneLimit(t *testing.T) {
	t.Parallel()
	const n = 5
	var arrived sync.WaitGroup
	arrived.Add(n)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(host.Close)
	c, now := New(host.URL, "backend", nil), time.Now()
	c.Transport.(*limited).now = func() time.Time { return now }
	var asked sync.WaitGroup
	for range n {
		asked.Go(func() {
			_, _, err := get(t, c, host.URL)
			if limit := (*githost.RateLimitError)(nil); !errors.As(err, &limit) || !limit.Until.Equal(now.Add(unsaid)) {
				t.Errorf("%v, want to wait for %s", err, unsaid)
			}
		})
	}
	asked.Wait()
}

// TestCredentialsWaitForNoLimitOfWhatElseIsAsked has a host that refuses what is asked below a path.
func TestCredentialsWaitForNoLimitOfWhatElseIsAsked(t *testing.T) {
	t.Parallel()
	asked := 0
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/tokens" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(host.Close)
	c := New(host.URL, "backend", nil)
	for _, step := range []struct {
		what, path string
		ctx        context.Context
		limited    bool
		requests   int
	}{
		{"what is read", "/pulls", t.Context(), true, 1},
		{"what is read next", "/tokens", t.Context(), true, 0},
		{"a credential", "/tokens", ForCredentials(t.Context()), false, 1},
		{"one that the host refuses", "/pulls", ForCredentials(t.Context()), true, 1},
		{"the next one", "/tokens", ForCredentials(t.Context()), true, 0},
	} {
		asked = 0
		r, err := http.NewRequestWithContext(step.ctx, http.MethodPost, host.URL+step.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		if limited := errors.As(err, new(*githost.RateLimitError)); limited != step.limited || asked != step.requests {
			t.Errorf("%s: limited %t after %d requests: %v", step.what, limited, asked, err)
		}
	}
}

// TestWhatIsSentForAClusterCounts has a host with a limit, within which nothing is sent.
func TestWhatIsSentForAClusterCounts(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(host.Close)
	c, pace := New(host.URL, "backend", nil), &githost.Pace{Every: 5 * time.Second}
	ask := func() {
		r, err := http.NewRequestWithContext(pace.With(t.Context(), "a"), http.MethodGet, host.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := c.Do(r); err == nil {
			answer.Body.Close()
		}
	}
	asked := 0
	for ; pace.Wait("a") == 0 && asked < 1000; asked++ {
		ask()
	}
	if asked == 1000 || pace.Wait("b") > 0 {
		t.Errorf("after %d requests one waits for %s, and another for %s", asked, pace.Wait("a"), pace.Wait("b"))
	}
	free := func(what string) {
		t.Helper()
		before := pace.Wait("a")
		ask()
		if after := pace.Wait("a"); after > before {
			t.Errorf("%s counts: %s, then %s", what, before, after)
		}
	}
	status = http.StatusNotModified
	free("what is known")
	status = http.StatusTooManyRequests
	ask()
	free("what is not sent")
}

func TestWhatIsKnownIsAskedForInShort(t *testing.T) {
	t.Parallel()
	text, sent := "first", 0
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		etag := `"` + text[:5] + `"`
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent += len(text)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(host.Close)
	c := New(host.URL, "backend", nil)
	large := "large" + strings.Repeat("x", maxKnown)
	for i, step := range []struct {
		text string
		sent int
	}{{"first", 5}, {"first", 0}, {"other", 5}, {"other", 0}, {large, len(large)}, {large, len(large)}} {
		text, sent = step.text, 0
		if status, got, err := get(t, c, host.URL+"/pulls"); err != nil || status != http.StatusOK || got != step.text || sent != step.sent {
			t.Errorf("%d: %d, %d bytes of which %d were sent, want %d; %v", i, status, len(got), sent, step.sent, err)
		}
	}
	// Of many, some are forgotten, any of them: a client that knows none yet has only large ones.
	c = New(host.URL, "backend", nil)
	text = "small" + strings.Repeat("x", maxKnown-5)
	for i := range 2 * maxAllKnown / maxKnown {
		if _, got, err := get(t, c, host.URL+"/"+strconv.Itoa(i)); err != nil || got != text {
			t.Fatal(err)
		}
	}
	// What an answer takes beside its body leaves room for one less.
	if k := c.Transport.(*limited).base.(*known); k.bytes > maxAllKnown || len(k.answers) != maxAllKnown/maxKnown-1 {
		t.Errorf("it keeps %d answers with %d bytes", len(k.answers), k.bytes)
	}
}

// A page that stays as it was may get one behind it.
func TestWhatIsKnownHasThePagesThatThereAreByNow(t *testing.T) {
	t.Parallel()
	next := ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"page"`)
		w.Header().Set("X-Next-Page", next)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "page 1")
	}))
	t.Cleanup(host.Close)
	c := New(host.URL, "backend", nil)
	for _, next = range []string{"", "2", ""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host.URL+"/notes", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if got := answer.Header.Get("X-Next-Page"); err != nil || string(body) != "page 1" || got != next {
			t.Errorf("%q, next page %q, want %q; %v", body, got, next, err)
		}
	}
}

func TestManySmallAnswersTakeNoMoreMemoryThanAFewLargeOnes(t *testing.T) {
	t.Parallel()
	k := &known{base: answering(func(*http.Request) *http.Response {
		header := http.Header{"Etag": {`"1"`}, "Content-Type": {"application/json"}, "X-Github-Media-Type": {"github.v3; format=json"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader("[]"))}
	})}
	long := strings.Repeat("x", 200)
	for i := range 100_000 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://git.example.com/"+long+"/"+strconv.Itoa(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := k.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Each has a URL of 200 bytes, and takes more for its headers.
	if most := maxAllKnown / 800; len(k.answers) > most || len(k.answers) < 1000 {
		t.Errorf("it keeps %d answers, want at most %d", len(k.answers), most)
	}
	counted := 0
	for url, a := range k.answers {
		counted += a.size(url)
	}
	if counted != k.bytes || counted > maxAllKnown {
		t.Errorf("it counts %d bytes, and has %d", k.bytes, counted)
	}
}

// answering is a host that needs no network.
type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// told keeps what an Observer is told.
type told struct{ all []string }

func (o *told) Asked(account string, result Result) {
	o.all = append(o.all, account+" "+string(result))
}

func (o *told) Remaining(account string, requests float64, until time.Time) {
	o.all = append(o.all, account+" has "+strconv.FormatFloat(requests, 'f', -1, 64))
	if !until.IsZero() {
		o.all = append(o.all, "until "+until.UTC().Format(time.DateTime))
	}
}

func (*told) Expires(string, time.Time) {}

func TestWhatAHostIsAskedIsTold(t *testing.T) {
	t.Parallel()
	status, header, value, reset := 0, "", "", ""
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.Header().Set("X-RateLimit-Reset", reset)
		w.WriteHeader(status)
	}))
	t.Cleanup(host.Close)
	o := &told{}
	c := New(host.URL, "konnector", o)
	for _, step := range []struct {
		status        int
		header, value string
		want          []string
	}{
		{200, "X-RateLimit-Remaining", "4999", []string{"konnector ok", "konnector has 4999"}},
		{201, "RateLimit-Remaining", "10", []string{"konnector ok", "konnector has 10"}},
		{304, "ETag", "x", []string{"konnector unchanged"}},
		{404, "X-RateLimit-Remaining", "many", []string{"konnector refused"}},
		{502, "X", "", []string{"konnector failed"}},
		{429, "Retry-After", "60", []string{"konnector refused"}},
		{200, "X", "", []string{"konnector withheld"}},
	} {
		status, header, value = step.status, step.header, step.value
		o.all = nil
		_, _, _ = get(t, c, host.URL)
		if !slices.Equal(o.all, step.want) {
			t.Errorf("of %d it tells %q, want %q", step.status, o.all, step.want)
		}
	}
	status, header, value, reset, o.all = 200, "X-RateLimit-Remaining", "7", "1800000000", nil
	if _, _, _ = get(t, New(host.URL, "konnector", o), host.URL); !slices.Equal(o.all, []string{"konnector ok", "konnector has 7", "until 2027-01-15 08:00:00"}) {
		t.Errorf("it tells %q", o.all)
	}
	host.Close()
	o.all = nil
	c = New(host.URL, "konnector", o)
	if _, _, err := get(t, c, host.URL); err == nil || !slices.Equal(o.all, []string{"konnector failed"}) {
		t.Errorf("of a host that is away it tells %q, %v", o.all, err)
	}
}
