package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"gitbind.dev/gitbridge/api/restapi"
	"gitbind.dev/gitbridge/contract"
)

// attacker has a repository of its own, and a credential for it.
type attacker struct {
	url, email     string
	user, password string
	client         *http.Client
	log            *log
}

func newAttacker(c *restapi.Cluster, l *log) *attacker {
	_, email := contract.ComponentIdentity(contract.Konnector, c.ID)
	return &attacker{
		url: c.RepositoryURL, email: email, user: c.Credential.Username, password: c.Credential.Password, log: l,
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{}},
	}
}

// work attacks until ctx ends, in an order that the generator says. It leaves the
// processors to those whom it attacks, who otherwise have other machines.
func (a *attacker) work(ctx context.Context, rng *mathrand.Rand) {
	// The thread ends with the goroutine.
	runtime.LockOSThread()
	const last = 19
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), last)
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
	p := one.make(head, a.email)
	var body bytes.Buffer
	for i, u := range p.updates {
		old := strings.Repeat("0", 40)
		if u.ref == mainBranch && head != "" {
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
	res, err := a.do(ctx, http.MethodPost, a.url+"/git-receive-pack", "application/x-git-receive-pack-request", &body, a.password)
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

// head is main's, "" for none.
func (a *attacker) head(ctx context.Context) (string, error) {
	res, err := a.do(ctx, http.MethodGet, a.url+"/info/refs?service=git-upload-pack", "", nil, a.password)
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
	return "", lines.Err()
}

// readSlowly asks for all of main, and reads a few bytes a second of it.
func (a *attacker) readSlowly(ctx context.Context) string {
	head, err := a.head(ctx)
	if err != nil || head == "" {
		return "nothing to read"
	}
	want := "want " + head + "\n"
	body := strings.NewReader(fmt.Sprintf("%04x%s00000009done\n", len(want)+4, want))
	patient := &http.Client{Transport: a.client.Transport}
	req, err := a.request(ctx, http.MethodPost, a.url+"/git-upload-pack", "application/x-git-upload-pack-request", body, a.password)
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
	res, err := a.do(ctx, http.MethodGet, a.url+"/info/refs?service=git-upload-pack", "", nil, "gbk_"+strings.ToLower(rand.Text()))
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
	req.SetBasicAuth(a.user, password)
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
