package gitstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/singleflight"

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
	// sshRefusedPause is how long a credential is not tried again that was refused, or had
	// no key of the host.
	sshRefusedPause = time.Minute
)

// sshLogins are those of this process, by host and credential: one at a time, and none soon
// after one that was refused. Servers lock out the address of those who try often, and all
// repositories of a bridge have one.
var sshLogins = struct {
	singleflight.Group
	mu      sync.Mutex
	refused map[string]sshRefusal
}{refused: map[string]sshRefusal{}}

type sshRefusal struct {
	until time.Time
	err   error
}

// sshConn is a connection for many commands. Repositories share it that were opened at once
// with the same credential.
type sshConn struct {
	client *ssh.Client
	made   time.Time

	mu sync.Mutex
	// uses is how many commands it has, and used that it had one.
	uses int
	used bool
	// retired says that it takes no more of them, and ends with the last.
	retired bool
	// idle ends it.
	idle *time.Timer
}

func newSSHConn(client *ssh.Client) *sshConn {
	c := &sshConn{client: client, made: time.Now()}
	c.idle = time.AfterFunc(sshIdleTimeout, c.unused)
	return c
}

// usable says whether it takes more commands.
func (c *sshConn) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.retired && time.Since(c.made) > sshMaxAge {
		c.retire()
	}
	return !c.retired
}

// take takes it for one more command. Fresh says that it is the first.
func (c *sshConn) take() (fresh, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return false, false
	}
	c.idle.Stop()
	c.uses++
	fresh, c.used = !c.used, true
	return fresh, true
}

// release gives it back.
func (c *sshConn) release(broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses--
	switch {
	case broken || c.retired:
		c.retire()
	case c.uses == 0:
		c.idle.Reset(sshIdleTimeout)
	}
}

// unused ends it if it is still so.
func (c *sshConn) unused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == 0 {
		c.retire()
	}
}

// retire has it end with the last command.
func (c *sshConn) retire() {
	c.retired = true
	c.idle.Stop()
	if c.uses == 0 {
		_ = c.client.Close()
	}
}

// connection is the one that is kept, or a new one. It is made for all who wait for it, and
// goes on when one of them does not any more.
func (t *sshTransport) connection(ctx context.Context) (_ *sshConn, fresh bool, err error) {
	for {
		if c := t.current(); c != nil {
			if fresh, ok := c.take(); ok {
				return c, fresh, nil
			}
		}
		privateKey, knownHosts, err := t.credential(ctx)
		if err != nil {
			return nil, false, fmt.Errorf("get credential for the repository: %w", err)
		}
		name := fmt.Sprintf("%s@%s %x %x", t.user, t.address, sha256.Sum256(privateKey), sha256.Sum256(knownHosts))
		login := sshLogins.DoChan(name, func() (any, error) {
			if c := t.current(); c != nil {
				return c, nil // made since
			}
			c, err := t.login(context.WithoutCancel(ctx), name, privateKey, knownHosts)
			if err == nil {
				t.keep(c)
			}
			return c, err
		})
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case r := <-login:
			if r.Err != nil {
				return nil, false, r.Err
			}
			t.keep(r.Val.(*sshConn))
		}
	}
}

// current is the connection that is kept; nil if it takes no more commands.
func (t *sshTransport) current() *sshConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept != nil && !t.kept.usable() {
		t.kept = nil
	}
	return t.kept
}

func (t *sshTransport) keep(c *sshConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = c
}

// login makes a connection, if the credential was not refused just before.
func (t *sshTransport) login(ctx context.Context, name string, privateKey, knownHosts []byte) (*sshConn, error) {
	sshLogins.mu.Lock()
	last := sshLogins.refused[name]
	sshLogins.mu.Unlock()
	if time.Now().Before(last.until) {
		return nil, last.err
	}
	client, err := t.connect(ctx, privateKey, knownHosts)
	if err == nil {
		return newSSHConn(client), nil
	}
	var refused *store.SSHError
	if errors.As(err, &refused) {
		now := time.Now()
		sshLogins.mu.Lock()
		defer sshLogins.mu.Unlock()
		maps.DeleteFunc(sshLogins.refused, func(_ string, r sshRefusal) bool { return now.After(r.until) })
		sshLogins.refused[name] = sshRefusal{now.Add(sshRefusedPause), err}
	}
	return nil, err
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
