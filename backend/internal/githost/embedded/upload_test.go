package embedded

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pausing is a client that takes nothing for a while after the answer has begun.
type pausing struct {
	http.ResponseWriter
	pause *sync.Once
}

func (p pausing) Write(b []byte) (int, error) {
	p.pause.Do(func() { time.Sleep(waitDelay + time.Second) })
	return p.ResponseWriter.Write(b)
}

func (p pausing) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func TestAFetchEndsProperlyOnlyWithAllThatGitHasSaid(t *testing.T) {
	t.Parallel()
	// As much as a pipe holds, so that git can end before any of it was taken.
	const size = 60_000
	for name, c := range map[string]struct {
		end    string
		pauses bool
		cut    bool
	}{
		"git ends":                     {"exit 0", false, false},
		"git ends, the client pauses":  {"exit 0", true, false},
		"git has said what is wrong":   {"exit 128", false, false},
		"git is killed before its end": {"kill -9 $$", false, true},
		"git takes too long":           {"exec sleep 600", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			if strings.Contains(c.end, "sleep") {
				s.clientLimits.Whole = slow
			}
			s.git.program = filepath.Join(t.TempDir(), "git")
			if err := os.WriteFile(s.git.program, fmt.Appendf(nil, "#!/bin/sh\nhead -c %d /dev/zero\n%s\n", size, c.end), 0o700); err != nil {
				t.Fatal(err)
			}
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.pauses {
					w = pausing{w, new(sync.Once)}
				}
				s.ServeHTTP(w, r)
			}))
			defer front.Close()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/git/"+cluster+".git/git-upload-pack", strings.NewReader(flushPkt))
			if err != nil {
				t.Fatal(err)
			}
			r.SetBasicAuth("owner", "owner-"+cluster)
			r.Header.Set("Content-Type", "application/x-git-upload-pack-request")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if len(got) != size || errors.Is(err, io.ErrUnexpectedEOF) != c.cut || !c.cut && err != nil {
				t.Errorf("%d bytes of %d, %v", len(got), size, err)
			}
		})
	}
}
