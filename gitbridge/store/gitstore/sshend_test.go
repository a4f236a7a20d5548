package gitstore

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// deafConn is a connection to a host that ends no command, whatever it is told.
type deafConn struct {
	ssh.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *deafConn) Close() error { c.once.Do(func() { close(c.ended) }); return nil }

func (c *deafConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	requests := make(chan *ssh.Request)
	go func() { <-c.ended; close(requests) }()
	return &deafChannel{c, strings.NewReader("no Git")}, requests, nil
}

type deafChannel struct {
	conn *deafConn
	said *strings.Reader
}

func (c *deafChannel) Read(p []byte) (int, error) {
	if n, err := c.said.Read(p); err == nil {
		return n, nil
	}
	<-c.conn.ended
	return 0, io.EOF
}
func (c *deafChannel) Write(p []byte) (int, error)                    { return len(p), nil }
func (c *deafChannel) Close() error                                   { return nil }
func (c *deafChannel) CloseWrite() error                              { return nil }
func (c *deafChannel) SendRequest(string, bool, []byte) (bool, error) { return true, nil }
func (c *deafChannel) Stderr() io.ReadWriter                          { return &deafChannel{c.conn, strings.NewReader("")} }

// What such a host goes on sending would be kept as long as its connection is used.
func TestAConnectionEndsWhoseHostDoesNotEndACommand(t *testing.T) {
	t.Parallel()
	errNoMore := errors.New("no second connection")
	conn := &deafConn{ended: make(chan struct{})}
	s := &sshTransport{path: "/x.git", limit: 1 << 20, closeTimeout: 100 * time.Millisecond, credential: func(context.Context) ([]byte, []byte, error) { return nil, nil, errNoMore }}
	s.kept = &sshConn{client: &ssh.Client{Conn: conn}, made: time.Now()}
	s.kept.idle = time.AfterFunc(time.Hour, func() {})
	defer s.kept.idle.Stop()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "ssh://h/x.git/info/refs?service=git-upload-pack", nil)
	if res, err := s.RoundTrip(req); err == nil {
		_ = res.Body.Close()
		t.Fatal("it answers as Git does")
	}
	select {
	case <-conn.ended:
	case <-time.After(5 * sshCloseTimeout):
		_ = conn.Close()
		t.Error("it is kept, with what it sends")
	}
}

// What others do over it is not to fail, and is bounded by itself.
func TestAConnectionWhoseHostDoesNotEndACommandEndsWithThoseOfOthers(t *testing.T) {
	t.Parallel()
	conn := &deafConn{ended: make(chan struct{})}
	s := &sshTransport{path: "/x.git", limit: 1 << 20, closeTimeout: 100 * time.Millisecond}
	kept := newSSHConn(&ssh.Client{Conn: conn})
	s.keep(kept)
	if _, ok := kept.take(); !ok {
		t.Fatal("it takes no command")
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "ssh://h/x.git/info/refs?service=git-upload-pack", nil)
	if res, err := s.RoundTrip(req); err == nil {
		_ = res.Body.Close()
		t.Fatal("it answers as Git does")
	}
	for deadline := time.Now().Add(5 * sshCloseTimeout); s.current() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is kept, with what it sends")
		}
	}
	select {
	case <-conn.ended:
		t.Fatal("it ended under another command")
	default:
	}
	kept.release(false)
	<-conn.ended
}

// Who asks each minute would otherwise go on for weeks with a key that was replaced, and a
// host's key that was revoked.
func TestAConnectionThatIsOldIsUsedNoMore(t *testing.T) {
	t.Parallel()
	errDialled := errors.New("the credential was read")
	for age, want := range map[time.Duration]bool{sshMaxAge - time.Minute: false, sshMaxAge + time.Minute: true} {
		conn := &deafConn{ended: make(chan struct{})}
		s := &sshTransport{path: "/x.git", limit: 1 << 20, credential: func(context.Context) ([]byte, []byte, error) { return nil, nil, errDialled }}
		s.kept = &sshConn{client: &ssh.Client{Conn: conn}, made: time.Now().Add(-age), idle: time.AfterFunc(time.Hour, func() {})}
		if _, _, err := s.connection(t.Context()); errors.Is(err, errDialled) != want {
			t.Errorf("after %s: %v", age, err)
		}
		select {
		case <-conn.ended:
			if !want {
				t.Errorf("after %s it is ended", age)
			}
		default:
			if want {
				t.Errorf("after %s it is kept", age)
			}
		}
		_ = conn.Close()
	}
}
