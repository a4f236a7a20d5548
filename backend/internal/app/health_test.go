package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gitbind.dev/backend/internal/githost/embedded"
	"gitbind.dev/gitbridge/version"
)

func TestReadinessHangsOnWhatIsCritical(t *testing.T) {
	fine := func(context.Context) error { return nil }
	broken := func(context.Context) error { return errors.New("away") }
	h := &health{checks: []check{{name: "caches", probe: fine, critical: true}, {name: "oidc", probe: broken}}, log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		path   string
		status int
		words  string
	}{
		{"/healthz", 200, "ok " + version.String()},
		{"/readyz", 200, "[-] oidc: away (the rest goes on)"},
		{"/readyz/", 200, "[+] caches: ok"},
		{"/readyz/caches", 200, "ok"},
		{"/readyz/oidc", 503, "away"},
		{"/readyz/x", 404, "no such check"},
		{"/", 404, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.words) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	h.checks[0].probe = broken
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("without what is critical: %d", w.Code)
	}
}

// Who cannot write still fetches, hears of what moves and signs in.
func TestAFolderThatCannotBeWrittenTakesAwayPushesAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "git")
	host, err := embedded.New(t.Context(), embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	h := &health{checks: (&repositories{local: host}).health(), log: slog.New(slog.NewTextHandler(log, nil))}
	is := func(ctx context.Context, words string, lines int) {
		t.Helper()
		for range 2 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), words) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if got := strings.Count(log.String(), "check=git-host"); got != lines {
			t.Errorf("%d lines, want %d: %s", got, lines, log)
		}
	}
	is(t.Context(), "[+] git-host: ok", 0)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	is(t.Context(), "(the rest goes on)", 1)
	if !strings.Contains(log.String(), "no such file") {
		t.Errorf("it does not say why: %s", log)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	is(t.Context(), "[+] git-host: ok", 2)

	// Nobody waits for the answer any more, which says nothing of what was asked.
	h.checks[0].probe = func(ctx context.Context) error { return ctx.Err() }
	gone, leave := context.WithCancel(t.Context())
	leave()
	is(gone, "[-] git-host", 2)
}

func TestFlagsAreChecked(t *testing.T) {
	for _, c := range []struct{ args, words string }{
		{"", "--public-url is required"},
		{"--public-url=x --git-dir=d --oidc-issuer=i", "no http or https URL"},
		{"--public-url=http://x --git-dir=d --oidc-issuer=https://i", "credentials sent in clear"},
		{"--public-url=https://x --git-dir=d", "--oidc-issuer or --oidc-config is required"},
		{"--public-url=https://x --git-dir=d --oidc-issuer=https://i", "name the client id"},
		{"--public-url=https://x --git-dir=d --oidc-client-id=c --oidc-issuer=http://i", "it must be https"},
		{"--public-url=https://x --git-dir=d --oidc-client-id=c --oidc-issuer=https://gitlab.com", "anybody can get a token"},
		{"--public-url=https://x --git-dir=d --oidc-issuer=https://i --credential-lifetime=1s", "a minute or longer"},
		{"--public-url=https://x --git-dir=d --oidc-client-id=c --oidc-issuer=https://i --oidc-username-prefix=", "prefix"},
		{"extra", "unknown command"},
	} {
		cmd := NewCommand()
		cmd.SetArgs(strings.Fields(c.args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q: %v, want %q", c.args, err, c.words)
		}
	}
}

func TestASuccessOfARemoteHostCountsForAWhile(t *testing.T) {
	asked, err := 0, errors.New("away")
	probe := remembered(func(context.Context) error { asked++; return err }, time.Hour)
	for i, want := range []struct {
		err   error
		asked int
	}{{errors.New("away"), 1}, {errors.New("away"), 2}, {nil, 3}, {errors.New("away"), 3}} {
		err = want.err
		if got := probe(t.Context()); (got == nil) != (i >= 2) || asked != want.asked {
			t.Errorf("%d: %v after it was asked %d times", i, got, asked)
		}
	}
}
