package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	neturl "net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// repository is one that an attacker was given, with a credential for it.
type repository struct{ URL, Email, User, Password string }

// attacker attacks with a repository.
type attacker struct {
	repository
	// root is the target's.
	root   [][2]string
	client *http.Client
	log    *log
}

// newAttacker reads the repository once, to know what is in it.
func newAttacker(ctx context.Context, r repository, l *log) (*attacker, error) {
	a := &attacker{repository: r, log: l, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}}
	var err error
	a.root, err = a.rootOf(ctx)
	return a, err
}

// rootOf are the files in the root of main.
func (a *attacker) rootOf(ctx context.Context) ([][2]string, error) {
	dir, err := os.MkdirTemp("", "gitbind-hostile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	url, err := neturl.Parse(a.URL)
	if err != nil {
		return nil, err
	}
	url.User = neturl.UserPassword(a.User, a.Password)
	clone := exec.CommandContext(ctx, "git", "clone", "--quiet", "--bare", "--depth=1", url.String(), dir)
	if out, err := clone.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("clone %s: %w: %s", a.URL, err, out)
	}
	list := exec.CommandContext(ctx, "git", "-C", dir, "ls-tree", "-z", "HEAD")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", a.URL, err)
	}
	var root [][2]string
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		// "100644 blob <hash>\t<name>"
		what, name, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(what); len(f) == 3 && f[1] == "blob" {
			root = append(root, [2]string{f[0] + " " + name, f[2]})
		}
	}
	return root, nil
}

// work attacks until ctx ends, in an order that the generator says.
func (a *attacker) work(ctx context.Context, rng *mathrand.Rand) {
	var slow sync.WaitGroup
	defer slow.Wait()
	for range 4 {
		slow.Go(func() {
			for ctx.Err() == nil {
				a.log.note("H4 a slow reader", a.readSlowly(ctx))
				sleep(ctx, time.Second)
			}
		})
	}
	all := attacks()
	for ctx.Err() == nil {
		if rng.IntN(len(all)+1) == 0 {
			a.log.note("H7 a guessed credential", a.guess(ctx))
			continue
		}
		one := all[rng.IntN(len(all))]
		a.log.note(one.name, a.try(ctx, one))
		sleep(ctx, time.Duration(rng.Int64N(int64(time.Second))))
	}
}

// try makes one push, and gives what the host says of it.
func (a *attacker) try(ctx context.Context, one attack) string {
	head, err := a.head(ctx)
	if err != nil {
		return err.Error()
	}
	p := one.make(target{head: head, root: a.root, email: a.Email})
	var body bytes.Buffer
	for i, u := range p.updates {
		old := strings.Repeat("0", 40)
		if u.ref == mainBranch {
			old = head
		}
		line := old + " " + u.to + " " + u.ref
		if i == 0 {
			line += "\x00report-status"
		}
		fmt.Fprintf(&body, "%04x%s", len(line)+4, line)
	}
	body.WriteString("0000")
	body.Write(p.pack)
	res, err := a.do(ctx, http.MethodPost, a.URL+"/git-receive-pack", "application/x-git-receive-pack-request", &body, a.Password)
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "no answer: " + err.Error()
	}
	text := string(said)
	switch _, words, refused := strings.Cut(text, "ng "); {
	case res.StatusCode != http.StatusOK:
		return fmt.Sprintf("refused: %s %s", res.Status, strings.TrimSpace(text))
	case refused:
		_, words, _ = strings.Cut(words, " ")
		words, _, _ = strings.Cut(words, "\n")
		return "refused: " + words
	case strings.Contains(text, "ok refs/"):
		return "taken"
	}
	return "refused: " + strings.TrimSpace(text)
}

// head is main's.
func (a *attacker) head(ctx context.Context) (string, error) {
	res, err := a.do(ctx, http.MethodGet, a.URL+"/info/refs?service=git-upload-pack", "", nil, a.Password)
	if err != nil {
		return "", fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("refused: %s", res.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(res.Body, 16<<20))
	for lines.Scan() {
		if line, _, _ := strings.Cut(lines.Text(), "\x00"); strings.HasSuffix(line, " "+mainBranch) {
			hash, _, _ := strings.Cut(line, " ")
			return hash[len(hash)-40:], nil
		}
	}
	return "", errors.Join(errors.New("there is no main"), lines.Err())
}

// readSlowly asks for all of main, and reads a few bytes a second of it.
func (a *attacker) readSlowly(ctx context.Context) string {
	head, err := a.head(ctx)
	if err != nil {
		return err.Error()
	}
	want := "want " + head + "\n"
	body := strings.NewReader(fmt.Sprintf("%04x%s00000009done\n", len(want)+4, want))
	patient := &http.Client{Transport: a.client.Transport}
	req, err := a.request(ctx, http.MethodPost, a.URL+"/git-upload-pack", "application/x-git-upload-pack-request", body, a.Password)
	if err != nil {
		return err.Error()
	}
	res, err := patient.Do(req)
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "refused: " + res.Status
	}
	for few := make([]byte, 8); ctx.Err() == nil; sleep(ctx, time.Second) {
		if _, err := res.Body.Read(few); err != nil {
			return "ended"
		}
	}
	return "went on until the end"
}

// guess tries a credential that looks like one.
func (a *attacker) guess(ctx context.Context) string {
	res, err := a.do(ctx, http.MethodGet, a.URL+"/info/refs?service=git-upload-pack", "", nil, "gbk_"+strings.ToLower(rand.Text()))
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer res.Body.Close()
	return "refused: " + res.Status
}

func (a *attacker) request(ctx context.Context, method, url, contentType string, body io.Reader, password string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(a.User, password)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return req, nil
}

func (a *attacker) do(ctx context.Context, method, url, contentType string, body io.Reader, password string) (*http.Response, error) {
	req, err := a.request(ctx, method, url, contentType, body, password)
	if err != nil {
		return nil, err
	}
	return a.client.Do(req)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
