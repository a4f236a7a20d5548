package gitlab

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"gitbind.dev/test/githost"
)

// preReceive refuses what protected branches do not let through, and the whole push with it.
// It reads lines "pattern role force" of the file rules.
const preReceive = `#!/bin/sh
none=0000000000000000000000000000000000000000
while read -r old new ref; do
	case "$ref" in
	refs/heads/* | refs/tags/*) ;;
	*)
		echo "GitLab: You are not allowed to update this ref: $ref"
		exit 1
		;;
	esac
	branch=${ref#refs/heads/}
	while read -r pattern role force; do
		case "$branch" in $pattern) ;; *) continue ;; esac
		if [ "$new" = "$none" ]; then
			echo "GitLab: You can only delete protected branches using the web interface."
			exit 1
		fi
		if [ "$role" = 0 ] || [ "$GL_ROLE" -lt "$role" ]; then
			echo "GitLab: You are not allowed to push code to protected branches on this project."
			exit 1
		fi
		if [ "$force" = false ] && [ "$old" != "$none" ] && ! git merge-base --is-ancestor "$old" "$new"; then
			echo "GitLab: You are not allowed to force push code to a protected branch on this project."
			exit 1
		fi
	done <"$GIT_DIR/rules"
done
`

// writeRules has the repository refuse by the rules as they are.
func (f *Fake) writeRules(p *project) {
	var b strings.Builder
	for _, r := range p.rules {
		fmt.Fprintf(&b, "%s %d %t\n", r.Name, r.Push, r.Force)
	}
	if err := os.WriteFile(p.dir+"/rules", []byte(b.String()), 0o600); err != nil {
		f.t.Error(err)
	}
}

// serveGit lets in by token, whatever the username, and tells of what was pushed.
func (f *Fake) serveGit(w http.ResponseWriter, r *http.Request) {
	path, service, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+f.Group+"/"), ".git/")
	pushes := service == "git-receive-pack" || r.URL.Query().Get("service") == "git-receive-pack"
	user, secret, _ := r.BasicAuth()
	f.mu.Lock()
	k, no := f.signIn(secret)
	var p *project
	role := 0
	if no == nil && user != "" {
		if p = f.project(path); p != nil {
			role = f.role(f.users[k.UserID], p)
		}
	}
	archived := p != nil && (p.Archived || p.Deleted != "")
	f.mu.Unlock()
	switch {
	case no != nil || user == "":
		w.Header().Set("WWW-Authenticate", `Basic realm="GitLab"`)
		http.Error(w, "HTTP Basic: Access denied.", http.StatusUnauthorized)
		return
	case p == nil || role == 0:
		http.Error(w, "The project you were looking for could not be found or you don't have permission to view it.", http.StatusNotFound)
		return
	case pushes && (role < Developer || !k.may("write_repository")), role < Reporter, !k.may("write_repository") && !k.may("read_repository"):
		http.Error(w, "You are not allowed to do this in this project.", http.StatusForbidden)
		return
	case pushes && archived:
		http.Error(w, "You can't push code to a project that is archived or scheduled for deletion.", http.StatusForbidden)
		return
	}
	h := githost.Backend(f.t, f.root, "/").(*cgi.Handler)
	h.Env = append(h.Env, fmt.Sprintf("GL_ROLE=%d", role))
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	if service == "git-receive-pack" && bytes.Contains(answer.Body.Bytes(), []byte("ok refs/")) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.head(p, "main") != "" && !p.begun {
			f.protectLater(p)
		}
		f.pushed(p)
	}
}

// head is where a branch is, "" if there is none.
func (f *Fake) head(p *project, branch string) string {
	hash, _ := f.try(p, nil, "rev-parse", "--quiet", "--verify", "refs/heads/"+branch)
	return hash
}

// pushed has open merge requests follow their branches, and tells hooks.
func (f *Fake) pushed(p *project) {
	for _, m := range p.merges {
		if head := f.head(p, m.SourceBranch); m.State == "opened" && m.SourceProject == p.ID && head != "" && head != m.SHA {
			f.follow(p, m)
		}
	}
	f.tell(p, "Push Hook", func(h *hook) bool { return h.Push })
}

// maxFailed is after how many failures a hook is told no more. An edit does not change that.
const maxFailed = 4

// tell has a project's hooks hear of an event, in the background.
func (f *Fake) tell(p *project, event string, wants func(*hook) bool) {
	body, err := json.Marshal(map[string]any{"object_kind": event, "project_id": p.ID})
	if err != nil {
		f.t.Error(err)
	}
	for _, h := range p.hooks {
		if !wants(h) || h.Status != "executable" {
			continue
		}
		told := *h
		f.work.Go(func() {
			ok := told.tell(event, body)
			f.mu.Lock()
			defer f.mu.Unlock()
			if h.failed++; ok {
				h.failed = 0
			}
			if h.failed == maxFailed {
				h.Status = "temporarily_disabled"
			}
		})
	}
}

func (h *hook) tell(event string, body []byte) bool {
	r, err := http.NewRequest(http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gitlab-Event", event)
	r.Header.Set("X-Gitlab-Token", h.token)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: !h.Verify}, //nolint:gosec // as a hook says
	}}
	answer, err := client.Do(r)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode/100 == 2
}
