package embedded

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"gitbind.dev/backend/internal/access"
)

// countGit has the host run git by way of a script that counts.
func (s *served) countGit(t *testing.T) (runs func() int) {
	t.Helper()
	dir := t.TempDir()
	list, script := filepath.Join(dir, "runs"), filepath.Join(dir, "git")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\necho x >> %s\nexec %s \"$@\"\n", list, s.git.program), 0o700); err != nil {
		t.Fatal(err)
	}
	before := s.git.program
	s.git.program = script
	t.Cleanup(func() { s.git.program = before })
	return func() int {
		b, _ := os.ReadFile(list)
		return strings.Count(string(b), "x")
	}
}

// chain pushes commits to a branch of proposals, and gives their names.
func (s *served) chain(t *testing.T, n int) (names []string) {
	t.Helper()
	main := s.head(t, mainRef)
	who := "a <alice@example.com> 1 +0000\n"
	var entries []packEntry
	head := main
	for i := range n {
		data := fmt.Appendf(nil, "tree %s\nparent %s\nauthor %scommitter %s\n%d\n", emptyTree, head, who, who, i)
		head = plumbing.ComputeHash(plumbing.CommitObject, data).String()
		names = append(names, head)
		entries = append(entries, packEntry{typ: typeCommit, data: data})
	}
	entries = append(entries, packEntry{typ: typeTree})
	body := append([]byte(pkts(zeroHash+" "+head+" refs/heads/changes/chain\x00report-status")), handmadePack(entries...)...)
	if status, answer := s.post(t, access.Owner, "git-receive-pack", body); status != 200 || !strings.Contains(answer, "ok refs/heads/changes/chain") {
		t.Fatalf("%d %s", status, answer)
	}
	return names
}

const zeroHash = "0000000000000000000000000000000000000000"

// merge is a commit of many parents.
func merge(parents []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", emptyTree)
	for _, p := range parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	b.WriteString("author a <alice@example.com> 1 +0000\ncommitter a <alice@example.com> 1 +0000\n\nx\n")
	return []byte(b.String())
}

func TestH4_ManyParentsCostNoManyProcesses(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil)) })
	chain := s.chain(t, 2000)
	c := s.clone(t, access.Owner)
	c.commit("main goes on", map[string]string{"x": "x\n"})
	c.pushed("HEAD:main")
	main := s.head(t, mainRef)
	for _, push := range []struct {
		name    string
		parents int
		words   string
	}{
		{"more than any merge has", 2000, "has 2000 parents, at most 16"},
		{"as many as a merge may have", 16, "this would rewrite history"},
	} {
		t.Run(push.name, func(t *testing.T) {
			// Each commit stands on others, and none of them on main.
			var entries []packEntry
			head, rest := chain[0], chain[1:]
			for len(rest) > 0 {
				n := min(push.parents-1, len(rest))
				data := merge(append([]string{head}, rest[:n]...))
				head, rest = plumbing.ComputeHash(plumbing.CommitObject, data).String(), rest[n:]
				entries = append(entries, packEntry{typ: typeCommit, data: data})
			}
			runs := s.countGit(t)
			status, answer := s.post(t, access.Owner, "git-receive-pack", pushBody(main, head, handmadePack(entries...)))
			if status != 200 || !strings.Contains(answer, push.words) {
				t.Errorf("status %d, %s", status, answer)
			}
			if got := runs(); got > 5 {
				t.Errorf("git ran %d times", got)
			}
		})
	}
}
