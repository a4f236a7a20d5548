package gitstore

import (
	"bufio"
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

const sshCloseTimeout = time.Second

// sshTransport makes of each request of Git's smart HTTP a command over SSH: so what is true
// for HTTP, of deadlines, sizes, back-off and the Guard, is true for SSH. The protocol is the
// same, version 0, but that a command says what the repository has before it is asked.
type sshTransport struct {
	user, address, path string
	// limit is how many bytes a command may say before it is asked.
	limit int64
	// closeTimeout is how long the remote may take to end a command that nobody waits for any
	// more. Then its connection takes no more commands.
	closeTimeout time.Duration
	credential   func(context.Context) (privateKey, knownHosts []byte, err error)

	mu sync.Mutex
	// kept is the connection for the next command; nil for none.
	kept *sshConn
}

func newSSHTransport(u *url.URL, o Options) *sshTransport {
	t := &sshTransport{
		user: cmp.Or(u.User.Username(), "git"), address: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "22")), path: u.Path,
		limit: o.MaxPack, closeTimeout: sshCloseTimeout, credential: o.SSH,
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
		c := newSSHCommand(ctx, t, service, conn)
		select {
		case err = <-c.started:
		case <-ctx.Done():
		}
		if err = cmp.Or(ctx.Err(), err); err == nil {
			return c, nil
		}
		c.broken = ctx.Err() == nil
		_ = c.Close()
		if fresh || !c.broken {
			return nil, withCause(ctx, fmt.Errorf("run %s on %s: %w", service, t.address, err))
		}
	}
}

// sshCommand is a command that runs on the remote, and what it answers.
type sshCommand struct {
	*sshTransport
	service string
	conn    *sshConn
	in      io.WriteCloser
	out     *bufio.Reader
	// said is what it says to people; it is whole when the command has ended.
	said firstBytes
	// ctx ends when nobody waits for it any more.
	ctx    context.Context
	cancel context.CancelFunc
	// started is given once whether it runs, and ended is closed when the remote has ended it.
	started chan error
	ended   chan struct{}
	// broken says that the connection is not to be used again, by who asked; lost says so
	// when the command has ended.
	broken, lost bool
}

func newSSHCommand(ctx context.Context, t *sshTransport, service string, conn *sshConn) *sshCommand {
	out, answer := io.Pipe()
	c := &sshCommand{sshTransport: t, service: service, conn: conn, out: bufio.NewReaderSize(out, 64<<10), started: make(chan error, 1), ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(ctx)
	// Who waits for an answer is not kept by a remote that does not end.
	context.AfterFunc(c.ctx, func() { _ = answer.CloseWithError(context.Cause(c.ctx)) })
	go c.run(answer)
	return c
}

// run runs it until the remote has ended it, which it is told to do with ctx.
func (c *sshCommand) run(answer *io.PipeWriter) {
	defer close(c.ended)
	session, err := c.conn.client.NewSession()
	if err != nil {
		c.started <- err
		return
	}
	stop := context.AfterFunc(c.ctx, func() { _ = session.Close() })
	defer stop()
	session.Stdout, session.Stderr = answer, &c.said
	if c.in, err = session.StdinPipe(); err == nil {
		err = session.Start(c.service + " '" + strings.ReplaceAll(c.path, "'", `'\''`) + "'")
	}
	c.started <- err
	if err != nil {
		_ = session.Close()
		return
	}
	end, missing := io.EOF, (*ssh.ExitMissingError)(nil)
	if errors.As(session.Wait(), &missing) && c.ctx.Err() == nil {
		// Not all say how a command ended. Whether they are still there does.
		if _, _, err := c.conn.client.SendRequest("keepalive@openssh.com", true, nil); err != nil {
			end, c.lost = io.ErrUnexpectedEOF, true
		}
	}
	_ = answer.CloseWithError(end)
}

// begin waits until the command answers, and with skip, passes over what it says before it
// is asked.
func (c *sshCommand) begin(skip bool) error {
	if _, err := c.out.Peek(4); err != nil {
		return c.notBegun(err)
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
func (c *sshCommand) notBegun(err error) error {
	if c.ctx.Err() != nil {
		return err
	}
	<-c.ended
	return c.refusal(string(c.said), fmt.Errorf("%s on %s ended without an answer: %w %s", c.service, c.address, io.ErrUnexpectedEOF, oneLine(string(c.said))))
}

// refusal is what a command means that does not begin, as hosts say in words alone why not;
// otherwise err.
func (c *sshCommand) refusal(words string, err error) error {
	if kind := kindOfWords(words); kind != nil {
		// The next command is to be run with the key that there is then.
		c.broken = true
		return &store.SSHError{Kind: kind, Reason: fmt.Sprintf("%s of %s on %s ends with: %s", c.service, c.path, c.address, oneLine(words))}
	}
	return err
}

// Read gives the answer. A connection that ended is not its end.
func (c *sshCommand) Read(p []byte) (int, error) { return c.out.Read(p) }

// Close ends the command, if it has not ended. A connection whose remote does not do that in
// time takes no more commands, as what this one goes on saying would be kept with it. Those
// that it has go on, and it ends with the last of them.
func (c *sshCommand) Close() error {
	c.cancel()
	select {
	case <-c.ended:
		c.conn.release(c.broken || c.lost)
		return nil
	default:
	}
	if c.broken {
		c.conn.release(true)
		return nil
	}
	go func() {
		broken := false
		select {
		case <-c.ended:
		case <-time.After(c.closeTimeout):
			broken = true
		}
		c.conn.release(broken)
	}()
	return nil
}

// firstBytes keeps the beginning of what is written.
type firstBytes []byte

func (b *firstBytes) Write(p []byte) (int, error) {
	const enough = 1000
	*b = append(*b, p[:min(len(p), enough-len(*b))]...)
	return len(p), nil
}
