package githost

import (
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSH is a Git host over SSH: git's own programs over the bare repositories below a folder.
type SSH struct {
	// Address is host:port.
	Address string
	// Connections are those that were made, with a key that is let in.
	Connections atomic.Int64

	t    testing.TB
	root string
	ssh.Signer

	mu       sync.Mutex
	key      ssh.PublicKey
	open     map[net.Conn]bool
	instead  func(*SSHCommand) bool
	accepted func(net.Conn) bool
}

// SSHCommand is one that a client runs on the host.
type SSHCommand struct {
	ssh.Channel
	// Service is git-upload-pack or git-receive-pack, and Dir the repository.
	Service, Path string
	// Hangup ends the connection.
	Hangup func()
	host   *SSH
}

// NewSSH serves until the test ends, and gives the private key that opens it.
func NewSSH(t testing.TB, root string) (host *SSH, privateKey []byte) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &SSH{t: t, root: root, Address: listener.Addr().String(), open: map[net.Conn]bool{}}
	h.SetHostKey()
	privateKey = h.NewKey()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		h.Hangup()
		all.Wait()
	})
	return h, privateKey
}

// NewSSHKey is a private key as ssh-keygen makes it.
func NewSSHKey(t testing.TB) (privateKey []byte, signer ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

// NewKey is the private key that opens the host from now on, and no other.
func (h *SSH) NewKey() (privateKey []byte) {
	privateKey, signer := NewSSHKey(h.t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.key = signer.PublicKey()
	return privateKey
}

// SetHostKey has the host show a new key to those who connect.
func (h *SSH) SetHostKey() {
	_, signer := NewSSHKey(h.t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Signer = signer
}

// KnownHosts is the host's line in that file.
func (h *SSH) KnownHosts() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []byte(knownhosts.Line([]string{h.Address}, h.PublicKey()) + "\n")
}

// SetAccepted has something happen to each connection; it is not served after true.
func (h *SSH) SetAccepted(accepted func(net.Conn) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepted = accepted
}

// SetInstead has something happen for each command; it is not run after true.
func (h *SSH) SetInstead(instead func(*SSHCommand) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.instead = instead
}

// Hangup ends all connections.
func (h *SSH) Hangup() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn := range h.open {
		_ = conn.Close()
	}
}

func (h *SSH) serve(conn net.Conn) {
	defer conn.Close()
	h.mu.Lock()
	key, signer, accepted := h.key, h.Signer, h.accepted
	h.open[conn] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.open, conn)
	}()
	if accepted != nil && accepted(conn) {
		return
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "git" || string(k.Marshal()) != string(key.Marshal()) {
			return nil, ssh.ErrNoAuth
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	h.Connections.Add(1)
	go ssh.DiscardRequests(requests)
	var all sync.WaitGroup
	defer all.Wait()
	for c := range channels {
		if channel, requests, err := c.Accept(); err == nil {
			all.Go(func() {
				h.session(&SSHCommand{Channel: channel, Hangup: func() { _ = conn.Close() }, host: h}, requests)
			})
		}
	}
}

var command = regexp.MustCompile(`^(git-(?:upload|receive)-pack) '([^']*)'$`)

func (h *SSH) session(c *SSHCommand, requests <-chan *ssh.Request) {
	defer c.Close()
	for r := range requests {
		var exec struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &exec)
		m := command.FindStringSubmatch(exec.Command)
		ok := r.Type == "exec" && m != nil
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if !ok {
			continue
		}
		c.Service, c.Path = m[1], m[2]
		h.mu.Lock()
		instead := h.instead
		h.mu.Unlock()
		if instead == nil || !instead(c) {
			c.Run(c)
		}
		return
	}
}

// Run runs the command, and tells how it ended. What it says goes to out.
func (c *SSHCommand) Run(out io.Writer) {
	cmd := exec.Command(c.Service, filepath.Join(c.host.root, filepath.Base(c.Path)))
	in, err := cmd.StdinPipe()
	if err != nil {
		c.host.t.Error(err)
		return
	}
	cmd.Stdout, cmd.Stderr = out, c.Stderr()
	if err := cmd.Start(); err != nil {
		c.host.t.Error(err)
		return
	}
	go func() {
		_, _ = io.Copy(in, c)
		_ = in.Close()
	}()
	_ = cmd.Wait()
	_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(cmd.ProcessState.ExitCode())}))
}
