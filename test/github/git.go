package github

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gitbind.dev/test/githost"
)

// updateHook refuses what the rulesets refuse, in GitHub's words.
const updateHook = `#!/bin/sh
case " $RULES_REFUSE " in *" $1 "*)
	echo "GH013: Repository rule violations found for $1." >&2
	exit 1
esac
case " $RULES_FORWARD " in *" $1 "*)
	if [ "$3" != 0000000000000000000000000000000000000000 ] && [ "$2" != 0000000000000000000000000000000000000000 ]; then
		git merge-base --is-ancestor "$2" "$3" || { echo "GH013: Cannot force-push to this branch" >&2; exit 1; }
	fi
esac
`

func (g *GitHub) run(repository string, args ...string) error {
	if out, err := githost.Command(g.dir(repository), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

func (g *GitHub) output(repository string, args ...string) string {
	out, _ := githost.Command(g.dir(repository), args...).Output()
	return strings.TrimSpace(string(out))
}

// makeGit makes the repository on the disk, with a first commit or not.
func (g *GitHub) makeGit(r *repository, first bool) {
	dir := g.dir(r.name)
	steps := [][]string{{"config", "http.receivepack", "true"}, {"config", "uploadpack.allowFilter", "true"}, {"config", "receive.autogc", "false"}}
	if out, err := githost.Command("", "init", "-q", "--bare", "--initial-branch="+r.first, dir).CombinedOutput(); err != nil {
		g.t.Errorf("git init: %v: %s", err, out)
		return
	}
	if first {
		tree := g.output(r.name, "hash-object", "-w", "-t", "tree", "/dev/null")
		steps = append(steps, []string{"update-ref", "refs/heads/" + r.first, g.output(r.name, "commit-tree", "-m", "Initial commit", tree)})
	}
	for _, step := range steps {
		if err := g.run(r.name, step...); err != nil {
			g.t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hooks", "update"), []byte(updateHook), 0o755); err != nil {
		g.t.Error(err)
	}
}

func (g *GitHub) moveGit(from, to string) {
	if err := os.Rename(g.dir(from), g.dir(to)); err != nil {
		g.t.Error(err)
	}
}

// push is one command of a push.
type push struct{ ref, from, to string }

// pushes reads the commands before the pack.
func pushes(body []byte) []push {
	var all []push
	for len(body) >= 4 {
		n, err := strconv.ParseUint(string(body[:4]), 16, 16)
		if err != nil || n < 4 || int(n) > len(body) {
			break
		}
		line, _, _ := strings.Cut(string(body[4:n]), "\x00")
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, push{f[2], f[0], f[1]})
		}
		body = body[n:]
	}
	return all
}

// serveGit serves /{org}/{repo}.git/….
func (g *GitHub) serveGit(w http.ResponseWriter, r *http.Request) {
	org, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name, _, ok := strings.Cut(rest, ".git/")
	write := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
	_, password, _ := r.BasicAuth()
	g.mu.Lock()
	t, repo := g.tokenOf(password), g.repositories[name]
	var sent []push
	var refused, forward []string
	var body []byte
	if t != nil && repo != nil && strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
		body, _ = io.ReadAll(r.Body)
		sent = pushes(body)
		app := int64(0)
		if t.app != nil {
			app = t.app.id
		}
		for _, p := range sent {
			no, ff := forbids(repo.rulesOf(p.ref, app), p.from, p.to)
			if no || strings.HasPrefix(p.ref, "refs/pull/") {
				refused = append(refused, p.ref)
			}
			if ff {
				forward = append(forward, p.ref)
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	level := "read"
	if write {
		level = "write"
	}
	status := http.StatusOK
	switch {
	case t == nil:
		w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		status = http.StatusUnauthorized
	case !ok || org != g.Organization || repo == nil, t.repositories != nil && !slices.Contains(t.repositories, name):
		status = http.StatusNotFound
	case !t.may("contents", level), write && repo.archived:
		status = http.StatusForbidden
	}
	g.mu.Unlock()
	if status != http.StatusOK {
		http.Error(w, "Repository not found or not yours.", status)
		return
	}
	if r.ContentLength < 0 && body != nil {
		r.ContentLength = int64(len(body)) // CGI has no chunks
		r.TransferEncoding = nil
	}
	handler := *githost.Backend(g.t, g.root, "").(*cgi.Handler)
	handler.Env = append(handler.Env, "RULES_REFUSE="+strings.Join(refused, " "), "RULES_FORWARD="+strings.Join(forward, " "))
	handler.ServeHTTP(w, r)
	if len(sent) > 0 {
		g.pushed(repo, sent)
	}
}

// pushed keeps what follows from branches, and tells the webhooks.
func (g *GitHub) pushed(repo *repository, sent []push) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range sent {
		branch, ok := strings.CutPrefix(p.ref, "refs/heads/")
		if !ok || g.output(repo.name, "rev-parse", "-q", "--verify", p.ref) != p.to {
			continue
		}
		for _, pull := range repo.pulls {
			if pull.State == "open" && pull.branch == branch {
				g.setPullHead(repo, pull)
			}
		}
		g.deliver(repo, "push", map[string]any{"ref": p.ref, "before": p.from, "after": p.to})
	}
}

// deliver sends an event to the webhooks that want it.
func (g *GitHub) deliver(repo *repository, event string, payload map[string]any) {
	payload["repository"] = repo.json(g)
	body, err := json.Marshal(payload)
	if err != nil {
		g.t.Error(err)
		return
	}
	for _, h := range repo.hooks {
		if !h.Active || !slices.Contains(h.Events, event) {
			continue
		}
		sum := hmac.New(sha256.New, []byte(h.Config["secret"]))
		sum.Write(body)
		r, err := http.NewRequest(http.MethodPost, h.Config["url"], bytes.NewReader(body))
		if err != nil {
			g.t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", event)
		r.Header.Set("X-GitHub-Delivery", secret())
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum.Sum(nil)))
		g.deliveries.Go(func() {
			// A receiver that is not there is told of the next one.
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
}
