package gitstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"gitbind.dev/gitbridge/store"
)

const (
	// sshConnectTimeout is how long a connection over SSH may take to be made, until the
	// key was taken.
	sshConnectTimeout = 30 * time.Second
	// sshIdleTimeout is how long one is kept that nobody uses.
	sshIdleTimeout = 90 * time.Second
	// sshMaxAge is how long one is kept that somebody uses: then the credential is read again,
	// and both sides show their keys.
	sshMaxAge = 15 * time.Minute
	// sshCloseTimeout is how long the remote may take to end a command that it was told
	// to end. Then the connection ends.
	sshCloseTimeout = time.Second
	// sshRefusedPause is how long a credential is not tried again that was refused, or had
	// no key of the host. Servers lock out the address of those who try often, and all
	// repositories of a bridge have one.
	sshRefusedPause = time.Minute
)

// sshTransport makes of each request of Git's smart HTTP a command over SSH: so what is true
// for HTTP, of deadlines, sizes, back-off and the Guard, is true for SSH. The protocol is the
// same, version 0, but that a command says what the repository has before it is asked.
type sshTransport struct {
	user, address, path string
	// limit is how many bytes a command may say before it is asked.
	limit      int64
	credential func(context.Context) (privateKey, knownHosts []byte, err error)

	mu sync.Mutex
	// kept is the connection for the next command; nil for none.
	kept *sshConn
	// refused is the last attempt that ended with an SSHError.
	refused struct {
		privateKey, knownHosts []byte
		until                  time.Time
		err                    error
	}
}

type sshConn struct {
	client *ssh.Client
	made   time.Time
	// uses is how many commands it has.
	uses int
	// idle ends it.
	idle *time.Timer
}

func newSSHTransport(u *url.URL, o Options) *sshTransport {
	t := &sshTransport{
		user: cmp.Or(u.User.Username(), "git"), address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "22")), path: u.Path,
		limit: o.MaxPack, credential: o.SSH,
	}
	if strings.HasPrefix(t.path, "/~") {
		t.path = t.path[1:]
	}
	return t
}

// RoundTrip runs the command for a request.
func (t *sshTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	service, body, kind := req.URL.Query().Get("service"), io.Reader(strings.NewReader("0000")), "advertisement"
	if req.Method == http.MethodPost {
		service, body, kind = path.Base(req.URL.Path), req.Body, "result"
	}
	c, err := t.start(req.Context(), service)
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(c.in, body)
		if service == receivePack {
			// Some take the end of the input for the end of a fetch.
			_ = c.in.Close()
		}
	}()
	if err := c.begin(kind == "result"); err != nil {
		_ = c.Close()
		return nil, withCause(req.Context(), err)
	}
	header := http.Header{"Content-Type": {"application/x-" + service + "-" + kind}}
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: header, Body: c, ContentLength: -1, Request: req}, nil
}

// start starts a command. A connection that was kept may have ended since, or takes no more
// commands: then it is tried on a new one.
func (t *sshTransport) start(ctx context.Context, service string) (*sshCommand, error) {
	for {
		conn, fresh, err := t.connection(ctx)
		if err != nil {
			return nil, err
		}
		c := &sshCommand{sshTransport: t, service: service, conn: conn, ctx: ctx, started: make(chan struct{}), done: make(chan struct{})}
		c.stop = context.AfterFunc(ctx, c.abort)
		if err = cmp.Or(c.start(), ctx.Err()); err == nil {
			return c, nil
		}
		c.broken = ctx.Err() == nil
		_ = c.Close()
		if fresh || !c.broken {
			return nil, withCause(ctx, fmt.Errorf("run %s on %s: %w", service, t.address, err))
		}
	}
}

func (t *sshTransport) connection(ctx context.Context) (_ *sshConn, fresh bool, err error) {
	t.mu.Lock()
	if c := t.kept; c != nil && time.Since(c.made) > sshMaxAge {
		t.kept = nil
		if c.uses == 0 {
			c.idle.Stop()
			_ = c.client.Close()
		}
	}
	if c := t.kept; c != nil {
		defer t.mu.Unlock()
		c.uses++
		c.idle.Stop()
		return c, false, nil
	}
	t.mu.Unlock()
	client, err := t.dial(ctx)
	if err != nil {
		return nil, false, err
	}
	c := &sshConn{client: client, made: time.Now(), uses: 1}
	c.idle = time.AfterFunc(sshIdleTimeout, func() { t.closeIdle(c) })
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.kept; old != nil && old.uses == 0 {
		_ = old.client.Close()
	}
	t.kept = c
	return c, true, nil
}

// release gives a connection back. One that is not to be used again ends with its last
// command.
func (t *sshTransport) release(c *sshConn, broken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.uses--
	if broken && t.kept == c {
		t.kept = nil
	}
	c.idle.Reset(sshIdleTimeout)
	if c.uses == 0 && t.kept != c {
		c.idle.Stop()
		_ = c.client.Close()
	}
}

func (t *sshTransport) closeIdle(c *sshConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.uses > 0 {
		return
	}
	if t.kept == c {
		t.kept = nil
	}
	_ = c.client.Close()
}

func (t *sshTransport) dial(ctx context.Context) (*ssh.Client, error) {
	privateKey, knownHosts, err := t.credential(ctx)
	if err != nil {
		return nil, fmt.Errorf("get credential for the repository: %w", err)
	}
	t.mu.Lock()
	last := t.refused
	t.mu.Unlock()
	if time.Now().Before(last.until) && bytes.Equal(last.privateKey, privateKey) && bytes.Equal(last.knownHosts, knownHosts) {
		return nil, last.err
	}
	client, err := t.connect(ctx, privateKey, knownHosts)
	var refused *store.SSHError
	if errors.As(err, &refused) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.refused.privateKey, t.refused.knownHosts, t.refused.until, t.refused.err = privateKey, knownHosts, time.Now().Add(sshRefusedPause), err
	}
	return client, err
}

func (t *sshTransport) connect(ctx context.Context, privateKey, knownHosts []byte) (*ssh.Client, error) {
	key, err := parseSSHKey(privateKey)
	if err != nil {
		return nil, err
	}
	host := hostKeysOf(t.address, knownHosts)
	ctx, cancel := context.WithTimeoutCause(ctx, sshConnectTimeout, fmt.Errorf("%w to the SSH handshake within %s", errSilent, sshConnectTimeout))
	defer cancel()
	conn, err := newDialer().DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, t.address, &ssh.ClientConfig{
		User: t.user, ClientVersion: "SSH-2.0-gitbind", HostKeyAlgorithms: host.algorithms(), HostKeyCallback: host.check,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
	})
	switch stopped := stop(); {
	case err != nil && keyRefused(err):
		err = &store.SSHError{Kind: store.ErrUnauthorized, Reason: fmt.Sprintf(
			"%s lets in nobody as %s with the key %s: add its public half there, or put another private key into the Secret", host.name, t.user, ssh.FingerprintSHA256(key.PublicKey()))}
	case !stopped || err != nil:
		err = withCause(ctx, cmp.Or(err, ctx.Err()))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

func parseSSHKey(data []byte) (ssh.Signer, error) {
	key, err := ssh.ParsePrivateKey(data)
	var passphrase *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &passphrase):
		return nil, &store.SSHError{Kind: store.ErrUnauthorized, Reason: "the private key has a passphrase, and nobody is there to type it: make one without (ssh-keygen -N '')"}
	case err != nil:
		return nil, &store.SSHError{Kind: store.ErrUnauthorized, Reason: "what is in the place of the private key is none in PEM, as ssh-keygen makes it"}
	}
	return key, nil
}

// sshCommand is a command that runs on the remote, and what it answers.
type sshCommand struct {
	*sshTransport
	service string
	conn    *sshConn
	session *ssh.Session
	in      io.WriteCloser
	out     *bufio.Reader
	// said is what it says to people.
	said firstBytes
	ctx  context.Context
	stop func() bool
	// started is closed when it runs, and done when nobody reads it any more.
	started, done chan struct{}
	// broken says that the connection is not to be used again, and waited that it is known
	// how the command ended.
	broken, waited bool
	// ended is what Read gives after the end; nil before.
	ended error
}

func (c *sshCommand) start() (err error) {
	if c.session, err = c.conn.client.NewSession(); err != nil {
		return err
	}
	close(c.started)
	c.session.Stderr = &c.said
	in, errIn := c.session.StdinPipe()
	out, errOut := c.session.StdoutPipe()
	c.in, c.out = in, bufio.NewReaderSize(out, 64<<10)
	return cmp.Or(errIn, errOut, c.session.Start(c.service+" '"+strings.ReplaceAll(c.path, "'", `'\''`)+"'"))
}

// begin waits until the command answers, and with skip, passes over what it says before it
// is asked.
func (c *sshCommand) begin(skip bool) error {
	if _, err := c.out.Peek(4); err != nil {
		return c.notBegun()
	}
	for left := c.limit; ; {
		head, err := c.out.Peek(4)
		if err != nil {
			return fmt.Errorf("read refs: %w", err)
		}
		size, err := strconv.ParseUint(string(head), 16, 16)
		switch left -= int64(size); {
		case err != nil || 0 < size && size < 4:
			return fmt.Errorf("%s does not answer as Git does", c.address)
		case left < 0:
			return errTooMuch
		}
		if start, _ := c.out.Peek(int(min(size, 8))); strings.HasSuffix(string(start), "ERR ") {
			line := make([]byte, size)
			_, _ = io.ReadFull(c, line)
			words := oneLine(string(line[8:]))
			return c.refusal(words, fmt.Errorf("%s on %s answers: %s", c.service, c.address, words))
		}
		if !skip {
			return nil
		}
		if _, err := c.out.Discard(int(max(size, 4))); err != nil {
			return fmt.Errorf("read refs: %w", err)
		}
		if size == 0 {
			return nil
		}
	}
}

// notBegun is the error for a command that ended before it answered.
func (c *sshCommand) notBegun() error {
	_ = c.wait()
	return c.refusal(string(c.said), fmt.Errorf("%s on %s ended without an answer: %w %s", c.service, c.address, io.ErrUnexpectedEOF, oneLine(string(c.said))))
}

// refusal is what a command means that does not begin, as hosts say in words alone why not;
// otherwise err.
func (c *sshCommand) refusal(words string, err error) error {
	if kind := kindOfWords(words); kind != nil {
		return &store.SSHError{Kind: kind, Reason: fmt.Sprintf("%s of %s on %s ends with: %s", c.service, c.path, c.address, oneLine(words))}
	}
	return err
}

// Read gives the answer. A connection that ended is not its end.
func (c *sshCommand) Read(p []byte) (int, error) {
	if c.ended != nil {
		return 0, c.ended
	}
	n, err := c.out.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	c.ended = io.EOF
	var missing *ssh.ExitMissingError
	if errors.As(c.wait(), &missing) {
		// Not all say how a command ended. Whether they are still there does.
		if _, _, err := c.conn.client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			c.ended, c.broken = io.ErrUnexpectedEOF, true
		}
	}
	if c.ctx.Err() != nil {
		c.ended = context.Cause(c.ctx)
	}
	return n, c.ended
}

// Close ends the command, if it has not ended. A connection whose remote does not do that in
// time is not used again: what the command goes on saying would be kept with it.
func (c *sshCommand) Close() error {
	c.stop()
	close(c.done)
	if c.session != nil {
		kill := time.AfterFunc(sshCloseTimeout, func() { _ = c.conn.client.Close() })
		_ = c.session.Close()
		kill.Stop()
	}
	if c.session == nil || c.waited {
		c.release(c.conn, c.broken)
		return nil
	}
	ended := make(chan struct{})
	go func() {
		_ = c.wait()
		close(ended)
	}()
	go func() {
		broken := c.broken
		select {
		case <-ended:
		case <-time.After(sshCloseTimeout):
			broken = true
		}
		c.release(c.conn, broken)
	}()
	return nil
}

// wait gives how the command ended. It is for one caller.
func (c *sshCommand) wait() error {
	c.waited = true
	return c.session.Wait()
}

// abort ends what nobody waits for any more: the command, or if the remote does not do that,
// the connection.
func (c *sshCommand) abort() {
	kill := time.AfterFunc(sshCloseTimeout, func() { _ = c.conn.client.Close() })
	defer kill.Stop()
	select {
	case <-c.started:
		_ = c.session.Close()
		<-c.done
	case <-c.done:
	}
}

// firstBytes keeps the beginning of what is written.
type firstBytes []byte

func (b *firstBytes) Write(p []byte) (int, error) {
	const enough = 1000
	*b = append(*b, p[:min(len(p), enough-len(*b))]...)
	return len(p), nil
}
