package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gitbind.dev/backend/internal/access"
	"gitbind.dev/backend/internal/refusal"
)

func TestH4_AnOwnerWhoHasMadeMuchWorkWaitsAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &workRates{limit: 1500, burst: 5000}
		took := func(who holder, bytes, worked int64) time.Duration {
			t.Helper()
			began := time.Now()
			done, err := w.begin(t.Context(), who, bytes)
			if err != nil {
				t.Fatal(err)
			}
			done(worked)
			return time.Since(began).Round(time.Second)
		}
		mallory := holder{owner: "mallory", cluster: "m1", role: access.Konnector}
		other := mallory
		other.cluster = "m2"
		// Of 11,000 bytes 5,000 were there. Its cluster and its owner owe no more than that.
		if waited := took(mallory, 4000, 11_000); waited > 0 {
			t.Errorf("the first one waited for %s", waited)
		}
		if waited := took(other, 1000, 1000); waited != time.Second {
			t.Errorf("the same owner's other cluster waited for %s", waited)
		}
		colleague := mallory
		colleague.name = "somebody else"
		if waited := took(colleague, 1000, 1000); waited != time.Second {
			t.Errorf("the same cluster's other account waited for %s", waited)
		}
		if waited := took(mallory, 1000, 1000); waited != 6*time.Second {
			t.Errorf("the same account waited for %s", waited)
		}
		for _, who := range []holder{
			{owner: "mallory", cluster: "m1", role: access.Member},
			{owner: "mallory", cluster: "m1", role: access.Bridge},
			{owner: "alice", cluster: "a1", role: access.Konnector},
		} {
			if waited := took(who, 5000, 5000); waited > 0 {
				t.Errorf("the %s of %s waited for %s", who.role, who.owner, waited)
			}
		}

		took(mallory, 0, 50_000)
		began := time.Now()
		_, err := w.begin(t.Context(), mallory, 1)
		if no := (*refusal.Refusal)(nil); !errors.As(err, &no) || !strings.Contains(no.Words, "try again in 51s") || time.Since(began) > 0 {
			t.Errorf("who would wait for a minute is told %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.begin(ctx, mallory, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("who has left: %v", err)
		}
	})
}

// What a push and a fetch cost is counted, and who has to wait is told what for.
func TestH4_WorkOfPushesAndFetchesCounts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	s.rates = &workRates{limit: 1, burst: 8 * gitWork}
	c.commit("large", map[string]string{"large": strings.Repeat("x", 16*gitWork)})
	c.pushed("HEAD:main")
	c.commit("small", map[string]string{"small": "x"})
	c.refused("have had the Git host work on much", "HEAD:main")
	for role, wants := range map[access.Role]bool{access.Owner: false, access.Bridge: true} {
		out, err := stockGit(t, "", nil, "clone", "-q", s.remote(role, cluster), t.TempDir())
		if (err == nil) != wants {
			t.Errorf("a clone by the %s: %v\n%s", role, err, out)
		}
	}
}

// Git works on a large push once more.
func TestH4_APushCountsAsMuchAsGitWorksOnIt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clone(t, access.Owner)
	s.rates = &workRates{limit: 1, burst: 8 * gitWork}
	s.before(t, "receive-pack", busy)
	content := make([]byte, spoolInMemory)
	_, _ = rand.Read(content)
	c.commit("large", map[string]string{"large": string(content)})
	c.pushed("HEAD:main")
	if out, err := stockGit(t, "", nil, "ls-remote", s.remote(access.Owner, cluster)); err == nil || !strings.Contains(out, "have had the Git host work on much") {
		t.Errorf("who has pushed, and comes again: %v\n%s", err, out)
	}
}

// busy is a script that works for a moment.
const busy = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"

// before has the host run a script before each git of a program.
func (s *served) before(t *testing.T, program, script string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*%s*) %s ;;\nesac\nexec %s \"$@\"\n", program, script, s.git.program)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	before := s.git.program
	s.git.program = path
	t.Cleanup(func() { s.git.program = before })
}

// Git has done most of its work on a fetch before the first byte of the answer.
func TestH4_AFetchCountsAsMuchAsGitWorksOnIt(t *testing.T) {
	t.Parallel()
	const words = "have had the Git host work on much"
	t.Run("of which little is sent", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		s.rates = &workRates{limit: 1, burst: 8 * gitWork}
		s.before(t, "upload-pack", busy)
		// It has three requests.
		_, _ = stockGit(t, "", nil, "clone", "-q", s.remote(access.Owner, cluster), t.TempDir())
		if out, err := stockGit(t, "", nil, "ls-remote", s.remote(access.Owner, cluster)); err == nil || !strings.Contains(out, words) {
			t.Errorf("who has cloned, and comes again: %v\n%s", err, out)
		}
	})
	t.Run("that its client leaves", func(t *testing.T) {
		t.Parallel()
		s := serve(t)
		want := s.large(t, "mallory")
		s.rates = &workRates{limit: 1, burst: 32 * gitWork}
		once := filepath.Join(t.TempDir(), "once")
		s.before(t, "upload-pack", fmt.Sprintf("[ -e %[1]s ] || { touch %[1]s; sleep 60 & wait; }", once))
		conn := s.slowFetch(t, access.Owner, "mallory", want)
		soon(t, "git works on it", func() bool { return s.uploads.inWork() == 1 })
		conn.Close()
		soon(t, "nothing works on it", func() bool { return s.uploads.inWork() == 0 })
		if out, err := stockGit(t, "", nil, "ls-remote", s.remote(access.Owner, "mallory")); err == nil || !strings.Contains(out, words) {
			t.Errorf("who has left a fetch, and comes again: %v\n%s", err, out)
		}
	})
}
