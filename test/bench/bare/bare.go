// Package bare is the floor under all figures of pushes: packs that git has
// made beforehand, sent as they are, and nothing thought about them. It makes
// the repositories too that pushes are measured on.
package bare

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// A Push moves a branch by one commit.
type Push struct {
	old, new string
	pack     []byte
}

// Identity is who commits.
type Identity struct{ Name, Email string }

func git(ctx context.Context, dir string, by Identity, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	if dir == "" {
		cmd.Args = append([]string{"git"}, args...)
	}
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME="+by.Name, "GIT_AUTHOR_EMAIL="+by.Email, "GIT_COMMITTER_NAME="+by.Name, "GIT_COMMITTER_EMAIL="+by.Email)
	cmd.Stdin = stdin
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, stderr.Bytes())
	}
	return out, nil
}

// History is what a branch is to hold.
type History struct {
	Branch  string
	Files   []string
	Commits int
	// Content is that of a file in the n-th commit that changes it.
	Content func(path string, n int) []byte
}

// Fill makes the history in a bare repository, and returns its head: one commit
// with all files, and then one file in each.
func Fill(ctx context.Context, dir string, by Identity, h History) (head string, err error) {
	r, w := io.Pipe()
	go func() {
		b := bufio.NewWriterSize(w, 1<<20)
		seconds := 1_700_000_000
		commit := func(n int, from string, paths []string) {
			fmt.Fprintf(b, "commit refs/heads/%s\nmark :%d\ncommitter %s <%s> %d +0000\ndata 6\nchange\n%s", h.Branch, n+1, by.Name, by.Email, seconds+n, from)
			for _, p := range paths {
				data := h.Content(p, n)
				fmt.Fprintf(b, "M 100644 inline %s\ndata %d\n%s\n", p, len(data), data)
			}
		}
		commit(0, "", h.Files)
		for n := 1; n < h.Commits; n++ {
			commit(n, fmt.Sprintf("from :%d\n", n), h.Files[n%len(h.Files):][:1])
		}
		fmt.Fprint(b, "done\n")
		w.CloseWithError(b.Flush())
	}()
	if _, err := git(ctx, dir, by, r, "fast-import", "--quiet", "--done", "--force"); err != nil {
		return "", err
	}
	out, err := git(ctx, dir, by, nil, "rev-parse", "refs/heads/"+h.Branch)
	return strings.TrimSpace(string(out)), err
}

// Prepare makes pushes that follow on each other and on a commit of a bare
// repository: each changes one file. Nothing of them is left in the repository.
func Prepare(ctx context.Context, dir, scratch, from string, by Identity, paths []string, content func(path string, n int) []byte) ([]Push, error) {
	if _, err := git(ctx, "", by, nil, "clone", "--quiet", "--bare", "--shared", dir, scratch); err != nil {
		return nil, err
	}
	if _, err := git(ctx, scratch, by, nil, "read-tree", from); err != nil {
		return nil, err
	}
	var pushes []Push
	for n, path := range paths {
		blob, err := git(ctx, scratch, by, bytes.NewReader(content(path, n)), "hash-object", "-w", "--stdin")
		if err != nil {
			return nil, err
		}
		if _, err := git(ctx, scratch, by, nil, "update-index", "--cacheinfo", "100644,"+strings.TrimSpace(string(blob))+","+path); err != nil {
			return nil, err
		}
		tree, err := git(ctx, scratch, by, nil, "write-tree")
		if err != nil {
			return nil, err
		}
		commit, err := git(ctx, scratch, by, nil, "commit-tree", "-p", from, "-m", "change", strings.TrimSpace(string(tree)))
		if err != nil {
			return nil, err
		}
		to := strings.TrimSpace(string(commit))
		pack, err := git(ctx, scratch, by, strings.NewReader(to+"\n^"+from+"\n"), "pack-objects", "--quiet", "--stdout", "--revs", "--window=0")
		if err != nil {
			return nil, err
		}
		pushes = append(pushes, Push{old: from, new: to, pack: pack})
		from = to
	}
	return pushes, nil
}

// Client pushes over HTTP, on kept connections.
type Client struct {
	URL, User, Password string
	http                http.Client
}

// Push sends one push to a branch, and returns when it was acknowledged.
func (c *Client) Push(ctx context.Context, branch string, p Push) error {
	line := fmt.Sprintf("%s %s refs/heads/%s\x00report-status", p.old, p.new, branch)
	body := append(fmt.Appendf(nil, "%04x%s0000", len(line)+4, line), p.pack...)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/git-receive-pack", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth(c.User, c.Password)
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("ok refs/heads/"+branch)) {
		return fmt.Errorf("push to %s: %s: %s", branch, res.Status, answer)
	}
	return nil
}
