// Package proxy stands between a client and a server of a test, and makes the
// network between them bad: cut, silent or slow. It looks at no more than the
// head of the first request, to tell clients of one server apart, and changes
// nothing that passes.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Mode is what is wrong with the network.
type Mode string

// The modes.
const (
	// Open lets everything pass.
	Open Mode = "open"
	// Cut resets the connections that there are, and refuses new ones.
	Cut Mode = "cut"
	// Silent lets nothing pass, and says so to nobody: connections stay, new
	// ones are accepted, and no byte comes through.
	Silent Mode = "silent"
	// Slow lets everything pass, each piece a while later.
	Slow Mode = "slow"
)

// Delay is how long Slow keeps each piece of up to 16 KiB.
const Delay = 150 * time.Millisecond

// Proxy listens on a port of loopback and passes connections on. Its clients
// are told apart by name, if Classify is set.
type Proxy struct {
	listener net.Listener
	classify func(net.Conn) (client string, head []byte)

	mu     sync.Mutex
	target string
	modes  map[string]Mode // "" is for the clients that have none of their own
	links  map[*link]struct{}
	moved  chan struct{} // closed and replaced when a mode changes
	closed bool
	wait   sync.WaitGroup
}

// link is a connection through the proxy.
type link struct {
	client string
	ends   [2]net.Conn
	once   sync.Once
}

func (l *link) close() {
	l.once.Do(func() {
		for _, c := range l.ends {
			if t, ok := c.(*net.TCPConn); ok {
				// The other side sees a reset, as from a host that is gone.
				_ = t.SetLinger(0)
			}
			if c != nil {
				_ = c.Close()
			}
		}
	})
}

// Start listens on a free port. Target is where connections go, "host:port"; it
// may be set later.
func Start(target string) (*Proxy, error) { return start(target, nil) }

// StartHTTP is Start for a server that speaks plain HTTP: its clients are named
// by the user of basic authentication in the first request of a connection.
func StartHTTP(target string) (*Proxy, error) { return start(target, basicUser) }

func start(target string, classify func(net.Conn) (string, []byte)) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{
		listener: listener, classify: classify, target: target,
		modes: map[string]Mode{}, links: map[*link]struct{}{}, moved: make(chan struct{}),
	}
	p.wait.Add(1)
	go p.accept()
	return p, nil
}

// Addr is where clients connect to, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// SetTarget says where new connections go.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Set changes the network of one client, "" for all that have no mode of their
// own.
func (p *Proxy) Set(client string, mode Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modes[client] = mode
	close(p.moved)
	p.moved = make(chan struct{})
	if mode != Cut {
		return
	}
	for l := range p.links {
		if p.modeOf(l.client) == Cut {
			l.close()
		}
	}
}

// modeOf is called with the lock.
func (p *Proxy) modeOf(client string) Mode {
	if m, ok := p.modes[client]; ok {
		return m
	}
	if m, ok := p.modes[""]; ok {
		return m
	}
	return Open
}

func (p *Proxy) state(client string) (Mode, <-chan struct{}, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modeOf(client), p.moved, p.target
}

// Close ends all connections and stops listening.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	err := p.listener.Close()
	for l := range p.links {
		l.close()
	}
	close(p.moved)
	p.moved = make(chan struct{})
	p.mu.Unlock()
	p.wait.Wait()
	return err
}

func (p *Proxy) accept() {
	defer p.wait.Done()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		l := &link{ends: [2]net.Conn{conn, nil}}
		if !p.add(l) {
			l.close()
			return
		}
		go func() {
			defer p.wait.Done()
			defer p.remove(l)
			p.serve(l)
		}()
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.links[l] = struct{}{}
	p.wait.Add(1)
	return true
}

func (p *Proxy) remove(l *link) {
	l.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) serve(l *link) {
	var head []byte
	if p.classify != nil {
		client, read := p.classify(l.ends[0])
		head = read
		p.mu.Lock()
		l.client = client
		p.mu.Unlock()
	}
	if !p.pass(l) {
		return
	}
	_, _, target := p.state(l.client)
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", target)
	if err != nil {
		return
	}
	p.mu.Lock()
	closed := p.closed || p.modeOf(l.client) == Cut
	l.ends[1] = server
	p.mu.Unlock()
	if closed {
		return
	}
	if _, err := server.Write(head); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(l, server, l.ends[0]) })
	wg.Go(func() { p.copy(l, l.ends[0], server) })
	wg.Wait()
}

// pass waits until something may pass; it is false when the connection is to
// end.
func (p *Proxy) pass(l *link) bool {
	for {
		mode, moved, _ := p.state(l.client)
		switch mode {
		case Cut:
			return false
		case Slow:
			time.Sleep(Delay)
			return true
		case Silent:
			<-moved
			p.mu.Lock()
			closed := p.closed
			p.mu.Unlock()
			if closed {
				return false
			}
		default:
			return true
		}
	}
}

func (p *Proxy) copy(l *link, to, from net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.pass(l) {
				l.close()
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				l.close()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if t, ok := to.(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
			return
		case err != nil:
			l.close()
			return
		}
	}
}

// basicUser reads the head of the first request and gives it back.
func basicUser(conn net.Conn) (string, []byte) {
	var head []byte
	buffer := make([]byte, 4<<10)
	for len(head) < 64<<10 && !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(buffer)
		head = append(head, buffer[:n]...)
		if err != nil {
			break
		}
	}
	for line := range strings.Lines(string(head)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !strings.EqualFold(name, "Authorization") {
			continue
		}
		r := http.Request{Header: http.Header{"Authorization": {strings.TrimSpace(value)}}}
		if user, _, ok := r.BasicAuth(); ok {
			return user, head
		}
	}
	return "", head
}
